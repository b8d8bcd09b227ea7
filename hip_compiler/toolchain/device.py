"""Device code: HIP sources to one code object (or PTX module) per GPU architecture, and the pack that holds them all.

Sources are compiled one by one to bitcode with a freestanding header, so any clang will do and no ROCm or CUDA is
needed; llvmlite makes machine code of it, LLD a code object. Bitcode and objects are kept under `OUT/.objects` by
content. The library's own kernels are built with it, and so are those of plugins.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import multiprocessing
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.toolchain import notes
from hip_compiler.toolchain.bitcode import alone, headers_digest
from hip_compiler.toolchain.compiler import Compiler, find_compiler
from hip_compiler.toolchain.headers import PACKAGE
from hip_compiler.toolchain.lld import find_linker

AMD_ARCHITECTURES = (
    "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1103",
    "gfx1150", "gfx1151", "gfx1152", "gfx1200", "gfx1201",
    "gfx9-generic", "gfx9-4-generic", "gfx10-1-generic", "gfx10-3-generic", "gfx11-generic", "gfx12-generic",
)  # fmt: skip
NVIDIA_ARCHITECTURES = ("sm_80", "sm_90")
ARCHITECTURES = (*AMD_ARCHITECTURES, *NVIDIA_ARCHITECTURES)
"""What the library's kernels are built for."""

FLAGS = (
    "-std=c++20",
    # At -O3 loops are copied for every uniform condition in them: much code, no speed.
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unknown-cuda-version",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-ffreestanding",
    "-c",
    "-emit-llvm",
)


# Of what `_link` does; part of what its results are known by.
_LINK_VERSION = "2"


@dataclass(frozen=True)
class Job:
    """One source for one architecture."""

    source: Path
    architecture: str


def is_nvidia(architecture: str) -> bool:
    """Whether the architecture is one of NVIDIA's, ``sm_NN``."""
    return architecture.startswith("sm_")


def include_folder() -> Path:
    """Folder of `hipc_device.h`: the source tree's when the package is used in place, else the installed copy."""
    source = PACKAGE.parent / "kernels" / "device"
    return source if (source / "hipc_device.h").is_file() else PACKAGE / "_native" / "include"


def build_images(
    sources: Sequence[Path],
    out: Path,
    architectures: Sequence[str] = ARCHITECTURES,
    include_dirs: Sequence[Path] | None = None,
    *,
    stem: str = "device",
    compiler: Compiler | None = None,
) -> dict[str, Path]:
    """Compile HIP sources to one image per architecture.

    Args:
        sources: HIP files; each is a translation unit of its own.
        out: folder, made when missing; the images are `.objects/STEM-ARCH.co` or `.objects/STEM-ARCH.ptx` in it.
        architectures: processors as LLVM names them, generic ones included, or ``sm_NN``.
        include_dirs: folders for `#include`, by default that of `hipc_device.h`.
        stem: start of the file names.
        compiler: compiler; `find_compiler()` when not given.

    Returns:
        Path of the image by architecture. PTX ends with a NUL byte, as the driver wants it.

    Raises:
        HipCompilerError: `HIPC0503`, with the compiler's messages, when a source does not compile; `HIPC0501`, when
            the parts do not link.
    """
    include_dirs = (include_folder(),) if include_dirs is None else include_dirs
    compiler = compiler or find_compiler()
    jobs = [Job(source, architecture) for architecture in architectures for source in sources]
    with alone(out):
        objects = out / ".objects"
        headers = headers_digest(sources, include_dirs)
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            bitcode = list(pool.map(lambda job: _compile(compiler, job, include_dirs, headers, objects), jobs))
        _generate_all([(job.architecture, path) for job, path in zip(jobs, bitcode, strict=True)])
        parts: dict[str, list[Path]] = {architecture: [] for architecture in architectures}
        for job, path in zip(jobs, bitcode, strict=True):
            parts[job.architecture].append(path)
        images = {name: _link(name, files, out, stem) for name, files in parts.items()}
        _forget_old(objects, sources, architectures, set(bitcode))
    return images


def build_functions(source: Path, out: Path, compiler: Compiler | None = None) -> dict[str, Path]:
    """Compile C++ without kernels to bitcode that generated kernels link, for no architecture in particular.

    Args:
        source: C++ file that needs no headers but the compiler's own.
        out: folder for `functions-MACHINE.bc`.
        compiler: compiler; `find_compiler()` when not given.

    Returns:
        Path of the bitcode by the first word of the LLVM triple: amdgcn and nvptx64.

    Raises:
        HipCompilerError: `HIPC0503`, with the compiler's messages, when the source does not compile.
    """
    compiler = compiler or find_compiler()
    built = {}
    with alone(out):
        for triple in ("amdgcn-amd-amdhsa", "nvptx64-nvidia-cuda"):
            machine = triple.partition("-")[0]
            target = out / f"functions-{machine}.bc"
            private = target.with_suffix(f".{os.getpid()}.tmp")
            # Products and sums stay apart where the source says so: its accuracy rests on them.
            flags = [
                *(flag for flag in FLAGS if not flag.startswith("-ffp-contract")),
                "-ffp-contract=off",
                "-fno-exceptions",
            ]
            command = [*_device_command(compiler), "-x", "c++", f"--target={triple}", "-nogpulib", *flags]
            _run([*command, str(source), "-o", str(private)], source, machine)
            private.replace(target)
            built[machine] = target
    return built


def write_pack(images: Mapping[str, Path], target: Path) -> Path:
    """Write images to one file: a line of JSON that lists them, then their compressed contents one after the other."""
    entries, contents, offset = [], [], 0
    for architecture, path in images.items():
        raw = path.read_bytes()
        packed = lzma.compress(raw, preset=6)
        entries.append({"arch": architecture, "offset": offset, "size": len(packed), "bytes": len(raw)})
        contents.append(packed)
        offset += len(packed)
    index = json.dumps({"format": 1, "images": entries}).encode() + b"\n"
    private = target.with_suffix(f".{os.getpid()}.tmp")
    private.write_bytes(index + b"".join(contents))
    private.replace(target)
    return target


def _compile(compiler: Compiler, job: Job, include_dirs: Sequence[Path], headers: bytes, objects: Path) -> Path:
    flags = [*FLAGS, *_target_flags(job.architecture)]
    contents = (headers, job.source.read_bytes(), " ".join(flags).encode(), compiler.version.encode())
    key = hashlib.sha256(b"\0".join(contents)).hexdigest()[:24]
    target = objects / f"{job.source.stem}-{job.architecture}-{key}.bc"
    if target.exists():
        return target
    private = target.with_suffix(f".{os.getpid()}.tmp.bc")
    command = [*_device_command(compiler), *flags, *(f"-I{folder}" for folder in include_dirs)]
    _run([*command, str(job.source), "-o", str(private)], job.source, job.architecture)
    private.replace(target)
    return target


def _run(command: Sequence[str], source: Path, architecture: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise HipCompilerError(
            ErrorCode.NOT_BUILT,
            f"{source.name} does not compile for {architecture}",
            where=str(source),
            details=result.stderr.strip().splitlines()[:40],
        )


def _device_command(compiler: Compiler) -> tuple[str, ...]:
    # `zig c++` knows no HIP; `zig clang` is clang as it is.
    if compiler.is_zig:
        return (*compiler.command[:-1], "clang")
    return compiler.command


def _target_flags(architecture: str) -> list[str]:
    if is_nvidia(architecture):
        return ["-x", "cuda", f"--cuda-gpu-arch={architecture}", "--cuda-device-only", "-nocudainc", "-nocudalib"]
    own = ["-x", "hip", f"--offload-arch={architecture}", "--offload-device-only", "--no-gpu-bundle-output"]
    return [*own, "-nogpuinc", "-nogpulib"]


def _generate_all(parts: Sequence[tuple[str, Path]]) -> None:
    missing = [(name, path) for name, path in parts if not is_nvidia(name) and not path.with_suffix(".o").exists()]
    if not missing:
        return
    # Processes, since in one process llvmlite lets in one caller at a time.
    workers = min(os.cpu_count() or 1, len(missing))
    if workers == 1 or len(missing) < 8:
        for name, path in missing:
            _generate(name, path)
        return
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for job in [pool.submit(_generate, name, path) for name, path in missing]:
            job.result()


def _generate(architecture: str, path: Path) -> None:
    """Machine code of one source's bitcode, beside it."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_bitcode(path.read_bytes())
    machine = llvm.Target.from_triple(module.triple).create_target_machine(cpu=architecture, opt=3, reloc="pic")
    private = path.with_suffix(f".{os.getpid()}.tmp")
    private.write_bytes(machine.emit_object(module))
    private.replace(path.with_suffix(".o"))


def _link(architecture: str, parts: Sequence[Path], out: Path, stem: str) -> Path:
    nvidia = is_nvidia(architecture)
    target = out / ".objects" / f"{stem}-{architecture}.{'ptx' if nvidia else 'co'}"
    stamp = target.with_suffix(".linked")
    key = "\n".join([_LINK_VERSION, *(part.name for part in parts)])
    if target.exists() and stamp.exists() and stamp.read_text() == key:
        return target
    private = target.with_suffix(f".{os.getpid()}.tmp")
    if nvidia:
        private.write_bytes(_ptx(architecture, parts))
    else:
        with tempfile.TemporaryDirectory(prefix="hipc-device-") as folder:
            objects = _with_one_note(architecture, parts, Path(folder))
            _run_linker(architecture, ["-shared", "--no-undefined", *map(str, objects), "-o", str(private)])
    private.replace(target)
    stamp.write_text(key)
    return target


def _with_one_note(architecture: str, parts: Sequence[Path], folder: Path) -> list[Path]:
    """The objects of the parts without their notes, and one that holds the note for all of them."""
    import llvmlite.binding as llvm

    objects, metadata = [], []
    for part in parts:
        image, found = notes.take_notes(part.with_suffix(".o").read_bytes())
        metadata += found
        objects.append(folder / f"{part.stem}.o")
        objects[-1].write_bytes(image)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = llvm.parse_bitcode(parts[0].read_bytes()).triple
    text = notes.module(notes.merge(metadata, architecture), triple)
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=architecture, opt=1, reloc="pic")
    image, _ = notes.take_notes(machine.emit_object(llvm.parse_assembly(text)), keep=notes.NOTE_SECTION)
    objects.append(folder / "note.o")
    objects[-1].write_bytes(image)
    return objects


def _run_linker(architecture: str, arguments: Sequence[str]) -> None:
    result = subprocess.run([*find_linker(), *arguments], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise HipCompilerError(
            ErrorCode.LINK,
            f"device code for {architecture} does not link",
            details=(result.stderr or result.stdout).strip().splitlines()[:20],
        )


def _ptx(architecture: str, parts: Sequence[Path]) -> bytes:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_bitcode(parts[0].read_bytes())
    for part in parts[1:]:
        module.link_in(llvm.parse_bitcode(part.read_bytes()))
    machine = llvm.Target.from_triple(module.triple).create_target_machine(cpu=architecture, opt=3)
    return str(machine.emit_assembly(module)).encode() + b"\0"


def _forget_old(objects: Path, sources: Sequence[Path], architectures: Sequence[str], kept: set[Path]) -> None:
    """Remove what earlier builds of the same sources and architectures left."""
    for source in sources:
        for architecture in architectures:
            for path in objects.glob(f"{source.stem}-{architecture}-*.bc"):
                # A source's name may be the start of another's.
                digest = path.stem.removeprefix(f"{source.stem}-{architecture}-")
                if path not in kept and len(digest) == 24 and digest.isalnum():
                    path.unlink(missing_ok=True)
                    path.with_suffix(".o").unlink(missing_ok=True)
