"""Inputs for kernel tests, and comparison with float64 oracles at a tolerance that the element type deserves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

BF16 = ml_dtypes.bfloat16
FLOATS: tuple[Any, ...] = (np.float32, np.float16, BF16, np.float64)
INTEGERS: tuple[Any, ...] = (
    np.int8,
    np.uint8,
    np.int16,
    np.uint16,
    np.int32,
    np.uint32,
    np.int64,
    np.uint64,
)
NUMBERS: tuple[Any, ...] = FLOATS + INTEGERS
SIZES: tuple[Any, ...] = (np.uint8, np.float16, np.float32, np.int64, np.complex128)
"""One type of each element size, for functions that only move elements."""

# A few units in the last place: float32 accumulates in float32, half types round once at the end.
_RELATIVE = {"float32": 3e-6, "float16": 1.0e-3, "bfloat16": 8.0e-3, "float64": 1e-13}


def is_float(dtype: Any) -> bool:
    """Whether the element type is a floating-point one, bfloat16 included."""
    return np.dtype(dtype).name in _RELATIVE


def draw(shape: Sequence[int], dtype: Any = np.float32, seed: int = 0, scale: float = 2.0) -> np.ndarray:
    """Numbers spread over the type: normal ones times `scale` for floats, small ones for integers, so that sums fit."""
    rng = np.random.default_rng((seed, *shape))
    if is_float(dtype):
        return (rng.standard_normal(tuple(shape)) * scale).astype(dtype)
    if np.dtype(dtype).kind == "c":
        return (rng.standard_normal(tuple(shape)) + 1j * rng.standard_normal(tuple(shape))).astype(dtype)
    if np.dtype(dtype).kind == "b":
        return rng.integers(0, 2, tuple(shape)).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -50), min(info.max, 50), tuple(shape), endpoint=True).astype(dtype)


def widen(array: np.ndarray) -> np.ndarray:
    """The array as float64."""
    return array.astype(np.float64)


def assert_close(actual: np.ndarray, expected: np.ndarray, *, factor: float = 1.0, plain: bool = True) -> None:
    """Compare with a float64 oracle: errors within the tolerance of a value, or of the largest / 16.

    Args:
        factor: widens the tolerance, for functions that sum many products.
        plain: the oracle must hold numbers that are not all zero.
    """
    assert actual.shape == expected.shape
    if plain and expected.size:
        assert np.isfinite(expected).any() and np.any(expected != 0), "the oracle says nothing"
    if not is_float(actual.dtype):
        np.testing.assert_array_equal(actual, expected)
        return
    relative = _RELATIVE[actual.dtype.name] * factor
    finite = np.abs(expected[np.isfinite(expected)])
    largest = float(finite.max()) if finite.size else 0.0
    np.testing.assert_allclose(widen(actual), expected, rtol=relative, atol=relative * largest / 16)
