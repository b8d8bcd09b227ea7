"""What an image of device code holds: a code object for an AMD GPU, or PTX for one of NVIDIA's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.toolchain import codeobject

_PTX_TARGET = re.compile(r"^\.target\s+(sm_\w+)", re.MULTILINE)
_PTX_ENTRY = re.compile(r"\.entry\s+(\w+)\s*(?:\(([^)]*)\))?")
_PTX_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.[a-z]+(\d+)[^,\[]*(?:\[(\d+)\])?")


@dataclass(frozen=True)
class Image:
    """Device code.

    Attributes:
        architecture: what it is for, as LLVM names it.
        kernels: bytes of each parameter, by kernel; parameters that the driver fills in are left out.
    """

    architecture: str
    kernels: Mapping[str, tuple[int, ...]]


@lru_cache(maxsize=256)
def read_image(data: bytes) -> Image:
    """Read a code object or PTX.

    Raises:
        HipCompilerError: `HIPC0503`, when it is neither, or damaged.
    """
    if data.startswith(b"\x7fELF"):
        found = codeobject.read(data)
        kernels = {
            name: tuple(argument.size for argument in info.arguments if not argument.kind.startswith("hidden_"))
            for name, info in found.kernels.items()
        }
        return Image(found.architecture, kernels)
    text = data.decode("ascii", errors="replace")
    target = _PTX_TARGET.search(text)
    if target is None:
        raise HipCompilerError(
            ErrorCode.NOT_BUILT,
            "the bytes are no device code",
            why=f"neither a code object nor PTX starts with {data[:4]!r}" if data else "there are none",
        )
    if not data.endswith(b"\0"):
        raise HipCompilerError(ErrorCode.NOT_BUILT, "the PTX does not end with the NUL byte that its driver looks for")
    return Image(target[1], {name: _sizes(parameters) for name, parameters in _PTX_ENTRY.findall(text)})


def _sizes(parameters: str) -> tuple[int, ...]:
    """Bytes of each PTX parameter: ``.param .u64 a`` has 8, ``.param .align 8 .b8 b[24]`` has 24."""
    found = _PTX_PARAMETER.findall(parameters)
    return tuple(int(bits) // 8 * int(count or 1) for bits, count in found)
