"""Reductions, ranking, sums along an axis, gathers and scatters on emulated GPUs equal the host's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.device.operators import BF16, FLOATS, MakeHip, call, check
from tests.gpu_runtime.harness import RunError

REDUCE, INDEXING, TOPK, SCAN = ("reduce",), ("indexing",), ("topk",), ("scan",)


def draw(shape: Any, dtype: Any, seed: int = 1) -> Any:
    numbers = np.random.default_rng(seed).standard_normal(shape) * 3
    return (numbers.astype(np.int64) if np.dtype(dtype).kind in "iu" else numbers).astype(dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, np.float64, np.int32, np.int8, np.int64])
@pytest.mark.parametrize("kind", range(4))
def test_reduce(make_hip: MakeHip, kind: int, dtype: Any) -> None:
    x = draw((3, 1, 37, 5), dtype)
    for shape in ((3, 1, 1, 5), (1, 1, 1, 1), (3, 1, 37, 1)):
        check(make_hip, "gfx1151", REDUCE, "hipc_reduce", [x], [(shape, dtype)], kind, 0, factor=4)


def test_reduce_with_nan_and_unsigned_and_empty(make_hip: MakeHip) -> None:
    x = draw((2, 70), np.float32)
    x[1, 69] = np.nan
    for kind in (2, 3):
        check(make_hip, "gfx942", REDUCE, "hipc_reduce", [x], [((2, 1), np.float32)], kind, 0)
        check(make_hip, "gfx942", REDUCE, "hipc_reduce", [x[:, :0]], [((2, 1), np.float32)], kind, 0)
        check(make_hip, "gfx942", REDUCE, "hipc_reduce", [draw((2, 9), np.int8)], [((2, 1), np.int8)], kind, 1)


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int8, np.int64])
@pytest.mark.parametrize(("mode", "last"), [(0, 0), (0, 1), (1, 0)])
def test_arg_reduce(make_hip: MakeHip, mode: int, last: int, dtype: Any) -> None:
    x = draw((2, 301, 3), dtype)
    if np.dtype(dtype).kind == "f":
        x[0, 17, 1] = x[0, 40, 1] = np.nan
    check(make_hip, "gfx1151", REDUCE, "hipc_arg_reduce", [x], [((2, 1, 3), np.int64)], mode, 1, 1, last, 0)
    check(make_hip, "gfx942", REDUCE, "hipc_arg_reduce", [x], [((2, 301), np.int64)], mode, -1, 0, last, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("largest", [0, 1])
def test_topk(make_hip: MakeHip, largest: int, dtype: Any) -> None:
    x = draw((2, 97, 2), dtype)
    if dtype == np.float32:
        x[1, 5, 0] = np.nan
    outputs = [((2, 6, 2), dtype), ((2, 6, 2), np.int64)]
    check(make_hip, "gfx1151", TOPK, "hipc_topk", [x], outputs, 1, largest, 1, 0)


@pytest.mark.parametrize(
    ("architecture", "dtype", "unsigned"),
    [
        ("gfx1151", np.float32, 0),
        ("gfx942", BF16, 0),
        ("gfx1201", np.int8, 1),
        ("gfx1100", np.float64, 0),
        ("gfx90a", np.int64, 0),
    ],
)
@pytest.mark.parametrize(
    ("shape", "k"), [((2, 2500), 3), ((1, 18000), 7), ((1, 1100), 1100), ((3, 1), 1), ((2, 1025), 1024)]
)
def test_topk_of_long_rows(make_hip: MakeHip, shape: Any, k: int, architecture: str, dtype: Any, unsigned: int) -> None:
    """Rows of several runs, of more than one pass merges, and all of a row; equal elements, zeros of both signs."""
    x = draw(shape, dtype)
    if np.dtype(dtype).kind not in "iu":
        x[0, -1], x[0, 0] = np.nan, -0.0
        x[:, 1::7] = 0.0
    outputs = [((shape[0], k), dtype), ((shape[0], k), np.int64)]
    for largest in (0, 1):
        check(make_hip, architecture, TOPK, "hipc_topk", [x], outputs, 1, largest, 1, unsigned)


@pytest.mark.parametrize("symbol", ["hipc_cumsum", "hipc_cumprod"])
@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (1, 0), (1, 1)])
def test_scan(make_hip: MakeHip, symbol: str, exclusive: int, reverse: int) -> None:
    axis = np.array(1, np.int64)
    for dtype in (np.float32, np.float16, np.int64):
        x = draw((2, 5, 3), dtype)
        check(make_hip, "gfx1151", SCAN, symbol, [x, axis], [(x.shape, dtype)], 0, exclusive, reverse)


@pytest.mark.parametrize("architecture", ["gfx1151", "gfx942"])
@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (1, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int8, np.int64])
def test_scan_of_long_columns(make_hip: MakeHip, dtype: Any, exclusive: int, reverse: int, architecture: str) -> None:
    """A block for a column, and several for each of a few long ones."""
    for shape, axis in (((3, 1100), 1), ((2, 67, 3), 1), ((1, 9001), 1)):
        x = draw(shape, dtype)
        inputs = [x, np.array(axis, np.int64)]
        check(make_hip, architecture, SCAN, "hipc_cumsum", inputs, [(shape, dtype)], 0, exclusive, reverse, factor=8)
        if np.dtype(dtype).kind == "i":
            check(make_hip, architecture, SCAN, "hipc_cumprod", inputs, [(shape, dtype)], 0, exclusive, reverse)


@pytest.mark.parametrize("architecture", ["gfx1151", "gfx942"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64])
def test_reductions_that_blocks_share(make_hip: MakeHip, dtype: Any, architecture: str) -> None:
    x = draw((1, 2, 17001), dtype)
    for kind in range(4):
        wide = [((1, 2, 1), dtype)] if kind != 1 else [((1, 2, 17001), dtype)]
        check(make_hip, architecture, REDUCE, "hipc_reduce", [x], wide, kind, 0, factor=20)
    for mode, last in ((0, 0), (1, 1)):
        check(make_hip, architecture, REDUCE, "hipc_arg_reduce", [x], [((1, 2, 1), np.int64)], mode, 2, 1, last, 0)


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
def test_gathers(make_hip: MakeHip, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    data = draw((3, 7, 5), dtype)
    for kind in (np.int32, np.int64):
        indices = rng.integers(-7, 7, (2, 4, 5)).astype(kind)
        check(make_hip, "gfx1151", INDEXING, "hipc_gather_elements", [data, indices], [((2, 4, 5), dtype)], 1)
        tuples = rng.integers(-7, 7, (3, 4, 1)).astype(kind)
        check(make_hip, "gfx1151", INDEXING, "hipc_gather_nd", [data, tuples], [((3, 4, 5), dtype)], 1)
        tuples = np.stack([rng.integers(-3, 3, 6), rng.integers(-7, 7, 6)], 1).astype(kind)
        check(make_hip, "gfx942", INDEXING, "hipc_gather_nd", [data, tuples], [((6, 5), dtype)], 0)


def test_an_index_outside_ends_the_run(make_hip: MakeHip) -> None:
    data, indices = draw((4, 3), np.float32), np.array([[0, 4, 1]], np.int64)
    with pytest.raises(RunError, match="index"):
        call(make_hip, "gfx1151", INDEXING, "hipc_gather_elements", [data, indices], [((1, 3), np.float32)], 0)


@pytest.mark.parametrize("reduction", range(5))
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_scatters_with_repeated_indices(make_hip: MakeHip, dtype: Any, reduction: int) -> None:
    rng = np.random.default_rng(4)
    data, indices = draw((5, 6), dtype), rng.integers(-5, 5, (4, 6))
    updates = draw((4, 6), dtype, 2)
    outputs = [((5, 6), dtype)]
    check(make_hip, "gfx1151", INDEXING, "hipc_scatter_elements", [data, indices, updates], outputs, 0, reduction, 0)
    tuples = rng.integers(-5, 5, (9, 1)).astype(np.int32)
    updates = draw((9, 6), dtype, 3)
    check(make_hip, "gfx1151", INDEXING, "hipc_scatter_nd", [data, tuples, updates], outputs, reduction, 0)
    check(make_hip, "gfx942", INDEXING, "hipc_scatter_nd", [data, tuples, updates], outputs, reduction, 0)


def test_tensor_scatter_and_one_hot(make_hip: MakeHip) -> None:
    past, update = draw((2, 3, 6, 4), np.float16), draw((2, 3, 2, 4), np.float16, 2)
    for mode, first in ((0, [4, 1]), (1, [5, 0])):
        inputs = [past, update, np.array(first, np.int64)]
        check(make_hip, "gfx1151", INDEXING, "hipc_tensor_scatter", inputs, [(past.shape, np.float16)], 2, mode)
    indices, values = np.array([[0, -1], [3, 9]], np.int32), np.array([2, 7], np.int64)
    check(make_hip, "gfx1151", INDEXING, "hipc_one_hot", [indices, values], [((2, 5, 2), np.int64)], 1)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("dtype", FLOATS)
def test_gather_of_a_quantised_table(make_hip: MakeHip, dtype: Any, bits: int) -> None:
    """One index is outside the table: its row is zero."""
    rng = np.random.default_rng(8)
    rows, columns, block = 7, 48, 16
    table = rng.integers(0, 256, (rows, columns * bits // 8)).astype(np.uint8)
    scales = (rng.random((rows, columns // block)) * 0.1).astype(dtype)
    zeros = rng.integers(0, 256, (rows, -(-(columns // block) * bits // 8))).astype(np.uint8)
    indices = np.array([[0, -1, 6], [3, 9, 2]], np.int64)
    for offsets, signed in ((zeros, 0), (None, 1)):
        inputs = [table, indices, scales, offsets]
        check(make_hip, "gfx1151", ("gather_quantized",), "hipc_gather_block_quantized", inputs,
              [((2, 3, columns), dtype)], bits, block, 1 << (bits - 1) if not signed else 0, signed)  # fmt: skip
