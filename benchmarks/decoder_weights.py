"""Weights of `decoder_shapes` that are the same on every machine: they follow from their names.

Needs NumPy alone, and of that the raw words of a bit generator, which no version of it changes.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

THETA = 10000.0


def weight(name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A 16-bit decoder's weight as the ONNX graph has it, `[inner, outer]` for products; float32.

    Rotary tables are those of real decoders, scales are near 1, everything else is uniform with a variance that keeps
    activations near 1.
    """
    if name in ("cos_cache", "sin_cache"):
        rows, half = shape
        angles = np.outer(np.arange(rows), THETA ** (-np.arange(half) / half))
        table: np.ndarray[Any, Any] = np.cos(angles) if name == "cos_cache" else np.sin(angles)
        return table.astype(np.float32)
    words = np.random.PCG64(zlib.crc32(name.encode())).random_raw(int(np.prod(shape)))
    values: np.ndarray[Any, Any] = (words >> np.uint64(40)).astype(np.float32).reshape(shape)
    values = (values / np.float32(2**23) - 1) * np.float32(3**0.5)
    if "norm" in name:
        values *= np.float32(0.1)
        values += 1
    elif not name.startswith("embed"):
        values /= np.float32(shape[0] ** 0.5)
    return values
