"""C++ sources to LLVM bitcode, one file per instruction-set level.

Sources are compiled one by one (results are kept under `OUT/.objects` by content) and linked with llvmlite, so any
clang will do. The host runtime is built with it, and so is the bitcode of plugins.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.toolchain.compiler import Compiler, find_compiler
from hip_compiler.toolchain.headers import include_folder
from hip_compiler.toolchain.levels import Level, host_architecture, levels_of

# Conversions that the code generator calls by the names of the compiler's own library: `kernels/host/conversions.cpp`.
CODEGEN_PREFIXES = ("__trunc", "__extend")

FLAGS = (
    "-std=c++20",
    "-O3",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-exceptions",
    "-fno-rtti",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fvisibility=default",
    "-fPIC",
    "-fno-stack-protector",
    "-fno-threadsafe-statics",
    "-U_FORTIFY_SOURCE",
)


def build_bitcode(
    sources: Sequence[Path],
    out: Path,
    levels: Sequence[Level] | None = None,
    include_dirs: Sequence[Path] | None = None,
    *,
    arch: str | None = None,
    stem: str = "host",
    export_prefix: str = "hipc_",
    compiler: Compiler | None = None,
) -> dict[str, Path]:
    """Compile C++ sources to one bitcode file per level.

    Args:
        sources: C++ files; each is a translation unit of its own.
        out: folder for `STEM-LEVEL.bc`, made when missing.
        levels: levels to build; every level of the architecture when not given.
        include_dirs: folders for `#include`, by default that of `hipc.h`; headers in them and beside the sources are
            part of the cache key.
        arch: architecture; this machine's when not given.
        stem: start of the file names.
        export_prefix: what the names of the functions and variables to keep visible start with; the rest becomes
            private to the bitcode.
        compiler: compiler; `find_compiler()` when not given.

    Returns:
        Path of the bitcode by level name.

    Raises:
        HipCompilerError: `HIPC0503`, with the compiler's messages, when a source does not compile.
    """
    arch = arch or host_architecture()
    levels = levels_of(arch) if levels is None else levels
    include_dirs = (include_folder(),) if include_dirs is None else include_dirs
    with alone(out):
        parts = compile_all(sources, out, levels, include_dirs, arch, compiler or find_compiler())
        return link_all(parts, out, stem, export_prefix)


def compile_all(
    sources: Sequence[Path],
    out: Path,
    levels: Sequence[Level],
    include_dirs: Sequence[Path],
    arch: str,
    compiler: Compiler,
) -> dict[str, list[Path]]:
    """Bitcode of every source, by level name."""
    headers = headers_digest(sources, include_dirs)
    jobs = [(level, source) for level in levels for source in sources]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        compiled = list(
            pool.map(
                lambda job: _compile(compiler, arch, job[0], job[1], include_dirs, headers, out / ".objects"), jobs
            )
        )
    _forget_old(out / ".objects", set(compiled))
    return {
        level.name: [path for (owner, _), path in zip(jobs, compiled, strict=True) if owner == level]
        for level in levels
    }


def link_all(parts: Mapping[str, Sequence[Path]], out: Path, stem: str, export_prefix: str) -> dict[str, Path]:
    """One file `STEM-LEVEL.bc` per level; its path by level name."""
    return {
        name: _link(files, out / f"{stem}-{name}.bc", out / ".objects", export_prefix) for name, files in parts.items()
    }


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Hold the folder against other processes that build into it."""
    (out / ".objects").mkdir(parents=True, exist_ok=True)
    with (out / ".objects" / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def headers_digest(sources: Sequence[Path], include_dirs: Sequence[Path]) -> bytes:
    """Digest of every header that the sources may include."""
    digest = hashlib.sha256()
    folders = {*include_dirs, *(source.parent for source in sources)}
    for header in sorted({path for folder in folders for path in folder.rglob("*.h")}):
        digest.update(header.name.encode() + b"\0" + header.read_bytes() + b"\0")
    return digest.digest()


def _compile(
    compiler: Compiler,
    arch: str,
    level: Level,
    source: Path,
    include_dirs: Sequence[Path],
    headers: bytes,
    objects: Path,
) -> Path:
    flags = [*FLAGS, *compiler.target_flags(arch, level)]
    key = hashlib.sha256(
        b"\0".join((headers, source.read_bytes(), " ".join(flags).encode(), compiler.version.encode()))
    ).hexdigest()[:24]
    target = objects / f"{source.stem}-{level.name}-{key}.bc"
    if target.exists():
        return target
    private = target.with_suffix(f".{os.getpid()}.tmp.bc")
    command = [*compiler.command, *flags, *(f"-I{folder}" for folder in include_dirs)]
    command += ["-emit-llvm", "-c", str(source), "-o", str(private)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise HipCompilerError(
            ErrorCode.NOT_BUILT,
            f"{source.name} does not compile for {level.name}",
            where=str(source),
            details=result.stderr.strip().splitlines()[:40],
        )
    private.replace(target)
    return target


def _link_stamp(target: Path, objects: Path) -> Path:
    return objects / f"{target.name}.linked"


def _link(parts: Sequence[Path], target: Path, objects: Path, export_prefix: str) -> Path:
    """Link bitcode files to one whose only visible definitions carry the prefix."""
    import llvmlite.binding as llvm

    stamp = _link_stamp(target, objects)
    key = "\n".join([export_prefix, *(part.name for part in parts)])
    if target.exists() and stamp.exists() and stamp.read_text() == key:
        return target
    module = llvm.parse_bitcode(parts[0].read_bytes())
    for part in parts[1:]:
        module.link_in(llvm.parse_bitcode(part.read_bytes()))
    for value in [*module.functions, *module.global_variables]:
        exported = value.name.startswith((export_prefix, "llvm.", *CODEGEN_PREFIXES))
        if not value.is_declaration and not exported:
            value.linkage = "internal"
    module.verify()
    private = target.with_suffix(f".{os.getpid()}.tmp")
    private.write_bytes(module.as_bitcode())
    private.replace(target)
    stamp.write_text(key)
    return target


def _forget_old(objects: Path, kept: set[Path]) -> None:
    """Remove objects of the same sources and levels that this build did not use."""
    families = {re.sub(r"-[0-9a-f]{24}$", "", path.stem) for path in kept}
    for path in objects.glob("*.bc"):
        if path not in kept and re.sub(r"-[0-9a-f]{24}$", "", path.stem) in families:
            path.unlink(missing_ok=True)
            object_of(path).unlink(missing_ok=True)


def object_of(part: Path) -> Path:
    return part.with_suffix(".o")
