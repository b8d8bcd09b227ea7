"""Files that the package's build makes: the host runtime, once per level of the instruction set."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime.abi import ABI_VERSION
from hip_compiler.runtime.cpu import Cpu, host

FOLDER = Path(__file__).resolve().parent.parent / "_native"


@dataclass(frozen=True)
class NativeRuntime:
    """The runtime for one level of the instruction set.

    Attributes:
        level: name of the level, for example ``x86-64-v3``.
        bitcode: the bitcode file.
        archive: the same as machine code, a static library.
    """

    level: str
    bitcode: Path
    archive: Path


def find(folder: Path = FOLDER, cpu: Cpu | None = None) -> NativeRuntime:
    """The best runtime of a folder for a CPU (by default the one at hand).

    Raises:
        HipCompilerError: `HIPC0503`, when the build has not made a fitting file; `HIPC0601`, when it was
            made for another version of the runtime ABI.
    """
    cpu = cpu or host()
    architecture = cpu.triple.partition("-")[0]
    # The manifest lists the weakest level first.
    for level in reversed(_levels(folder / "native.json")):
        if level.architecture == architecture and cpu.has(*level.requires):
            runtime = NativeRuntime(level.name, folder / level.bitcode, folder / level.archive)
            for path in (runtime.bitcode, runtime.archive):
                if not path.is_file():
                    raise _not_built(f"{path.name} is missing", folder)
            return runtime
    raise _not_built(f"no runtime fits this CPU ({architecture}, {cpu.name})", folder)


def gpu_runtime(platform: str, folder: Path = FOLDER) -> Path:
    """Bitcode of the runtime for GPUs of a platform of HIP, ``amd`` or ``nvidia``.

    Raises:
        HipCompilerError: `HIPC0503`, when the build has not made it.
    """
    path = folder / f"gpu-{platform}.bc"
    if not path.is_file():
        raise _not_built(f"the runtime for GPUs ({platform}) has not been built", path)
    return path


def device_functions(machine: str, folder: Path = FOLDER) -> Path:
    """Bitcode of functions of the C library for a kind of device, the first word of its LLVM triple.

    Raises:
        HipCompilerError: `HIPC0503`, when the build has not made it.
    """
    path = folder / f"functions-{machine}.bc"
    if not path.is_file():
        raise _not_built(f"the functions for devices ({machine}) have not been built", path)
    return path


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal; read again only when the file has changed."""
    status = path.stat()
    return _digest(path, status.st_mtime_ns, status.st_size)


@cache
def _digest(path: Path, mtime_ns: int, size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class _Level:
    name: str
    architecture: str
    bitcode: str
    archive: str
    requires: tuple[str, ...]


def _levels(manifest: Path) -> list[_Level]:
    """Levels that `native.json` lists."""
    try:
        document = json.loads(manifest.read_text(encoding="utf-8"))
        version = document["abi_version"]
        levels = [
            _Level(entry["name"], entry["arch"], entry["file"], entry["archive"], tuple(entry["requires"]))
            for entry in document["levels"]
        ]
    except FileNotFoundError:
        raise _not_built("the host runtime has not been built", manifest) from None
    except (ValueError, KeyError, TypeError) as error:
        raise _not_built(f"the manifest of the host runtime is damaged ({error!r})", manifest) from error
    if version != ABI_VERSION:
        raise HipCompilerError(
            ErrorCode.ABI_MISMATCH,
            f"the host runtime has ABI version {version}, this package has {ABI_VERSION}",
            where=str(manifest),
            hint="rebuild it: python kernels/build.py",
        )
    return levels


def _not_built(what: str, where: Path) -> HipCompilerError:
    return HipCompilerError(
        ErrorCode.NOT_BUILT,
        what,
        where=str(where),
        hint="in a source tree run: python kernels/build.py; else reinstall the package",
    )
