"""hip.softmax and hip.hardmax against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.core.dialects.hip.softmax import OPS
from tests.kernels.compare import FLOATS, assert_close, draw, widen
from tests.kernels.harness import KernelError, call_op

SOFTMAX, HARDMAX = OPS


def oracle(x: np.ndarray, axis: int, log: bool) -> np.ndarray:
    wide = widen(x)
    with np.errstate(invalid="ignore"):
        shifted = wide - wide.max(axis=axis, keepdims=True)
        exponentials = np.exp(shifted)
        total = exponentials.sum(axis=axis, keepdims=True)
        return shifted - np.log(total) if log else exponentials / total


def run(x: np.ndarray, **attributes: Any) -> np.ndarray:
    return call_op(SOFTMAX, [x], [(x.shape, x.dtype)], **attributes)[0]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1,), 0), ((7,), -1), ((3, 33), 1), ((5, 64), -1), ((2, 129, 3), 1), ((2, 17, 70), -2), ((3, 4, 200), 0)],
)
def test_softmax(shape: tuple[int, ...], axis: int, log: bool, dtype: Any) -> None:
    x = draw(shape, dtype)
    assert_close(run(x, axis=axis, log=log), oracle(x, axis, log), plain=not (log and x.size == 1))


def test_wide_range_to_subnormals() -> None:
    x = np.linspace(-104, 0, 4001, dtype=np.float32)
    actual, expected = run(x), oracle(x, -1, False)
    # Relative to each value: two units in the last place, and one step of the subnormals.
    np.testing.assert_allclose(actual, expected, rtol=4e-7, atol=2e-45)


def test_large_scores_do_not_overflow() -> None:
    x = np.array([[6e4, 6e4, -6e4], [-6e4, -6.1e4, -6.2e4]], np.float16)
    assert_close(run(x), oracle(x, 1, False))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(4, 21), (4, 21, 5)])
@pytest.mark.parametrize("log", [False, True])
def test_special_values_follow_numpy(dtype: Any, shape: tuple[int, ...], log: bool) -> None:
    x = draw(shape, dtype)
    x[0, 3] = np.nan
    x[1, :] = -np.inf
    x[2, 5] = np.inf
    x[3, 7:] = -np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = oracle(x, 1, log)
    actual = run(x, axis=1, log=log)
    assert np.isnan(widen(actual[:3])).all()
    assert_close(actual, expected)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (2, 0, 3), ()])
def test_empty_and_scalar(shape: tuple[int, ...]) -> None:
    x = draw(shape)
    result = run(x, axis=0)
    assert result.shape == shape
    if shape == ():
        assert result == 1


def test_threads_agree() -> None:
    x = draw((37, 501))
    (one,) = call_op(SOFTMAX, [x], [(x.shape, x.dtype)], threads=1)
    (two,) = call_op(SOFTMAX, [x], [(x.shape, x.dtype)], threads=2)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "axis"), [((5, 9), 1), ((5, 9), 0), ((2, 6, 3), 1)])
def test_hardmax(shape: tuple[int, ...], axis: int, dtype: Any) -> None:
    x = np.round(draw(shape, dtype)).astype(dtype)
    expected = np.zeros(shape)
    np.put_along_axis(expected, np.expand_dims(widen(x).argmax(axis), axis), 1, axis)
    assert_close(call_op(HARDMAX, [x], [(shape, dtype)], axis=axis)[0], expected)


def test_refuses_integers_and_bad_axes() -> None:
    x = draw((2, 3), np.int32)
    with pytest.raises(KernelError, match="softmax does not support element type int32"):
        run(x)
    with pytest.raises(KernelError, match="axis 2 is outside"):
        run(draw((2, 3)), axis=2)
