"""The tiled matrix product and the products of a few rows, on emulated GPUs, against float64."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.device.machine import DTYPES, MATRIX_ARCHITECTURES, assert_close, draw, run, space

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hard_swish", "hard_sigmoid",
               "leaky_relu", "clip")  # fmt: skip


def activation(name: str, x: Any, first: float, second: float) -> Any:
    """The activations of hip.matmul in float64."""
    from scipy.special import erf

    return {
        "none": lambda: x,
        "relu": lambda: np.maximum(x, 0),
        "gelu": lambda: 0.5 * x * (1 + erf(x / np.sqrt(2))),
        "gelu_tanh": lambda: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        "silu": lambda: x / (1 + np.exp(-x)),
        "sigmoid": lambda: 1 / (1 + np.exp(-x)),
        "tanh": lambda: np.tanh(x),
        "hard_swish": lambda: x * np.clip(x / 6 + 0.5, 0, 1),
        "hard_sigmoid": lambda: np.clip(first * x + second, 0, 1),
        "leaky_relu": lambda: np.where(x < 0, first * x, x),
        "clip": lambda: np.clip(x, first, second),
    }[name]()


def epilogue(
    bias: Any = None, residual: Any = None, alpha: float = 1.0, name: str = "none", first: float = 0, second: float = 0
) -> tuple[bytes, list[Any]]:
    """`hipc::Epilogue` and the arrays that it points at, which are to be lent too."""
    address = [0 if array is None else array.ctypes.data for array in (bias, residual)]
    data = struct.pack("<QQfffi", *address, alpha, first, second, ACTIVATIONS.index(name))
    return data, [array for array in (bias, residual) if array is not None]


def launch(architecture: str, source: str, kernel: str, grid: Any, arguments: Sequence[Any], lent: list[Any]) -> None:
    from tests.device import machine
    from tests.emulator import Memory, pack

    code = machine.module(architecture, source)
    memory = Memory()
    for array in lent:
        memory.add(array.view(np.uint8))
    values = [memory.add(value.view(np.uint8)) if isinstance(value, np.ndarray) else value or 0 for value in arguments]
    extents = (grid, 1, 1) if isinstance(grid, int) else grid
    code.launch(kernel, extents, (256, 1, 1), pack(code.kernels[kernel], values), memory)


def tiled(
    architecture: str, dtype: str, m: int, n: int, k: int, trans_a: bool, trans_b: bool, batch: bool, **ends: Any
) -> None:
    rng = np.random.default_rng(m * 1000 + n * 10 + k)
    count = 3 if batch else 1
    a = draw(rng, (count, k, m) if trans_a else (count, m, k), dtype)
    b = draw(rng, (1, n, k) if trans_b else (1, k, n), dtype)
    y = np.zeros((count, m, n), DTYPES[dtype])
    data, lent = epilogue(**ends)
    grid = (-(-m // 64) * -(-n // 64), count, 1)
    spaces = (space([count], [m * k]), space([count], [0]))
    arguments = [a, b, y, m, n, k, int(trans_a), int(trans_b), *spaces, count, data]
    launch(architecture, "matmul", f"matmul_{dtype}", grid, arguments, lent)
    left, right = a.astype(np.float64), b.astype(np.float64)
    product = (left.swapaxes(1, 2) if trans_a else left) @ (right.swapaxes(1, 2) if trans_b else right)
    value = product * ends.get("alpha", 1.0)
    if ends.get("bias") is not None:
        value = value + ends["bias"].astype(np.float64)
    value = activation(ends.get("name", "none"), value, ends.get("first", 0.0), ends.get("second", 0.0))
    if ends.get("residual") is not None:
        value = value + ends["residual"].astype(np.float64)
    assert_close(y, value, dtype)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("architecture", MATRIX_ARCHITECTURES)
def test_tiles_on_every_matrix_unit(architecture: str, dtype: str) -> None:
    """Neither extent is a multiple of the tile, and the depth ends within one."""
    tiled(architecture, dtype, 67, 72, 40, False, False, False)


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (16, 8, 8), (17, 13, 37), (65, 5, 3)])
def test_transposes_and_awkward_shapes(m: int, n: int, k: int, trans_a: bool, trans_b: bool) -> None:
    tiled("gfx1151", "f32", m, n, k, trans_a, trans_b, batch=True)
    tiled("gfx942", "f16", m, n, k, trans_a, trans_b, batch=True)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_ends_with_scale_bias_activation_residual(name: str) -> None:
    rng = np.random.default_rng(7)
    for dtype in ("f32", "f16"):
        bias, residual = draw(rng, 9, dtype), draw(rng, (1, 5, 9), dtype)
        first, second = (-0.5, 0.75) if name == "clip" else (0.2, 0.5)
        tiled("gfx1151", dtype, 5, 9, 16, False, True, False, bias=bias, residual=residual, alpha=0.5, name=name,
              first=first, second=second)  # fmt: skip


@pytest.mark.parametrize(("dtype", "ctype"), [("f64", ctypes.c_double), ("i32", ctypes.c_int32), ("u64", None)])
def test_other_types_element_by_element(dtype: str, ctype: Any) -> None:
    rng = np.random.default_rng(5)
    a = (rng.standard_normal((2, 3, 5)) * 10).astype(np.int64).astype(DTYPES[dtype])
    b = (rng.standard_normal((1, 7, 5)) * 10).astype(np.int64).astype(DTYPES[dtype])
    y = np.zeros((2, 3, 7), DTYPES[dtype])
    run("gfx942", "matmul", f"matmul_plain_{dtype}", 1, 256, a, b, None, None, y, 3, 7, 5, 0, 1,
        space([2], [15]), space([2], [0]), 2, 1.0)  # fmt: skip
    expected = a @ b.swapaxes(1, 2)
    np.testing.assert_array_equal(y, expected)
