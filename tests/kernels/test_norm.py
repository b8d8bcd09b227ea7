"""Normalisations against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.core.dialects.hip.norm import OPS
from tests.kernels.compare import FLOATS, assert_close, draw, widen
from tests.kernels.harness import KernelError, call_op

BY_NAME = {op.name.removeprefix("hip."): op for op in OPS}


def run(name: str, inputs: list[np.ndarray | None], **attributes: Any) -> np.ndarray:
    x = inputs[0]
    assert x is not None
    return call_op(BY_NAME[name], inputs, [(x.shape, x.dtype)], **attributes)[0]


def standardised(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    mean = x.mean(axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "axis"), [((3, 37), -1), ((2, 5, 64), 2), ((2, 3, 5, 7), 2), ((4, 6), 0)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_layer_norm(shape: tuple[int, ...], axis: int, dtype: Any, with_bias: bool) -> None:
    tail = shape[axis:]
    x, scale, bias = draw(shape, dtype), draw(tail, dtype, 1), draw(tail, dtype, 2)
    axes = tuple(range(axis % len(shape), len(shape)))
    expected = standardised(widen(x), axes, 1e-5) * widen(scale) + (widen(bias) if with_bias else 0)
    actual = run("layer_norm", [x, scale, bias if with_bias else None], axis=axis, epsilon=1e-5)
    assert_close(actual, expected, factor=2)


def test_layer_norm_of_numbers_far_from_zero() -> None:
    x = (draw((4, 512), np.float64) * 0.01 + 1000).astype(np.float32)
    assert_close(run("layer_norm", [x, None, None]), standardised(widen(x), (1,), 1e-5), factor=10)


def test_layer_norm_parameters_broadcast_and_may_be_wider() -> None:
    x, scale = draw((2, 3, 8), np.float16), draw((1, 3, 1), np.float32, 1)
    expected = standardised(widen(x), (1, 2), 1e-5) * widen(scale)
    assert_close(run("layer_norm", [x, scale, None], axis=1), expected, factor=2)
    with pytest.raises(KernelError, match="does not broadcast"):
        run("layer_norm", [x, draw((2, 1, 8)), None], axis=1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_layer_norm_stats(dtype: Any) -> None:
    x, scale, bias = draw((3, 4, 10), dtype), draw((10,), dtype, 1), draw((10,), dtype, 2)
    stats = np.float64 if dtype == np.float64 else np.float32
    y, mean, inverse = call_op(
        BY_NAME["layer_norm_stats"],
        [x, scale, bias],
        [(x.shape, dtype), ((3, 4, 1), stats), ((3, 4, 1), stats)],
        epsilon=1e-3,
    )
    wide = widen(x)
    assert_close(y, standardised(wide, (2,), 1e-3) * widen(scale) + widen(bias), factor=2)
    assert_close(mean, wide.mean(2, keepdims=True))
    assert_close(inverse, 1 / np.sqrt(wide.var(2, keepdims=True) + 1e-3))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "axis"), [((3, 37), -1), ((2, 3, 5, 7), 2)])
def test_rms_norm(shape: tuple[int, ...], axis: int, dtype: Any) -> None:
    x, scale = draw(shape, dtype), draw(shape[axis:], dtype, 1)
    axes = tuple(range(axis % len(shape), len(shape)))
    wide = widen(x)
    expected = wide / np.sqrt((wide**2).mean(axes, keepdims=True) + 1e-6) * widen(scale)
    assert_close(run("rms_norm", [x, scale], axis=axis, epsilon=1e-6), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(2, 3, 17), (1, 4, 5, 6), (2, 2, 3, 4, 5)])
def test_instance_norm(shape: tuple[int, ...], dtype: Any) -> None:
    x, scale, bias = draw(shape, dtype), draw(shape[1:2], dtype, 1), draw(shape[1:2], dtype, 2)
    per_channel = (-1, *(1,) * (len(shape) - 2))
    expected = standardised(widen(x), tuple(range(2, len(shape))), 1e-5)
    expected = expected * widen(scale).reshape(per_channel) + widen(bias).reshape(per_channel)
    assert_close(run("instance_norm", [x, scale, bias]), expected, factor=2)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("per_channel", [True, False])
def test_group_norm(dtype: Any, per_channel: bool) -> None:
    x, count = draw((2, 6, 3, 5), dtype), 6 if per_channel else 3
    scale, bias = draw((count,), dtype, 1), draw((count,), dtype, 2)
    expected = standardised(widen(x).reshape(2, 3, 2, 3, 5), (2, 3, 4), 1e-5)
    shape = (1, 3, 2, 1, 1) if per_channel else (1, 3, 1, 1, 1)
    expected = expected * widen(scale).reshape(shape) + widen(bias).reshape(shape)
    assert_close(run("group_norm", [x, scale, bias], groups=3), expected.reshape(x.shape), factor=2)
    with pytest.raises(KernelError, match="6 channels do not divide into 4 groups"):
        run("group_norm", [x, scale, bias], groups=4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("size", "beta"), [(1, 0.75), (3, 0.5), (4, 0.75), (5, 1.0), (9, 0.6)])
def test_lrn(size: int, beta: float, dtype: Any) -> None:
    x = draw((2, 7, 3, 23), dtype)
    wide, total = widen(x), np.zeros(x.shape)
    for c in range(7):
        total[:, c] = (wide[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(1)
    expected = wide / (1.5 + 0.3 / size * total) ** beta
    assert_close(run("lrn", [x], size=size, alpha=0.3, beta=beta, bias=1.5), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(("shape", "axis"), [((3, 40), 1), ((3, 9, 70), 1), ((5, 3), 0)])
def test_lp_norm(shape: tuple[int, ...], axis: int, p: int, dtype: Any) -> None:
    x = draw(shape, dtype)
    wide = widen(x)
    assert_close(run("lp_norm", [x], axis=axis, p=p), wide / np.linalg.norm(wide, p, axis, keepdims=True))


def test_lp_norm_leaves_zeros() -> None:
    x = np.array([[0, 0], [3, 4]], np.float32)
    np.testing.assert_allclose(run("lp_norm", [x], axis=1, p=2), np.array([[0, 0], [0.6, 0.8]]), rtol=1e-6)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "lp_norm"])
def test_nan_stays_in_its_row(name: str) -> None:
    x = draw((3, 20))
    x[1, 4] = np.nan
    inputs: list[np.ndarray | None] = [x] + [None] * (len(BY_NAME[name].inputs) - 1)
    actual = run(name, inputs)
    assert np.isnan(actual[1]).all()
    assert np.isfinite(actual[[0, 2]]).all()


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_empty(shape: tuple[int, ...]) -> None:
    x = draw(shape)
    assert run("layer_norm", [x, draw(shape[1:]), None]).shape == shape
    assert run("rms_norm", [x, draw(shape[1:])]).shape == shape
    assert run("lp_norm", [x]).shape == shape
    assert run("instance_norm", [x, draw(shape[1:]), draw(shape[1:])]).shape == shape
