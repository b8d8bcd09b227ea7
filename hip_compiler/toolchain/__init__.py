"""Building bitcode from C++ and GPU kernels from HIP: for the library itself, and for the build hooks of plugins."""

from hip_compiler.toolchain.bitcode import build_bitcode
from hip_compiler.toolchain.compiler import Compiler, find_compiler
from hip_compiler.toolchain.headers import include_folder
from hip_compiler.toolchain.kernels import build_kernels, built_kernels, gpu_architectures
from hip_compiler.toolchain.levels import (
    LEVELS,
    Level,
    host_architecture,
    levels_of,
    native_level,
    runnable_levels,
)
from hip_compiler.toolchain.lld import find_linker, link_shared

__all__ = [
    "LEVELS",
    "Compiler",
    "Level",
    "build_bitcode",
    "build_kernels",
    "built_kernels",
    "find_compiler",
    "find_linker",
    "gpu_architectures",
    "host_architecture",
    "include_folder",
    "levels_of",
    "link_shared",
    "native_level",
    "runnable_levels",
]
