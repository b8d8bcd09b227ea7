"""Device code of an artifact: for which architectures, and from where."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Any

from hip_compiler.core.codegen.device import device_code
from hip_compiler.core.passes.base import PassContext
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.audit import exported_symbols
from hip_compiler.registry.contributions import (
    BitcodeContribution,
    KernelContribution,
    LaunchLowering,
    TargetContribution,
    contents,
)
from hip_compiler.registry.records import PluginRecord
from hip_compiler.registry.registry import Registry
from hip_compiler.registry.symbols import read_symbols
from hip_compiler.runtime.cpu import OptLevel

INDEX = "index"
"""File that names the architectures, one a line."""


def choose_architectures(target: TargetContribution, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Architectures to compile for, each once.

    Raises:
        HipCompilerError: `HIPC0001`, when one is not of the target.
    """
    if target.device is None:
        if asked:
            raise HipCompilerError(
                ErrorCode.USAGE,
                f"target '{target.name}' has no architectures to choose from",
                hint="it always compiles for the CPU at hand; leave --arch out",
            )
        return ()
    known = target.device.architectures
    for name in asked:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise HipCompilerError(
                ErrorCode.USAGE,
                f"target '{target.name}' has no architecture '{name}'",
                hint=(f"did you mean '{near[0]}'? " if near else "") + f"known: {', '.join(known)}",
            )
    return tuple(dict.fromkeys(asked or target.device.default))


def callable_symbols(registry: Registry, target: TargetContribution) -> frozenset[str] | None:
    """Functions and kernels that programs for a target can use; None where it has every one, as the host has."""
    if target.device is None or target.runtime_bitcode is None:
        return None
    sources = [target.runtime_bitcode().read_bytes(), *(contents(entry) for entry in registry.bitcode(target.name))]
    functions = {symbol.name for source in sources for symbol in read_symbols(source)[0]}
    return frozenset(functions.union(*(entry.symbols for entry in registry.kernels(target.name))))


def used_symbols(module: Any, passes: PassContext) -> frozenset[str]:
    """Functions that a program calls from outside, and contributed kernels that its operations launch.

    Args:
        module: an `ir.Module` in the LLVM dialect.
    """
    functions = (op for op in module.body.operations if op.operation.name == "llvm.func")
    called = {op.attributes["sym_name"].value for op in functions if not op.operation.regions[0].blocks}
    lowerings = (passes.ops[name].lowering for name in passes.reports.get("ops", {}) if name in passes.ops)
    return frozenset(called | {lowering.kernel for lowering in lowerings if isinstance(lowering, LaunchLowering)})


def device_files(
    kernels: str,
    registry: Registry,
    target: TargetContribution,
    architectures: tuple[str, ...],
    opt_level: OptLevel,
    used: Collection[str],
) -> dict[str, bytes]:
    """Files of the artifact's device folder, by name: the target's library, generated kernels, plugins' kernels.

    Args:
        kernels: LLVM IR of the generated kernels; empty: there are none.
        used: from `used_symbols`. Kernels of plugins whose code the program does not use are left out.

    Raises:
        HipCompilerError: `HIPC0502`, when a plugin that the program uses has no kernels for an architecture; and as
            `device_code`.
    """
    if target.device is None:
        return {}
    files = {INDEX: "".join(f"{name}\n" for name in architectures).encode()}
    contributed = [entry for entry in registry.kernels(target.name) if _uses(registry.owner(entry), target, used)]
    for name in architectures:
        for number, entry in enumerate(_for_architecture(contributed, name, registry)):
            files[f"{name}.plugin{number}"] = contents(entry)
        files[f"{name}.library"] = target.device.library(name)
        if kernels:
            files[f"{name}.generated"] = device_code(kernels, target.device, name, opt_level)
    return files


def _uses(plugin: PluginRecord, target: TargetContribution, used: Collection[str]) -> bool:
    """Whether a program that uses some symbols runs code of a plugin, which may then launch any of its kernels."""
    for item in plugin.contributions:
        symbols: Collection[str] = ()
        if isinstance(item, KernelContribution) and item.target == target.name:
            symbols = item.symbols
        elif isinstance(item, BitcodeContribution) and item.target == target.name:
            # A function of the runtime that it replaces may be called by another one of the runtime.
            if item.overrides:
                return True
            symbols = exported_symbols(item)
        if not set(symbols).isdisjoint(used):
            return True
    return False


def _for_architecture(
    contributed: Sequence[KernelContribution], architecture: str, registry: Registry
) -> list[KernelContribution]:
    """Contributions for an architecture. A plugin that has kernels for others but not for this one is an error."""
    found = [entry for entry in contributed if entry.architecture == architecture]
    symbols = {symbol for entry in found for symbol in entry.symbols}
    for entry in contributed:
        lacking = sorted(set(entry.symbols) - symbols)
        if lacking:
            others = sorted({e.architecture for e in contributed if lacking[0] in e.symbols})
            raise HipCompilerError(
                ErrorCode.TARGET_UNKNOWN,
                f"{registry.owner(entry)} has no kernel '{lacking[0]}' for {architecture}",
                why=f"the model runs its code, which it has for {', '.join(others)}",
                hint="choose among those with --arch, or leave the plugin out with --plugins",
            )
    return found
