"""hip.arg_reduce, hip.topk, hip.cumsum and hip.cumprod against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.core.dialects.hip.cumsum import OPS as CUMSUM_OPS
from hip_compiler.core.dialects.hip.ranking import OPS
from tests.kernels.compare import FLOATS, INTEGERS, NUMBERS, assert_close, draw, is_float, widen
from tests.kernels.harness import KernelError, call_op

ARG_REDUCE, TOPK = OPS
CUMSUM, CUMPROD = CUMSUM_OPS
SHAPES = [((9,), 0), ((3, 300), 1), ((4, 7), 0), ((2, 5, 70), 1), ((600,), -1)]


def comparable(x: np.ndarray) -> np.ndarray:
    return widen(x) if is_float(x.dtype) else x


def extreme(x: np.ndarray, mode: str, axis: int, last: bool) -> np.ndarray:
    wide = comparable(x)
    find = np.argmax if mode == "max" else np.argmin
    if not last:
        return find(wide, axis=axis, keepdims=True)
    return wide.shape[axis] - 1 - find(np.flip(wide, axis), axis=axis, keepdims=True)


def arg_reduce(x: np.ndarray, mode: str, axis: int, **attributes: Any) -> np.ndarray:
    shape = tuple(1 if i == axis % x.ndim else n for i, n in enumerate(x.shape))
    return call_op(ARG_REDUCE, [x], [(shape, np.int64)], mode=mode, axis=axis, **attributes)[0]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_arg_reduce(shape: tuple[int, ...], axis: int, last: bool, mode: str, dtype: Any) -> None:
    # Few different values, so that most extremes occur more than once.
    x = np.round(draw(shape, np.float32)).astype(dtype) if is_float(dtype) else (draw(shape, dtype) // 20).astype(dtype)
    actual = arg_reduce(x, mode, axis, select_last_index=last)
    np.testing.assert_array_equal(actual, extreme(x, mode, axis, last))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("shape", [(2, 600), (2, 600, 2)])
def test_arg_reduce_stops_at_nan(shape: tuple[int, ...], last: bool, mode: str, dtype: Any) -> None:
    x = draw(shape, dtype)
    x[0, 310], x[0, 320], x[0, 0] = np.nan, np.nan, np.inf if mode == "max" else -np.inf
    x[1] = -np.inf if mode == "max" else np.inf
    actual = arg_reduce(x, mode, 1, select_last_index=last)
    np.testing.assert_array_equal(actual, extreme(x, mode, 1, last))


def test_arg_reduce_edges() -> None:
    with pytest.raises(KernelError, match="axis 1 is empty"):
        arg_reduce(draw((2, 0)), "max", 1)
    assert arg_reduce(draw((0, 3)), "max", 1).shape == (0, 1)
    assert call_op(ARG_REDUCE, [draw(())], [((), np.int64)], mode="min")[0] == 0
    assert call_op(ARG_REDUCE, [draw((2, 3))], [((2,), np.int64)], mode="min", axis=1, keepdims=False)[0].shape == (2,)
    x = np.array([1, -1, 5], np.int8)
    assert arg_reduce(x, "max", 0)[0] == 2
    assert arg_reduce(x, "max", 0, unsigned=True)[0] == 1
    assert arg_reduce(np.array([False, True]), "max", 0)[0] == 1


def ranked(x: np.ndarray, k: int, axis: int, largest: bool) -> np.ndarray:
    """Positions by value, equal values by position; a NaN is above everything."""
    wide = np.moveaxis(comparable(x), axis, -1)
    rank = np.unique(wide, return_inverse=True)[1].reshape(wide.shape).astype(np.int64)
    order = np.argsort(-rank if largest else rank, axis=-1, kind="stable")
    return np.moveaxis(order[..., :k], -1, axis)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis", "k"), [((9,), 0, 9), ((3, 30), 1, 5), ((6, 7), 0, 1), ((2, 8, 3), 1, 4), ((5,), 0, 0)]
)
def test_topk(shape: tuple[int, ...], axis: int, k: int, largest: bool, dtype: Any) -> None:
    x = draw(shape, dtype)
    if is_float(dtype):
        x = np.round(widen(x)).astype(dtype)
        x.reshape(-1)[:3] = np.nan, np.inf, -np.inf
    result = tuple(k if i == axis else n for i, n in enumerate(shape))
    values, indices = call_op(TOPK, [x], [(result, dtype), (result, np.int64)], axis=axis, largest=largest, threads=2)
    expected = ranked(x, k, axis, largest)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(comparable(values), np.take_along_axis(comparable(x), expected, axis))


def test_topk_refuses_more_than_there_is() -> None:
    with pytest.raises(KernelError, match="k = 4 exceeds axis 1 of extent 3"):
        call_op(TOPK, [draw((2, 3))], [((2, 4), np.float32), ((2, 4), np.int64)], axis=1)


def test_topk_unsigned_storage() -> None:
    x = np.array([1, -1, 5], np.int16)
    values, indices = call_op(TOPK, [x], [((2,), np.int16), ((2,), np.int64)], unsigned=True)
    assert values.tolist() == [-1, 5]
    assert indices.tolist() == [1, 2]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((9,), 0), ((3, 20), -1), ((6, 70), 0), ((2, 5, 3), 1)])
def test_cumsum(shape: tuple[int, ...], axis: int, exclusive: bool, reverse: bool, dtype: Any) -> None:
    x = draw(shape, dtype)
    wide = comparable(x)
    if reverse:
        wide = np.flip(wide, axis)
    expected = np.cumsum(wide, axis, dtype=wide.dtype)
    if exclusive:
        expected = expected - wide
    if reverse:
        expected = np.flip(expected, axis)
    actual = call_op(CUMSUM, [x, None], [(shape, dtype)], axis=axis, exclusive=exclusive, reverse=reverse)[0]
    assert_close(actual, expected.astype(dtype) if dtype in INTEGERS else expected, factor=2)


@pytest.mark.parametrize("shape", [(0,), (3, 0), ()])
def test_cumsum_empty(shape: tuple[int, ...]) -> None:
    x = draw(shape)
    np.testing.assert_array_equal(call_op(CUMSUM, [x, None], [(shape, np.float32)])[0], x)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((9,), 0), ((6, 70), 0)])
def test_cumprod(shape: tuple[int, ...], axis: int, exclusive: bool, reverse: bool, dtype: Any) -> None:
    x = draw(shape, dtype)
    wide = np.flip(comparable(x), axis) if reverse else comparable(x)
    expected = np.cumprod(wide, axis, dtype=wide.dtype)
    if exclusive:
        first = np.ones_like(np.take(expected, [0], axis))
        expected = np.concatenate([first, np.delete(expected, -1, axis)], axis)
    if reverse:
        expected = np.flip(expected, axis)
    actual = call_op(CUMPROD, [x, None], [(shape, dtype)], axis=axis, exclusive=exclusive, reverse=reverse)[0]
    assert_close(actual, expected, factor=2)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("op", [CUMSUM, CUMPROD])
def test_axis_at_run_time(op: Any, dtype: Any) -> None:
    x, at = draw((3, 4)), np.array(-1, dtype)
    (fixed,) = call_op(op, [x, None], [((3, 4), np.float32)], axis=1)
    np.testing.assert_array_equal(call_op(op, [x, at], [((3, 4), np.float32)])[0], fixed)
    with pytest.raises(KernelError, match="axis 2 is outside"):
        call_op(op, [x, np.array(2, dtype)], [((3, 4), np.float32)])
