"""GPU kernels of a plugin: its HIP sources, built as those of the library are, to files of its package."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from hip_compiler import knobs
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.toolchain import device, headers
from hip_compiler.toolchain.compiler import Compiler
from hip_compiler.toolchain.device import ARCHITECTURES, build_images


def gpu_architectures() -> tuple[str, ...]:
    """GPU architectures to build for: those of the knob `HIPC_BUILD_GPUS`, else all.

    Raises:
        HipCompilerError: `HIPC0502`, when the knob names one that is not known.
    """
    named = tuple(name.strip() for name in knobs.BUILD_GPUS.read().split(",") if name.strip())
    strange = [name for name in named if name not in ARCHITECTURES]
    if strange:
        raise HipCompilerError(
            ErrorCode.TARGET_UNKNOWN,
            f"{knobs.BUILD_GPUS.name} names {', '.join(strange)}",
            hint=f"known are {', '.join(ARCHITECTURES)}",
        )
    return named or ARCHITECTURES


def built_kernels(folder: Path, stem: str = "kernels") -> dict[str, Path]:
    """Files that `build_kernels` made in a folder, by architecture."""
    files = sorted((*folder.glob(f"{stem}-*.co"), *folder.glob(f"{stem}-*.ptx")))
    # The stem may be the start of another one.
    named = {file.stem.removeprefix(f"{stem}-"): file for file in files}
    return {architecture: file for architecture, file in named.items() if architecture in ARCHITECTURES}


def build_kernels(
    sources: Sequence[Path],
    out: Path,
    architectures: Sequence[str] | None = None,
    include_dirs: Sequence[Path] | None = None,
    *,
    stem: str = "kernels",
    compiler: Compiler | None = None,
) -> dict[str, Path]:
    """Build HIP sources to one file per GPU architecture, ready to be contributed.

    Args:
        sources: HIP files; each is a translation unit of its own.
        out: folder for `STEM-ARCH.co` (AMD) and `STEM-ARCH.ptx` (NVIDIA), made when missing. Files of that form for
            other architectures, which an earlier build left, are removed.
        architectures: processors as LLVM names them, or ``sm_NN``; `gpu_architectures()` when not given.
        include_dirs: folders for `#include`, by default those of `hipc_device.h` and `hipc.h`.
        stem: start of the file names.
        compiler: compiler; `find_compiler()` when not given.

    Returns:
        Path of the file by architecture.

    Raises:
        HipCompilerError: as `build_images` and `gpu_architectures`.
    """
    chosen = gpu_architectures() if architectures is None else architectures
    folders = (device.include_folder(), headers.include_folder()) if include_dirs is None else include_dirs
    images = build_images(sources, out, chosen, folders, stem=stem, compiler=compiler)
    built = {architecture: out / image.name for architecture, image in images.items()}
    for old in built_kernels(out, stem).values():
        if old not in built.values():
            old.unlink()
    for architecture, image in images.items():
        shutil.copyfile(image, built[architecture])
    return built
