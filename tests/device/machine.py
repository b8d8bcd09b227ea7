"""Runs kernels of the library on emulated GPUs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from hip_compiler.toolchain.device import build_images
from tests.emulator import Device, Memory, Module, pack
from tests.kernels.harness import CACHE

SOURCES = Path(__file__).resolve().parents[2] / "kernels" / "device"
ARCHITECTURES = ("gfx942", "gfx1151")
# Of every kind of matrix instruction there is.
MATRIX_ARCHITECTURES = ("gfx906", "gfx90a", "gfx942", "gfx1151", "gfx1201")
DTYPES: dict[str, Any] = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64,
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32,
    "i64": np.int64, "u64": np.uint64, "b1": np.bool_,
}  # fmt: skip
# Values of onnx TensorProto.DataType, as kernels take them.
ONNX = {"f32": 1, "f16": 10, "bf16": 16, "f64": 11, "i32": 6, "i64": 7, "i8": 3, "u8": 2, "b1": 9}
# Relative to the largest magnitude of the result.
TOLERANCE = {"f32": 2e-6, "f16": 2e-3, "bf16": 1.6e-2, "f64": 1e-12}
Argument = Any


@cache
def module(architecture: str, source: str) -> Module:
    """The code object of one source of `kernels/device`."""
    image = build_images([SOURCES / f"{source}.hip"], CACHE, [architecture], stem=f"test-{source}")[architecture]
    return Device(architecture).load(image.read_bytes())


def wave(architecture: str) -> int:
    """Lanes of a wave."""
    return 64 if architecture.startswith("gfx9") else 32


def run(
    architecture: str,
    source: str,
    kernel: str,
    grid: int | Sequence[int],
    block: int,
    *arguments: Argument,
    shared: int = 0,
    together: bool = True,
) -> None:
    """Launch a kernel. Arrays are handed over as addresses, None as the null pointer; nothing else may be touched."""
    code = module(architecture, source)
    memory = Memory()
    values = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            values.append(memory.add(argument.view(np.uint8) if argument.size else np.empty(1, np.uint8)))
        else:
            values.append(0 if argument is None else argument)
    extents = (grid, 1, 1) if isinstance(grid, int) else tuple(grid)
    if min(extents) > 0:
        block_of_arguments = pack(code.kernels[kernel], values)
        code.launch(kernel, extents, (block, 1, 1), block_of_arguments, memory, shared, together)


def space(shape: Sequence[int] = (), strides: Sequence[int] = ()) -> bytes:
    """`hipc::Space`: extents and strides in elements."""
    padded = [*shape, *[1] * (8 - len(shape)), *strides, *[0] * (8 - len(strides))]
    return struct.pack("<16qi4x", *padded, len(shape))


def draw(rng: np.random.Generator, shape: Sequence[int] | int, dtype: str) -> Any:
    """Standard normal numbers of an element type."""
    return rng.standard_normal(shape).astype(DTYPES[dtype])


def assert_close(actual: Any, expected: Any, dtype: str, factor: float = 1.0) -> None:
    """Within the tolerance of the element type, relative to the largest magnitude."""
    expected = np.asarray(expected, np.float64)
    actual = np.asarray(actual, np.float64)
    assert actual.shape == expected.shape
    if expected.size == 0:
        return
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    assert scale > 0, "the oracle says nothing"
    np.testing.assert_allclose(actual, expected, rtol=0, atol=scale * TOLERANCE[dtype] * factor)
