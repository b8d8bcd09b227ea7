"""Rules of runtime bitcode, checked on its symbol table before anything links it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.contributions import (
    BitcodeContribution,
    Contribution,
    DialectContribution,
    KernelContribution,
    LaunchLowering,
    LibraryContribution,
    OnnxOpClaim,
    TargetContribution,
    contents,
)
from hip_compiler.registry.device_audit import audit_device_kernels, audit_launch
from hip_compiler.registry.names import listing, nearest
from hip_compiler.registry.records import PluginRecord
from hip_compiler.registry.symbols import METADATA_GLOBALS, read_symbols
from hip_compiler.toolchain import host_architecture

RESERVED_PREFIXES = ("hipc_", "inference_", "llvm.")
CONSTRUCTORS = ("llvm.global_ctors", "llvm.global_dtors")


STATIC_HINT = "mark helpers 'static', prefix what is visible outside, and list replacements in overrides="
CHECK_HINT = "'hip-compiler plugins check' says the same before a plugin ships"


@dataclass(frozen=True)
class Names:
    """What all plugins register that others may refer to.

    Attributes:
        targets: targets, by name.
        ops: full names of operations.
        kernels: kernels for every target.
    """

    targets: Mapping[str, TargetContribution]
    ops: frozenset[str]
    kernels: tuple[KernelContribution, ...]

    @staticmethod
    def of(records: Sequence[PluginRecord]) -> Names:
        """Those of some plugins."""
        items = [item for record in records for item in record.contributions]
        return Names(
            {item.name: item for item in items if isinstance(item, TargetContribution)},
            frozenset(name for item in items if isinstance(item, DialectContribution) for name in item.op_names),
            tuple(item for item in items if isinstance(item, KernelContribution)),
        )


def audit_plugin(record: PluginRecord, names: Names) -> None:
    """Check everything of a plugin that is code, or names a target, an operation or a kernel.

    Raises:
        HipCompilerError: `HIPC0404`, with every finding as a detail.
    """
    findings = [finding for contribution in record.contributions for finding in _audit(contribution, names)]
    if findings:
        visible = any("overrides=" in finding or "symbols=" in finding for finding in findings)
        raise HipCompilerError(
            ErrorCode.PLUGIN_AUDIT,
            f"{record} does not pass the audit",
            details=findings,
            why="; ".join(findings) if len(findings) == 1 else f"{len(findings)} findings",
            hint=STATIC_HINT if visible else CHECK_HINT,
        )


def _audit(contribution: Contribution, names: Names) -> list[str]:
    if isinstance(contribution, DialectContribution):
        return _audit_launches(contribution, names)
    if isinstance(contribution, OnnxOpClaim) and contribution.lowers_to not in names.ops:
        hint = nearest(contribution.lowers_to, names.ops)
        claim = f"ONNX operator {contribution.domain}::{contribution.op}"
        return [f"{claim}: operation '{contribution.lowers_to}' is not registered" + (f"; {hint}" if hint else "")]
    if not isinstance(contribution, (BitcodeContribution, LibraryContribution, KernelContribution)):
        return []
    target = names.targets.get(contribution.target)
    if target is None:
        there = listing(names.targets)
        return [f"{contribution.name}: target '{contribution.target}' is not registered; targets: {there}"]
    if isinstance(contribution, BitcodeContribution):
        return audit_bitcode(contribution, target)
    if isinstance(contribution, KernelContribution):
        device = target.device
        return audit_kernels(contribution) if device is None else audit_device_kernels(contribution, device)
    return []


def _audit_launches(dialect: DialectContribution, names: Names) -> list[str]:
    findings = []
    known = {symbol for entry in names.kernels for symbol in entry.symbols}
    on_devices = [entry for entry in names.kernels if (t := names.targets.get(entry.target)) is not None and t.device]
    for op in dialect.ops:
        if isinstance(op.lowering, LaunchLowering) and op.lowering.kernel not in known:
            hint = nearest(op.lowering.kernel, known) or f"kernels: {listing(known)}"
            findings.append(f"operation '{op.name}': kernel '{op.lowering.kernel}' is not registered; {hint}")
        findings += audit_launch(op, on_devices)
    return findings


def audit_kernels(kernels: KernelContribution) -> list[str]:
    """Every rule that kernels for a CPU break: they are bitcode that defines exactly the symbols it lists."""
    try:
        symbols, triple = read_symbols(contents(kernels))
    except ValueError as error:
        return [f"{kernels.name}: {error}"]
    findings = []
    if triple and triple.split("-")[0] != kernels.architecture:
        findings.append(f"triple '{triple}' is not for {kernels.architecture or 'the architecture, which is empty'}")
    defined = {symbol.name for symbol in symbols}
    for symbol in symbols:
        if symbol.name in CONSTRUCTORS:
            findings.append(f"{symbol.name}: static constructors and destructors are not run")
        elif symbol.name.startswith(RESERVED_PREFIXES):
            findings.append(f"{symbol} belongs to the runtime")
        elif symbol.name not in kernels.symbols:
            findings.append(f"{symbol} is not listed in symbols=")
    findings += [f"kernel '{name}' is not defined in the bitcode" for name in kernels.symbols if name not in defined]
    return [f"{kernels.name}: {finding}" for finding in findings]


def audit_bitcode(bitcode: BitcodeContribution, target: TargetContribution) -> list[str]:
    """Every rule that runtime bitcode breaks, one sentence each, with the symbol or version named."""
    try:
        symbols, triple = read_symbols(contents(bitcode))
    except ValueError as error:
        return [f"{bitcode.name}: {error}"]
    findings = [f"triple '{triple}' is not for {wanted}" for wanted in _triple_mismatch(triple, target)]
    if not bitcode.prefix:
        findings.append("has no prefix")
    elif bitcode.prefix.startswith(RESERVED_PREFIXES):
        findings.append(f"prefix '{bitcode.prefix}' belongs to the runtime")
    for symbol in symbols:
        if symbol.name in CONSTRUCTORS:
            findings.append(f"{symbol.name}: static constructors and destructors are not run")
        elif symbol.name in bitcode.overrides or (bitcode.prefix and symbol.name.startswith(bitcode.prefix)):
            continue
        else:
            findings.append(f"{symbol} lacks the prefix '{bitcode.prefix}' and is not listed in overrides=")
    defined = {symbol.name for symbol in symbols}
    for name in bitcode.overrides:
        if name not in target.overridable:
            hint = nearest(name, target.overridable) or f"those are: {listing(target.overridable)}"
            findings.append(f"override '{name}' is no overridable symbol of target '{target.name}'; {hint}")
        elif name not in defined:
            findings.append(f"override '{name}' is not defined in the bitcode")
    return [f"{bitcode.name}: {finding}" for finding in findings]


def exported_symbols(bitcode: BitcodeContribution) -> tuple[str, ...]:
    """Names that the bitcode defines for others to see. It must have passed the audit."""
    return tuple(symbol.name for symbol in read_symbols(contents(bitcode))[0] if symbol.name not in METADATA_GLOBALS)


def _triple_mismatch(triple: str, target: TargetContribution) -> list[str]:
    if not triple:
        return []
    if target.architecture:
        fits = triple.split("-")[0] == target.architecture
        return [] if fits else [f"{target.architecture} (target '{target.name}')"]
    own = f"{host_architecture()}-{sys.platform}"
    return [] if _machine(triple) == _machine(own) else [f"this machine, {own} (target '{target.name}')"]


def _machine(triple: str) -> tuple[str, str]:
    words = [*triple.split("-"), "", "", ""]
    architecture = {"amd64": "x86_64", "arm64": "aarch64"}.get(words[0], words[0])
    system = next((name for name in ("linux", "windows", "darwin", "macos") if name in triple), "")
    return architecture, "darwin" if system == "macos" else system
