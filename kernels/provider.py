"""Builds `kernels/ort_ep/*.cpp` to `libhip_ep.so`, the execution provider for ONNX Runtime.

It needs neither ONNX Runtime's headers nor its library, and of the system the C library alone. `build_for` builds it
for other systems, with the compiler of the package `ziglang`, which brings what each of them needs:
`python -m kernels.provider x86_64-windows aarch64-macos`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.toolchain.bitcode import alone, headers_digest
from hip_compiler.toolchain.compiler import Compiler, find_compiler
from hip_compiler.toolchain.levels import host_architecture
from hip_compiler.version import VERSION

ROOT = Path(__file__).resolve().parent
SOURCES = ROOT / "ort_ep"
INCLUDE = ROOT / "include"
LIBRARY = "libhip_ep.so"
# The oldest C library that the provider can then be loaded with, where the compiler can choose.
GLIBC = "2.27"
FLAGS = (
    *("-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden"),
    *("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-stack-protector", "-U_FORTIFY_SOURCE"),
    f'-DHIP_EP_VERSION="{VERSION}"',
)

LINUX = (f"-I{INCLUDE}", "-shared", "-Wl,--as-needed", "-Wl,-z,nodelete")
SYSTEMS = {
    "x86_64-linux": f"x86_64-linux-gnu.{GLIBC}",
    "aarch64-linux": f"aarch64-linux-gnu.{GLIBC}",
    "x86_64-windows": "x86_64-windows-gnu",
    "x86_64-macos": "x86_64-macos",
    "aarch64-macos": "aarch64-macos",
}
"""What ONNX Runtime has wheels for, and what zig calls it."""
FILES = {"linux": LIBRARY, "windows": "hip_ep.dll", "macos": "libhip_ep.dylib"}


def build_provider(out: Path, compiler: Compiler | None = None) -> Path:
    """Build the provider's library into a folder; what has not changed is not built again.

    Raises:
        HipCompilerError: `HIPC0503`, with the compiler's messages.
    """
    compiler = compiler or find_compiler()
    sources = sorted(SOURCES.glob("*.cpp"))
    library = out / LIBRARY
    digest = hashlib.sha256(headers_digest(sources, (INCLUDE,)))
    command = _command(compiler)
    digest.update("\0".join((*command, compiler.version)).encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    with alone(out):
        stamp = out / ".objects" / f"{LIBRARY}.built"
        if library.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest():
            return library
        private = library.with_suffix(f".{os.getpid()}.tmp")
        _run([*command, *LINUX, *map(str, sources), "-o", str(private)])
        private.replace(library)
        stamp.write_text(digest.hexdigest())
    return library


def build_for(system: str, out: Path, compiler: Compiler) -> Path:
    """Build the provider's library for one of `SYSTEMS` into a folder of that name.

    Args:
        compiler: zig.

    Raises:
        HipCompilerError: `HIPC0503`, with the compiler's messages.
    """
    kind = system.partition("-")[2]
    folder = out / system
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / FILES[kind]
    sources = map(str, sorted(SOURCES.glob("*.cpp")))
    words = [*compiler.command, "-target", SYSTEMS[system], *FLAGS, "-nostdlib++", "-s"]
    with tempfile.TemporaryDirectory(dir=folder) as name:
        # What is made beside a DLL is for linking against it, which nobody does.
        private = Path(name, library.name)
        _run([*words, *(LINUX if kind == "linux" else ("-shared", f"-I{INCLUDE}")), *sources, "-o", str(private)])
        private.replace(library)
    return library


def zig() -> Compiler | None:
    """The compiler of the package `ziglang`; None where it is not installed."""
    if importlib.util.find_spec("ziglang") is None:
        return None
    return Compiler((sys.executable, "-m", "ziglang", "c++"), True, "ziglang")


def _run(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HipCompilerError(
            ErrorCode.NOT_BUILT,
            "the execution provider does not build",
            where=str(SOURCES),
            details=done.stderr.strip().splitlines()[:40],
        )


def _command(compiler: Compiler) -> list[str]:
    """The compiler with the flags; nothing of a C++ library is linked."""
    target = f"{host_architecture()}-linux-gnu"
    if compiler.is_zig:
        return [*compiler.command, "-target", f"{target}.{GLIBC}", *FLAGS, "-nostdlib++"]
    linker = shutil.which("ld.lld-22")
    version = re.search(r"version (\d+)", compiler.version)
    chosen = [f"--ld-path={linker}"] if linker and version and int(version[1]) >= 12 else []
    return [*compiler.command, f"--target={target}", *FLAGS, "-nostdlib++", *chosen]


def main() -> int:
    """Command line: builds for other systems."""
    parser = argparse.ArgumentParser(prog="python -m kernels.provider", description="Build the execution provider.")
    parser.add_argument("system", nargs="+", choices=sorted(SYSTEMS))
    parser.add_argument("--out", type=Path, default=ROOT.parent / "build" / "provider", help="folder (%(default)s)")
    options = parser.parse_args()
    compiler = zig()
    if compiler is None:
        parser.error("the package ziglang is not installed: pip install ziglang")
    try:
        for system in options.system:
            print(build_for(system, options.out, compiler))
    except HipCompilerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
