"""Instruction-set levels that host bitcode is built for."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass

from hip_compiler.errors import ErrorCode, HipCompilerError


@dataclass(frozen=True)
class Level:
    """One instruction-set level.

    Attributes:
        name: name in file names and in the manifest.
        cpu: CPU or architecture that clang's `-march` takes.
        features: further features, as LLVM names them.
        requires: features that the machine must have, as LLVM names them.
        flags: further compiler flags.
    """

    name: str
    cpu: str
    features: tuple[str, ...]
    requires: tuple[str, ...]
    flags: tuple[str, ...] = ()


_V2 = ("sse4.2", "popcnt", "ssse3")
_V3 = (*_V2, "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
# Without the flag clang halves 512-bit vectors for the generic v4 CPU.
_WIDE = ("-mprefer-vector-width=512",)

LEVELS: Mapping[str, tuple[Level, ...]] = {
    "x86_64": (
        Level("x86-64-v2", "x86-64-v2", (), _V2),
        Level("x86-64-v3", "x86-64-v3", (), _V3),
        Level("x86-64-v4", "x86-64-v4", (), _V4, _WIDE),
        Level(
            "x86-64-v4-vnni",
            "x86-64-v4",
            ("avx512vnni", "avx512bf16"),
            (*_V4, "avx512vnni", "avx512bf16"),
            _WIDE,
        ),
    ),
    "aarch64": (
        Level("aarch64-v8", "armv8-a", (), ("neon",)),
        Level("aarch64-v8.2", "armv8.2-a", ("dotprod", "fullfp16"), ("neon", "dotprod", "fullfp16")),
        Level(
            "aarch64-v8.6",
            "armv8.6-a",
            ("dotprod", "fullfp16", "bf16", "i8mm"),
            ("neon", "dotprod", "fullfp16", "bf16", "i8mm"),
        ),
    ),
}
"""Levels of each architecture, weakest first."""


def host_architecture() -> str:
    """Architecture of this machine, as `LEVELS` names it."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def levels_of(arch: str) -> tuple[Level, ...]:
    """Levels of an architecture.

    Raises:
        HipCompilerError: `HIPC0502`, for an architecture that has none.
    """
    if arch not in LEVELS:
        raise HipCompilerError(
            ErrorCode.TARGET_UNKNOWN,
            f"the host runtime knows no instruction-set levels of '{arch}'",
            hint=f"known are {', '.join(sorted(LEVELS))}",
        )
    return LEVELS[arch]


def runnable_levels() -> tuple[Level, ...]:
    """The levels that this machine can run, weakest first."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return tuple(level for level in levels_of(host_architecture()) if all(features.get(f) for f in level.requires))


def native_level() -> Level:
    """The strongest level that this machine can run.

    Raises:
        HipCompilerError: `HIPC0502`, on a CPU that can run none.
    """
    runnable = runnable_levels()
    if not runnable:
        raise HipCompilerError(ErrorCode.TARGET_UNKNOWN, "this CPU is older than the weakest level of the host runtime")
    return runnable[-1]
