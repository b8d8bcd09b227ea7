"""hip.dft and hip.det against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.core.dialects.hip.linear_algebra import OPS as LINEAR_ALGEBRA
from hip_compiler.core.dialects.hip.spectrum import OPS
from tests.kernels.compare import FLOATS, assert_close, draw, widen
from tests.kernels.harness import KernelError, call_op

(DFT,) = OPS
(DET,) = LINEAR_ALGEBRA


def parts(z: np.ndarray) -> np.ndarray:
    return np.stack([z.real, z.imag], -1)


def whole(x: np.ndarray) -> np.ndarray:
    wide = widen(x)
    return wide[..., 0] + (1j * wide[..., 1] if x.shape[-1] == 2 else 0)


def dft(
    x: np.ndarray, shape: tuple[int, ...], length: int | None, at: int | None = None, **attributes: Any
) -> np.ndarray:
    given, axis = (None if number is None else np.array(number, np.int64) for number in (length, at))
    return call_op(DFT, [x, given, axis], [(shape, x.dtype)], threads=2, **attributes)[0]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis", "length"),
    [((3, 8), 1, None), ((2, 15), 1, None), ((5, 3), 0, None), ((1, 1), 1, None), ((2, 6, 3), 1, 16), ((2, 9), 1, 7)],
)
def test_forward(shape: tuple[int, ...], axis: int, length: int | None, onesided: bool, real: bool, dtype: Any) -> None:
    x = draw((*shape, 1 if real else 2), dtype)
    expected = np.fft.fft(whole(x), length, axis)
    if onesided:
        expected = np.take(expected, np.arange((length or shape[axis]) // 2 + 1), axis)
    actual = dft(x, (*expected.shape, 2), length, axis=axis, onesided=onesided)
    assert_close(actual, parts(expected), factor=2)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("length", [None, 7, 16])
def test_inverse(length: int | None, dtype: Any) -> None:
    x = draw((3, 10, 2), dtype)
    expected = np.fft.ifft(whole(x), length, 1)
    assert_close(dft(x, (*expected.shape, 2), length, axis=1, inverse=True), parts(expected), factor=2)
    signal = np.fft.irfft(whole(x), length, 1)
    actual = dft(x, (*signal.shape, 1), length, axis=1, inverse=True, onesided=True)
    assert_close(actual, signal[..., None], factor=2)


def test_long_odd_lengths_keep_their_digits() -> None:
    x = draw((1, 1021, 2), np.float64)
    assert_close(dft(x, x.shape, None, axis=1), parts(np.fft.fft(whole(x), axis=1)), factor=100)


def test_an_axis_that_is_data() -> None:
    x = draw((4, 3, 2))
    assert_close(dft(x, x.shape, None, at=-3, axis=1), parts(np.fft.fft(whole(x), axis=0)), factor=2)
    with pytest.raises(KernelError, match="axis 5 is outside"):
        dft(x, x.shape, None, at=5)


def test_dft_refuses() -> None:
    with pytest.raises(KernelError, match="extents of a transform of length 8"):
        dft(draw((2, 8, 1)), (2, 7, 2), None, axis=1)
    with pytest.raises(KernelError, match="length 0 is not positive"):
        dft(draw((2, 8, 1)), (2, 1, 2), 0, axis=1, onesided=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 4, 4), (2, 3, 5, 5), (0, 2, 2)])
def test_det(shape: tuple[int, ...], dtype: Any) -> None:
    x = draw(shape, dtype, scale=1)
    actual = call_op(DET, [x], [(shape[:-2], dtype)], threads=2)[0]
    assert_close(actual, np.asarray(np.linalg.det(widen(x))), factor=2)


def test_det_pivots_and_singular() -> None:
    x = np.array([[[0, 1], [1, 0]], [[1, 2], [2, 4]], [[np.nan, 0], [0, 1]]], np.float32)
    np.testing.assert_array_equal(call_op(DET, [x], [((3,), np.float32)])[0], np.array([-1, 0, np.nan], np.float32))
    with pytest.raises(KernelError, match="square matrices"):
        call_op(DET, [draw((2, 3))], [((), np.float32)])
