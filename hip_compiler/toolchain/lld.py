"""The linker LLD: of the machine, of ROCm, or the one in the `ziglang` package."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from hip_compiler import knobs
from hip_compiler.errors import ErrorCode, HipCompilerError

NAMES = ("ld.lld-22", "ld.lld")
ROCM_LINKERS = ("lib/llvm/bin/ld.lld", "llvm/bin/ld.lld")


@cache
def find_lld() -> tuple[str, ...]:
    """Start of the command line of an LLD for ELF: the knob `HIPC_LLD`, else `ld.lld-22` or `ld.lld` on the path, else
    that of ROCm, else the `ziglang` package.

    Raises:
        HipCompilerError: `HIPC0503`, when there is none, or when the knob names none.
    """
    chosen = knobs.LLD.read()
    if chosen:
        path = shutil.which(chosen)
        if path is None:
            raise HipCompilerError(
                ErrorCode.NOT_BUILT,
                f"{knobs.LLD.name} names '{chosen}', which is no program",
                hint="give the path of an ld.lld",
            )
        return (path,)
    rocm = Path(knobs.ROCM_PATH.read())
    for name in (*NAMES, *(str(rocm / linker) for linker in ROCM_LINKERS)):
        path = shutil.which(name)
        if path is not None:
            return (path,)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "ld.lld")
    raise HipCompilerError(
        ErrorCode.NOT_BUILT,
        "there is no linker for code objects and shared libraries",
        why=f"{knobs.LLD.name} is not set, neither {' nor '.join(NAMES)} is on the path, {rocm} has none, and the "
        "package ziglang is not installed",
        hint="pip install ziglang, or install lld",
    )


def link(arguments: Sequence[str | Path], what: str) -> None:
    """Run LLD.

    Args:
        arguments: its command line.
        what: what is linked, for the message.

    Raises:
        HipCompilerError: `HIPC0501`, with what the linker says; `HIPC0503`, as `find_lld`.
    """
    command = [*find_lld(), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise HipCompilerError(
            ErrorCode.LINK, f"{what} cannot be linked", details=(result.stderr or result.stdout).splitlines()[:20]
        )
