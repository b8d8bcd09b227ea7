"""Builds the host runtime: `kernels/host/*.cpp` to one LLVM bitcode file per instruction-set level.

`python kernels/build.py --out DIR` writes `host-LEVEL.bc`, the same as machine code `host-LEVEL.a`, and the
manifest `native.json`. Sources are compiled one by one (results are kept under `DIR/.objects` by content) and linked
with llvmlite, so any clang will do: the one of the knob `HIPC_CLANG`, clang-22, or the one in the `ziglang` package.
Plugins build their own bitcode with `build_bitcode`.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import json
import multiprocessing
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from hip_compiler import knobs  # noqa: E402
from hip_compiler.errors import ErrorCode, HipCompilerError  # noqa: E402

INCLUDE = ROOT / "kernels" / "include"
HOST = ROOT / "kernels" / "host"
DEFAULT_OUT = ROOT / "hip_compiler" / "_native"
EXPORT_PREFIX = "hipc_"
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
    if importlib.util.find_spec("ziglang") is not None:
        return _describe((sys.executable, "-m", "ziglang", "c++"), is_zig=True)
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


def runtime_sources() -> tuple[Path, ...]:
    """Sources of the host runtime, in name order."""
    return tuple(sorted(HOST.glob("*.cpp")))


def build_bitcode(
    sources: Sequence[Path],
    out: Path,
    levels: Sequence[Level] | None = None,
    include_dirs: Sequence[Path] = (INCLUDE,),
    *,
    arch: str | None = None,
    stem: str = "host",
    export_prefix: str = EXPORT_PREFIX,
    compiler: Compiler | None = None,
) -> dict[str, Path]:
    """Compile C++ sources to one bitcode file per level.

    Args:
        sources: C++ files; each is a translation unit of its own.
        out: folder for `STEM-LEVEL.bc`, made when missing.
        levels: levels to build; every level of the architecture when not given.
        include_dirs: folders for `#include`; headers in them and beside the sources are part of the cache key.
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
    with _alone(out):
        parts = _compile_all(sources, out, levels, include_dirs, arch, compiler or find_compiler())
        return _link_all(parts, out, stem, export_prefix)


def _compile_all(
    sources: Sequence[Path],
    out: Path,
    levels: Sequence[Level],
    include_dirs: Sequence[Path],
    arch: str,
    compiler: Compiler,
) -> dict[str, list[Path]]:
    """Bitcode of every source, by level name."""
    headers = _headers_digest(sources, include_dirs)
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


def _link_all(parts: Mapping[str, Sequence[Path]], out: Path, stem: str, export_prefix: str) -> dict[str, Path]:
    return {
        name: _link(files, out / f"{stem}-{name}.bc", out / ".objects", export_prefix) for name, files in parts.items()
    }


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Hold the folder against other processes that build into it."""
    (out / ".objects").mkdir(parents=True, exist_ok=True)
    with (out / ".objects" / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _headers_digest(sources: Sequence[Path], include_dirs: Sequence[Path]) -> bytes:
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


def _generate(part: Path, cpu: str, features: Sequence[str]) -> Path:
    """Machine code of one source's bitcode, beside it."""
    import llvmlite.binding as llvm

    target = _object_of(part)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_bitcode(part.read_bytes())
    machine = llvm.Target.from_triple(module.triple).create_target_machine(
        cpu=cpu, features=",".join(f"+{feature}" for feature in features), opt=3, reloc="pic", codemodel="small"
    )
    private = target.with_suffix(f".{os.getpid()}.tmp")
    private.write_bytes(machine.emit_object(module))
    private.replace(target)
    return target


def _object_of(part: Path) -> Path:
    return part.with_suffix(".o")


def _generate_all(parts: Mapping[str, Sequence[Path]], levels: Sequence[Level], out: Path) -> dict[str, Path]:
    """Archives of machine code, by level name: models that are loaded on a level share it."""
    cpus = {"armv8-a": "generic", "armv8.2-a": "generic", "armv8.6-a": "generic"}
    missing = [
        (part, cpus.get(level.cpu, level.cpu), level.features)
        for level in levels
        for part in parts[level.name]
        if not _object_of(part).exists()
    ]
    if missing:
        # Processes, since in one process llvmlite lets in one caller at a time.
        workers = min(os.cpu_count() or 1, len(missing))
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            for job in [pool.submit(_generate, *arguments) for arguments in missing]:
                job.result()
    return {
        name: _archive([_object_of(part) for part in files], out / f"host-{name}.a") for name, files in parts.items()
    }


def _archive(objects: Sequence[Path], target: Path) -> Path:
    """A static library, as `ar` writes it with `D` and `S`: no times, no owners, no index of symbols."""
    content = [b"!<arch>\n"]
    for path in objects:
        data = path.read_bytes()
        name = path.name.partition("-")[0][:13] + ".o/"
        content.append(f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n".encode())
        content.append(data + b"\n" * (len(data) % 2))
    private = target.with_suffix(f".{os.getpid()}.tmp")
    private.write_bytes(b"".join(content))
    private.replace(target)
    return target


def _forget_old(objects: Path, kept: set[Path]) -> None:
    """Remove objects of the same sources and levels that this build did not use."""
    families = {re.sub(r"-[0-9a-f]{24}$", "", path.stem) for path in kept}
    for path in objects.glob("*.bc"):
        if path not in kept and re.sub(r"-[0-9a-f]{24}$", "", path.stem) in families:
            path.unlink(missing_ok=True)
            _object_of(path).unlink(missing_ok=True)


def abi_version() -> int:
    """Version of the runtime ABI, from its header."""
    found = re.search(r"^#define HIPC_ABI_VERSION (\d+)$", (INCLUDE / "hipc.h").read_text(), re.MULTILINE)
    if found is None:
        raise HipCompilerError(ErrorCode.INTERNAL, "hipc.h defines no HIPC_ABI_VERSION")
    return int(found.group(1))


def build_native(
    out: Path = DEFAULT_OUT, arch: str | None = None, levels: Sequence[Level] | None = None
) -> dict[str, Path]:
    """Build the host runtime for the levels of an architecture, and its manifest `native.json`.

    The manifest holds `abi_version`, `compiler`, `source_digest`, and `levels`, weakest first: `name`, `arch`, `file`
    (bitcode), `archive` (machine code), and the LLVM CPU features that it `requires`.
    """
    arch = arch or host_architecture()
    chosen = levels_of(arch) if levels is None else levels
    compiler = find_compiler()
    sources = runtime_sources()
    with _alone(out):
        parts = _compile_all(sources, out, chosen, (INCLUDE,), arch, compiler)
        built = _link_all(parts, out, "host", EXPORT_PREFIX)
        generated = _generate_all(parts, chosen, out)
    digest = hashlib.sha256(_headers_digest(sources, (INCLUDE,)))
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    manifest = {
        "abi_version": abi_version(),
        "compiler": compiler.version,
        "source_digest": digest.hexdigest(),
        "levels": [
            {
                "name": level.name,
                "arch": arch,
                "file": built[level.name].name,
                "archive": generated[level.name].name,
                "requires": list(level.requires),
            }
            for level in chosen
        ],
    }
    private = out / f"native.json.{os.getpid()}.tmp"
    private.write_text(json.dumps(manifest, indent=2) + "\n")
    private.replace(out / "native.json")
    return built


def build_shared(out: Path, level: Level | None = None, sources: Sequence[Path] | None = None) -> Path:
    """Build the host runtime as a shared library, from the same kind of bitcode; for tests.

    Args:
        out: folder for `libhipc-LEVEL-DIGEST.so`.
        level: level; the strongest that this machine runs when not given.
        sources: the part of the runtime to build; all of it when not given.
    """
    level = level or native_level()
    compiler = find_compiler()
    stem = "host" if sources is None else "part"
    chosen = runtime_sources() if sources is None else sources
    bitcode = build_bitcode(chosen, out, (level,), compiler=compiler, stem=stem)[level.name]
    name = f"libhipc-{stem}-{level.name}"
    library = out / f"{name}-{hashlib.sha256(bitcode.read_bytes()).hexdigest()[:24]}.so"
    with _alone(out / ".objects"):
        if not library.exists():
            _link_shared(compiler, bitcode, library)
        for old in out.glob(f"{name}-*.so"):
            if old != library and re.fullmatch(r"[0-9a-f]{24}", old.stem.removeprefix(f"{name}-")):
                old.unlink(missing_ok=True)
    return library


def _link_shared(compiler: Compiler, bitcode: Path, library: Path) -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_bitcode(bitcode.read_bytes())
    machine = llvm.Target.from_triple(module.triple).create_target_machine(opt=3, reloc="pic", codemodel="default")
    private = library.with_suffix(f".{os.getpid()}.tmp")
    private_object = library.with_suffix(f".{os.getpid()}.o")
    private_object.write_bytes(machine.emit_object(module))
    target = ["-target", f"{host_architecture()}-linux-gnu"] if compiler.is_zig else []
    command = [*compiler.command, *target, "-shared", str(private_object), "-o", str(private), "-lm", "-lpthread"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    private_object.unlink()
    if result.returncode != 0:
        raise HipCompilerError(
            ErrorCode.NOT_BUILT, "the host runtime does not link", details=result.stderr.strip().splitlines()[:40]
        )
    private.replace(library)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of the build."""
    parser = argparse.ArgumentParser(description="Build the host runtime as LLVM bitcode.")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder for the results (default: %(default)s)")
    parser.add_argument("--arch", choices=sorted(LEVELS), default=None, help="architecture (default: this machine's)")
    parser.add_argument("--level", action="append", help="build only this level; may be repeated")
    options = parser.parse_args(arguments)
    try:
        levels = levels_of(options.arch or host_architecture())
        unknown = set(options.level or ()) - {level.name for level in levels}
        if unknown:
            parser.error(f"unknown level {', '.join(sorted(unknown))}; known are {', '.join(x.name for x in levels)}")
        chosen = [level for level in levels if not options.level or level.name in options.level]
        for path in build_native(options.out, options.arch, chosen).values():
            print(path)
    except HipCompilerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
