"""Building bitcode from C++: for the host runtime, and for the build hooks of plugins."""

from hip_compiler.toolchain.bitcode import build_bitcode
from hip_compiler.toolchain.compiler import Compiler, find_compiler
from hip_compiler.toolchain.headers import include_folder
from hip_compiler.toolchain.levels import (
    LEVELS,
    Level,
    host_architecture,
    levels_of,
    native_level,
    runnable_levels,
)

__all__ = [
    "LEVELS",
    "Compiler",
    "Level",
    "build_bitcode",
    "find_compiler",
    "host_architecture",
    "include_folder",
    "levels_of",
    "native_level",
    "runnable_levels",
]
