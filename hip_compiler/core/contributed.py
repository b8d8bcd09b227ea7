"""What plugins contribute to a program besides its operations: targets, bitcode, claims on what was not compiled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hip_compiler.core.frontend.node import PREFIX, REFUSED, domain_of, unsupported
from hip_compiler.core.frontend.opsets import module_opsets, opset_of
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.errors import ErrorCode, HipCompilerError, Unsupported, UnsupportedError
from hip_compiler.registry.contributions import CallLowering, Linker, TargetContribution, contents
from hip_compiler.registry.registry import Registry
from hip_compiler.runtime import Bitcode, cpu
from hip_compiler.toolchain import link_shared


def find_target(name: str, registry: Registry) -> TargetContribution:
    """A registered target.

    Raises:
        HipCompilerError: `HIPC0502`, listing those there are.
    """
    target = registry.targets.get(name)
    if target is None:
        raise HipCompilerError(
            ErrorCode.TARGET_UNKNOWN,
            f"there is no target '{name}'",
            hint=f"registered targets: {', '.join(sorted(registry.targets))}",
        )
    return target


def plugin_bitcode(registry: Registry, target: TargetContribution) -> list[Bitcode]:
    """Bitcode to link into a program of a target, in the order of the plugins: runtime functions, then kernels.

    On a target that runs on the CPU kernels are bitcode too; those for another machine are left aside. Kernels of a
    device are no part of the program: they travel beside it.
    """
    machine = target.architecture or cpu.host().triple.partition("-")[0]
    entries = [Bitcode(str(registry.owner(e)), contents(e), e.overrides) for e in registry.bitcode(target.name)]
    if target.device is not None:
        return entries
    kernels = [e for e in registry.kernels(target.name) if e.architecture == machine]
    return entries + [Bitcode(str(registry.owner(entry)), contents(entry)) for entry in kernels]


def owners_of_ops(registry: Registry, target: TargetContribution) -> dict[str, str]:
    """The plugin in words, by full name of each operation that a plugin implements on a target.

    That is the plugin that registers the operation, or the one that overrides the runtime function of a built-in one.
    """
    overridden = {symbol: str(registry.owner(e)) for e in registry.bitcode(target.name) for symbol in e.overrides}
    owners = {}
    for dialect in registry.dialects:
        owner = registry.owner(dialect)
        for op in dialect.ops:
            symbol = op.lowering.symbol if isinstance(op.lowering, CallLowering) else ""
            if symbol in overridden:
                owners[op.name] = overridden[symbol]
            elif not owner.builtin:
                owners[op.name] = str(owner)
    return owners


def target_runtime(registry: Registry, target: TargetContribution) -> Bitcode | None:
    """Bitcode of the runtime that a target brings; None where it uses the host runtime of this package."""
    if target.runtime_bitcode is None:
        return None
    return Bitcode(f"the runtime of {registry.owner(target)}", target.runtime_bitcode().read_bytes())


def target_linker(registry: Registry, target: TargetContribution) -> Linker:
    """The linker of a target. What it raises that is no message for users becomes one, which names its plugin."""
    linker = target.linker or link_shared
    name = f"the linker of target '{target.name}' of {registry.owner(target)}"

    def link(inputs: Sequence[Path], output: Path, *, exports: Sequence[str], libraries: Sequence[str]) -> None:
        try:
            linker(inputs, output, exports=exports, libraries=libraries)
        except HipCompilerError:
            raise
        except Exception as error:
            raise HipCompilerError(ErrorCode.LINK, f"{name} failed", why=f"{type(error).__name__}: {error}") from error
        if not output.is_file():
            raise HipCompilerError(ErrorCode.LINK, f"{name} wrote no file")

    return link


def refused_by_claims(module: Any, passes: PassContext) -> list[Unsupported]:
    """What verifiers of plugins' claims say of a freshly imported module; the operations concerned are marked.

    They speak before anything is folded or converted, so that one report lists what is wrong with every node.
    """
    if not any(claim.verify is not None for claim in passes.claims):
        return []
    opsets, findings = module_opsets(module), list[Unsupported]()

    def visit(op: Any) -> Any:
        if op.name.startswith(PREFIX):
            claim = passes.claim(domain_of(op), op.name.removeprefix(PREFIX), opset_of(op, opsets))
            problem = claim.verify(op) if claim is not None and claim.verify is not None else None
            if problem is not None:
                findings.append(unsupported(op, problem, opsets))
                op.attributes[REFUSED] = ir.UnitAttr.get(op.context)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return findings


def claimants(error: UnsupportedError, registry: Registry) -> list[str]:
    """Plugins that have something to do with operators that could not be compiled, one sentence each."""
    found: dict[str, None] = {}
    for finding in error.findings:
        for record in registry.plugins:
            if finding.domain in record.domains and record.state != "active":
                found[f"{record} has operators of domain '{finding.domain}', but is {record.state}"] = None
        for claim in registry.onnx_ops:
            covered = claim.since <= finding.opset and (claim.until is None or finding.opset <= claim.until)
            if (claim.domain, claim.op) == (finding.domain, finding.op) and not covered:
                until = f"to {claim.until}" if claim.until else "on"
                owner = registry.owner(claim)
                found[f"{owner} claims {claim.domain}::{claim.op} from opset {claim.since} {until}"] = None
    return list(found)
