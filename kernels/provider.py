"""Builds `kernels/ort_ep/*.cpp` to `libhip_ep.so`, the execution provider for ONNX Runtime.

It needs neither ONNX Runtime's headers nor its library, and of the system the C library alone.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
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
        words = [
            *command,
            f"-I{INCLUDE}",
            "-shared",
            "-Wl,--as-needed",
            "-Wl,-z,nodelete",
            *map(str, sources),
            "-o",
            str(private),
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise HipCompilerError(
                ErrorCode.NOT_BUILT,
                "the execution provider does not build",
                where=str(SOURCES),
                details=done.stderr.strip().splitlines()[:40],
            )
        private.replace(library)
        stamp.write_text(digest.hexdigest())
    return library


def _command(compiler: Compiler) -> list[str]:
    """The compiler with the flags; nothing of a C++ library is linked."""
    target = f"{host_architecture()}-linux-gnu"
    if compiler.is_zig:
        return [*compiler.command, "-target", f"{target}.{GLIBC}", *FLAGS, "-nostdlib++"]
    linker = shutil.which("ld.lld-22")
    version = re.search(r"version (\d+)", compiler.version)
    chosen = [f"--ld-path={linker}"] if linker and version and int(version[1]) >= 12 else []
    return [*compiler.command, f"--target={target}", *FLAGS, "-nostdlib++", *chosen]
