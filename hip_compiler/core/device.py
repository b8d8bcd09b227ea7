"""Device code of an artifact: for which architectures, and from where."""

from __future__ import annotations

from difflib import get_close_matches

from hip_compiler.core.codegen.device import device_code
from hip_compiler.core.contributed import contents
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.contributions import KernelContribution, TargetContribution
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
    """Runtime functions that programs for a target can call; None where it has every one, as the host has."""
    if target.device is None or target.runtime_bitcode is None:
        return None
    sources = [target.runtime_bitcode().read_bytes(), *(contents(entry) for entry in registry.bitcode(target.name))]
    return frozenset(symbol.name for source in sources for symbol in read_symbols(source)[0])


def device_files(
    kernels: str, registry: Registry, target: TargetContribution, architectures: tuple[str, ...], opt_level: OptLevel
) -> dict[str, bytes]:
    """Files of the artifact's device folder, by name: the target's library, generated kernels, plugins' kernels.

    Args:
        kernels: LLVM IR of the generated kernels; empty: there are none.

    Raises:
        HipCompilerError: a plugin has no kernels for an architecture; and as `device_code`.
    """
    if target.device is None:
        return {}
    files = {INDEX: "".join(f"{name}\n" for name in architectures).encode()}
    contributed = registry.kernels(target.name)
    for name in architectures:
        files[f"{name}.library"] = target.device.library(name)
        if kernels:
            files[f"{name}.generated"] = device_code(kernels, target.device, name, opt_level)
        for number, entry in enumerate(_for_architecture(contributed, name, registry)):
            files[f"{name}.plugin{number}"] = contents(entry)
    return files


def _for_architecture(
    contributed: tuple[KernelContribution, ...], architecture: str, registry: Registry
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
                hint=f"it has code for {', '.join(others)}: choose among them with --arch",
            )
    return found
