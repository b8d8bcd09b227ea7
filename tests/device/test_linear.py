"""Products of a decoder with norm, gate and residual, on emulated GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.device.machine import ARCHITECTURES
from tests.device.operators import FLOATS, MakeHip, call, compare

SOURCES = ("linear", "linear_row", "linear_q4", "norm", "matmul", "matmul_nbits", "epilogue")
SILU = 1


def draw(rng: Any, shape: Any, dtype: Any, scale: float = 1.0) -> Any:
    return (rng.standard_normal(shape) * scale).astype(dtype)


def expected(x: Any, norm: Any, weight: Any, up: Any, bias: Any, residual: Any, epsilon: float) -> Any:
    """By the definition, in float64; weights are [N, K]."""
    wide = [None if value is None else value.astype(np.float64) for value in (x, norm, weight, up, bias, residual)]
    x, norm, weight, up, bias, residual = wide
    if norm is not None:
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * norm
    y = x @ weight.T
    if up is not None:
        y = y / (1 + np.exp(-y)) * (x @ up.T)
    return y + (0 if bias is None else bias) + (0 if residual is None else residual)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    ("rows", "n", "k", "parts"),
    [
        (1, 37, 72, "norm up residual"),
        (2, 9, 520, "norm bias residual"),
        (3, 16, 256, "up bias"),
        (4, 5, 2056, "norm"),
        (1, 8, 8200, "residual"),
        (1, 11, 8, "norm"),
        (1, 21, 1544, "norm bias residual"),
        (1, 6, 640, "up"),
        (5, 24, 64, "norm up residual"),
    ],
)
def test_linear(make_hip: MakeHip, architecture: str, dtype: Any, rows: int, n: int, k: int, parts: str) -> None:
    rng = np.random.default_rng(rows * n)
    x, weight = draw(rng, (rows, k), dtype, 3.0), draw(rng, (n, k), dtype, k**-0.5)
    norm = draw(rng, k, dtype, 0.1) + dtype(1) if "norm" in parts else None
    up = draw(rng, (n, k), dtype, k**-0.5) if "up" in parts else None
    bias = draw(rng, n, dtype) if "bias" in parts else None
    residual = draw(rng, (rows, n), dtype) if "residual" in parts else None
    inputs = [x, norm, weight, None, None, up, None, None, bias, residual]
    attributes = (n, k, 0, 0, 1e-5, SILU if up is not None else 0, True)
    [y] = call(make_hip, architecture, SOURCES, "hipc_linear", inputs, [((rows, n), dtype)], *attributes)
    compare(y, expected(x, norm, weight, up, bias, residual, 1e-5).astype(dtype), factor=2)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    ("n", "k", "parts"), [(21, 96, "norm up residual"), (9, 2080, "norm bias"), (16, 4416, "residual")]
)
def test_linear_of_four_bits(make_hip: MakeHip, architecture: str, n: int, k: int, parts: str) -> None:
    rng = np.random.default_rng(n)

    def quantised() -> tuple[Any, Any, Any]:
        packed = rng.integers(0, 256, (n, k // 32, 16), dtype=np.uint8)
        scales = (rng.uniform(0.5, 1.5, n * k // 32) / (8 * k**0.5)).astype(np.float16)
        levels = np.stack((packed & 15, packed >> 4), -1).reshape(n, k // 32, 32).astype(np.float64) - 8
        return packed, scales, (levels * scales.reshape(n, -1, 1)).reshape(n, k)

    x = draw(rng, (1, k), np.float16, 3.0)
    weight, scales, matrix = quantised()
    up, up_scales, up_matrix = quantised() if "up" in parts else (None, None, None)
    norm = draw(rng, k, np.float16, 0.1) + np.float16(1) if "norm" in parts else None
    bias = draw(rng, n, np.float16) if "bias" in parts else None
    residual = draw(rng, (1, n), np.float16) if "residual" in parts else None
    inputs = [x, norm, weight, scales, None, up, up_scales, None, bias, residual]
    attributes = (n, k, 4, 32, 1e-5, SILU if up is not None else 0, False)
    [y] = call(make_hip, architecture, SOURCES, "hipc_linear", inputs, [((1, n), np.float16)], *attributes)
    compare(y, expected(x, norm, matrix, up_matrix, bias, residual, 1e-5).astype(np.float16), factor=2)
