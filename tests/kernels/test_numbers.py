"""Element conversions and elementary functions on every level, through operators that apply nothing else."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hip_compiler.core.dialects.hip.matmul import OPS as MATMUL_OPS
from hip_compiler.core.dialects.hip.pool import OPS as POOL_OPS
from hip_compiler.toolchain.levels import runnable_levels
from tests.kernels.harness import call_op
from tests.kernels.oracles import activate

LEVELS = [level.name for level in runnable_levels()]
HALVES = [np.float16, ml_dtypes.bfloat16]


def every_value(dtype: Any) -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", HALVES)
def test_every_half_survives(dtype: Any, level: str) -> None:
    x = every_value(dtype).reshape(1, 1, -1)
    window: dict[str, Any] = {"kernel": [1], "strides": [1], "pads": [0, 0], "dilations": [1]}
    (y,) = call_op(POOL_OPS[0], [x], [(x.shape, dtype)], mode="average", level=level, **window)
    # A sum that starts at 0 turns -0 into 0, and NaN keeps no payload.
    kept = ~np.isnan(x.astype(np.float32)) & (x.view(np.uint16) != 0x8000)
    np.testing.assert_array_equal(y.view(np.uint16)[kept], x.view(np.uint16)[kept])
    np.testing.assert_array_equal(y.astype(np.float32), x.astype(np.float32))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", HALVES)
def test_halves_round_to_nearest_even(dtype: Any, level: str) -> None:
    # Means of neighbours are ties; means of strangers are anything, subnormals and overflow included.
    values = every_value(dtype)[np.isfinite(every_value(dtype).astype(np.float32))]
    strangers = np.random.default_rng(0).choice(values, (values.size, 2))
    pairs = np.concatenate([np.stack([values[:-1], values[1:]], 1), strangers])
    x = np.ascontiguousarray(pairs.reshape(1, -1, 2))
    (y,) = call_op(POOL_OPS[2], [x], [((1, pairs.shape[0], 1), dtype)], mode="average", level=level)
    # The float32 sum may itself round or overflow before it is halved.
    with np.errstate(over="ignore"):
        expected = (pairs.astype(np.float32).sum(1) / np.float32(2)).astype(dtype)
    np.testing.assert_array_equal(y.reshape(-1).astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("activation", ["sigmoid", "silu", "tanh", "gelu", "gelu_tanh", "hard_swish"])
def test_activations_over_their_whole_range(activation: str, level: str) -> None:
    x = np.concatenate([np.linspace(-100, 100, 20001), np.linspace(-6, 6, 20001), [-1e30, 1e30, -0.0, 1e-30]])
    column = x.astype(np.float32).reshape(-1, 1)
    (y,) = call_op(
        MATMUL_OPS[0],
        [column, np.ones((1, 1), np.float32), None, None],
        [(column.shape, np.float32)],
        activation=activation,
        level=level,
    )
    expected = activate(activation, column.astype(np.float64))
    assert np.isfinite(expected).all() and expected.any()
    # Errors are relative to the function's scale: 1, or the argument where the function grows with it.
    error = np.abs(y - expected) / np.maximum(1, np.abs(expected))
    assert error.max() < 6e-7 * (1 if activation in ("sigmoid", "tanh") else 4)
