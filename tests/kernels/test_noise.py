"""Random operations: repeatable, the same on any number of threads, and of the right distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.core.dialects.hip.noise import OPS
from tests.kernels.compare import FLOATS, widen
from tests.kernels.harness import KernelError, call_op

UNIFORM, NORMAL, BERNOULLI, MULTINOMIAL = OPS


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", [UNIFORM, NORMAL])
def test_repeatable(op: Any, dtype: Any) -> None:
    spec = [((100, 7), dtype)]
    (first,), (second,), (other,) = (
        call_op(op, [], spec, seed=3),
        call_op(op, [], spec, seed=3, threads=2),
        call_op(op, [], spec, seed=4),
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).mean() > 0.9


def test_uniform() -> None:
    x = call_op(UNIFORM, [], [((20000,), np.float64)], low=-2.0, high=3.0, seed=11)[0]
    assert x.min() >= -2
    assert x.max() < 3
    # Mean and deciles within five standard errors.
    assert abs(x.mean() - 0.5) < 5 * 5 / np.sqrt(12 * x.size)
    counts = np.histogram(x, 10, (-2, 3))[0]
    assert np.abs(counts - 2000).max() < 5 * np.sqrt(1800)
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 5 / np.sqrt(x.size)


def test_normal() -> None:
    x = call_op(NORMAL, [], [((20000,), np.float64)], mean=1.0, scale=2.0, seed=5)[0]
    z = (x - 1) / 2
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / z.size)
    assert abs((np.abs(z) < 1).mean() - 0.6827) < 5 * 0.47 / np.sqrt(z.size)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int64, np.bool_])
def test_bernoulli(dtype: Any) -> None:
    p = np.tile(np.array([0, 0.25, 1], np.float32), (4000, 1))
    drawn = call_op(BERNOULLI, [p], [(p.shape, dtype)], seed=9)[0]
    assert set(np.unique(widen(drawn))) == {0.0, 1.0}
    rates = widen(drawn).mean(0)
    assert rates[0] == 0
    assert rates[2] == 1
    assert abs(rates[1] - 0.25) < 5 * 0.433 / np.sqrt(4000)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_multinomial(dtype: Any) -> None:
    weights = np.array([[0.1, 0, 0.6, 0.3], [1, 1, 1, 1]])
    with np.errstate(divide="ignore"):
        logarithms = np.log(weights).astype(np.float32) + 3
    drawn = call_op(MULTINOMIAL, [logarithms], [((2, 5000), dtype)], seed=2, threads=2)[0]
    for row, weight in zip(drawn, weights / weights.sum(1, keepdims=True), strict=True):
        rates = np.bincount(row, minlength=4) / 5000
        assert np.abs(rates - weight).max() < 5 * 0.5 / np.sqrt(5000)
    assert not (drawn[0] == 1).any()
    with pytest.raises(KernelError, match="there is no class to draw"):
        call_op(MULTINOMIAL, [np.zeros((1, 0), np.float32)], [((1, 2), dtype)])
