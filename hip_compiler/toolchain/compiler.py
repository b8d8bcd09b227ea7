"""The C++ compiler: clang 22 from the machine, or the one in the `ziglang` package."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hip_compiler import knobs
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.toolchain.levels import Level


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler.

    Attributes:
        command: start of its command line.
        is_zig: it takes zig's spelling of targets and CPUs.
        version: first line of what it says about itself; part of every cache key.
    """

    command: tuple[str, ...]
    is_zig: bool
    version: str

    def target_flags(self, arch: str, level: Level) -> list[str]:
        """Flags that choose the target and the level."""
        if self.is_zig:
            cpu = {"armv8-a": "generic+v8a", "armv8.2-a": "generic+v8_2a", "armv8.6-a": "generic+v8_6a"}.get(
                level.cpu, level.cpu.replace("-", "_")
            )
            return ["-target", f"{arch}-linux-gnu", "-mcpu=" + "+".join((cpu, *level.features)), *level.flags]
        flags = [f"--target={arch}-linux-gnu"]
        if arch == "aarch64":
            words = {"fullfp16": "fp16"}
            flags.append("-march=" + "+".join((level.cpu, *(words.get(f, f) for f in level.features))))
        else:
            flags += [f"-march={level.cpu}", *(f"-m{feature}" for feature in level.features)]
        return [*flags, *level.flags]


def find_compiler() -> Compiler:
    """The clang to use: the knob `HIPC_CLANG`, else clang-22 on the path, else the `ziglang` package.

    Raises:
        HipCompilerError: `HIPC0503`, when there is none, or when the knob names none.
    """
    chosen = knobs.CLANG.read()
    if chosen:
        path = shutil.which(chosen)
        if path is None:
            raise HipCompilerError(
                ErrorCode.NOT_BUILT,
                f"{knobs.CLANG.name} names '{chosen}', which is no program",
                hint="give the path of a clang++ or of zig",
            )
        name = Path(path).name
        if name.startswith("zig"):
            return _describe((path, "c++"), is_zig=True)
        return _describe((path,) if "++" in name else (path, "--driver-mode=g++"), is_zig=False)
    path = shutil.which("clang++-22")
    if path is not None:
        return _describe((path,), is_zig=False)
    package = importlib.util.find_spec("ziglang")
    if package is not None:
        # Python would be started once a source, only to start this.
        programs = [
            Path(folder, name) for folder in package.submodule_search_locations or () for name in ("zig", "zig.exe")
        ]
        command = next(
            ((str(program),) for program in programs if program.is_file()), (sys.executable, "-m", "ziglang")
        )
        return _describe((*command, "c++"), is_zig=True)
    raise HipCompilerError(
        ErrorCode.NOT_BUILT,
        "there is no compiler to build the host runtime with",
        why=f"{knobs.CLANG.name} is not set, clang++-22 is not on the path, and the package ziglang is not installed",
        hint="pip install ziglang, or install clang-22",
    )


def _describe(command: tuple[str, ...], *, is_zig: bool) -> Compiler:
    result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    if result.returncode != 0 or "clang" not in result.stdout:
        raise HipCompilerError(
            ErrorCode.NOT_BUILT,
            f"'{' '.join(command)}' is not clang",
            why=(result.stderr or result.stdout).strip()[:200],
            hint=f"set {knobs.CLANG.name} to a clang++ 18 or later, or to zig",
        )
    return Compiler(command, is_zig, result.stdout.splitlines()[0].strip())
