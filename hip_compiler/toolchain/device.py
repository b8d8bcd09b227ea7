"""Device code: HIP sources to one code object (or PTX module) per GPU architecture, and the pack that holds them all.

Sources are compiled one by one with a freestanding header, so any clang will do and no ROCm or CUDA is needed: to
machine code for AMD GPUs, of which LLD makes a code object, and to bitcode for NVIDIA's, of which llvmlite makes PTX.
Both are kept under `OUT/.objects` by content. The library's own kernels are built with it, and so are those of plugins.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.toolchain.bitcode import alone, headers_digest
from hip_compiler.toolchain.compiler import Compiler, find_compiler
from hip_compiler.toolchain.devicelink import is_nvidia, link_images
from hip_compiler.toolchain.headers import PACKAGE
from hip_compiler.toolchain.headers import include_folder as abi_folder

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


SAME_CODE = {
    "gfx1152": "gfx1150",
    "gfx1201": "gfx1200",
    "gfx12-generic": "gfx1200",
    "gfx10-3-generic": "gfx1030",
    "gfx1101": "gfx1100",
    "gfx1102": "gfx11-generic",
    "gfx1103": "gfx11-generic",
}
"""Architectures that run the machine code of another one: LLVM makes the same for both, but for `WORKAROUND`."""
WORKAROUND = {"gfx1101": "user-sgpr-init16-bug", "gfx1103": "user-sgpr-init16-bug"}
"""What LLVM works around on the other architecture of `SAME_CODE` alone; it does no harm here."""


@dataclass(frozen=True)
class Job:
    """One source for one architecture."""

    source: Path
    architecture: str


def include_folders() -> tuple[Path, ...]:
    """Folders of `hipc_device.h` and of what hosts and devices share: the source tree's when the package is used in
    place, else the installed copy."""
    source = PACKAGE.parent / "kernels" / "device"
    own = source if (source / "hipc_device.h").is_file() else PACKAGE / "_native" / "include"
    return tuple(dict.fromkeys((own, abi_folder())))


def build_images(
    sources: Sequence[Path],
    out: Path,
    architectures: Sequence[str] = ARCHITECTURES,
    include_dirs: Sequence[Path] | None = None,
    *,
    stem: str = "device",
    compiler: Compiler | None = None,
    same_code: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Path]:
    """Compile HIP sources to one image per architecture.

    Args:
        sources: HIP files; each is a translation unit of its own.
        out: folder, made when missing; the images are `.objects/STEM-ARCH.co` or `.objects/STEM-ARCH.ptx` in it.
        architectures: processors as LLVM names them, generic ones included, or ``sm_NN``.
        include_dirs: folders for `#include`, by default `include_folders()`.
        stem: start of the file names.
        compiler: compiler; `find_compiler()` when not given.
        same_code: architectures whose machine code is that of another one, as `SAME_CODE`, so that it is made once. For
            sources that do not ask which of the two they are compiled for.

    Returns:
        Path of the image by architecture. PTX ends with a NUL byte, as the driver wants it.

    Raises:
        HipCompilerError: `HIPC0503`, with the compiler's messages, when a source does not compile; `HIPC0501`, when
            the parts do not link.
    """
    include_dirs = include_folders() if include_dirs is None else include_dirs
    compiler = compiler or find_compiler()
    made_for = {architecture: same_code.get(architecture, architecture) for architecture in architectures}
    # PTX takes longest to make, so its parts come first.
    distinct = sorted(dict.fromkeys(made_for.values()), key=lambda name: not is_nvidia(name))
    jobs = [Job(source, architecture) for architecture in distinct for source in sources]
    with alone(out):
        objects = out / ".objects"
        headers = headers_digest(sources, include_dirs)
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            compiled = list(pool.map(lambda job: _compile(compiler, job, include_dirs, headers, objects), jobs))
        parts: dict[str, list[Path]] = {architecture: [] for architecture in distinct}
        for job, path in zip(jobs, compiled, strict=True):
            parts[job.architecture].append(path)
        images = link_images({name: parts[made_for[name]] for name in architectures}, objects, stem)
        _forget_old(objects, sources, architectures, set(compiled))
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
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        contents = list(pool.map(_packed, images.values()))
    entries, offset = [], 0
    for (architecture, path), packed in zip(images.items(), contents, strict=True):
        entries.append({"arch": architecture, "offset": offset, "size": len(packed), "bytes": path.stat().st_size})
        offset += len(packed)
    index = json.dumps({"format": 1, "images": entries}).encode() + b"\n"
    private = target.with_suffix(f".{os.getpid()}.tmp")
    private.write_bytes(index + b"".join(contents))
    private.replace(target)
    return target


def _packed(image: Path) -> bytes:
    """An image, compressed; what came of it is kept beside it for the next time."""
    raw = image.read_bytes()
    kept = image.with_name(f"{image.name}.{hashlib.sha256(raw).hexdigest()[:24]}.xz")
    if not kept.exists():
        for old in image.parent.glob(f"{image.name}.*.xz"):
            old.unlink(missing_ok=True)
        private = kept.with_suffix(f".{os.getpid()}.tmp")
        # More effort makes it a tenth smaller, in three times as long.
        private.write_bytes(lzma.compress(raw, preset=2))
        private.replace(kept)
    return kept.read_bytes()


def _compile(compiler: Compiler, job: Job, include_dirs: Sequence[Path], headers: bytes, objects: Path) -> Path:
    flags = [*FLAGS, *_target_flags(job.architecture)]
    contents = (headers, job.source.read_bytes(), " ".join(flags).encode(), compiler.version.encode())
    key = hashlib.sha256(b"\0".join(contents)).hexdigest()[:24]
    kind = "bc" if is_nvidia(job.architecture) else "o"
    target = objects / f"{job.source.stem}-{job.architecture}-{key}.{kind}"
    if target.exists():
        return target
    private = target.with_suffix(f".{os.getpid()}.tmp")
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
    # The driver would link what it compiles for an AMD GPU; its compiler proper ends where it is told to.
    return [*own, "-nogpuinc", "-nogpulib", "-Xclang", "-emit-obj"]


def _forget_old(objects: Path, sources: Sequence[Path], architectures: Sequence[str], kept: set[Path]) -> None:
    """Remove what earlier builds of the same sources and architectures left."""
    for source in sources:
        for architecture in architectures:
            for path in objects.glob(f"{source.stem}-{architecture}-*.*"):
                # A source's name may be the start of another's.
                digest = path.stem.removeprefix(f"{source.stem}-{architecture}-")
                if path not in kept and path.suffix in (".bc", ".o") and len(digest) == 24 and digest.isalnum():
                    path.unlink(missing_ok=True)
