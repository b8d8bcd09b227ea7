"""hip.conv against float64 NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hip_compiler.core.dialects.hip.conv import OPS
from hip_compiler.core.dialects.hip.matmul import ACTIVATIONS
from hip_compiler.toolchain import runnable_levels
from tests.kernels.harness import KernelError, call_op
from tests.kernels.oracles import activate, close

CONV = OPS[0]
LEVELS = [level.name for level in runnable_levels()]


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def conv(
    x: np.ndarray, w: np.ndarray, strides: list[int], pads: list[int], dilations: list[int], group: int
) -> np.ndarray:
    """Convolution in float64: a sum over taps of shifted, strided views of the padded input."""
    spatial = x.ndim - 2
    around = [(pads[i], pads[spatial + i]) for i in range(spatial)]
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in around)])
    inner: tuple[Any, ...] = (
        ...,
        *(slice(max(-a, 0), padded.shape[2 + i] - max(-b, 0)) for i, (a, b) in enumerate(around)),
    )
    padded = padded[inner]
    kernel = w.shape[2:]
    out = [(padded.shape[2 + i] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(spatial)]
    channels, filters = w.shape[1], w.shape[0] // group
    y = np.zeros((x.shape[0], w.shape[0], *out))
    for tap in itertools.product(*(range(extent) for extent in kernel)):
        window = tuple(
            slice(tap[i] * dilations[i], tap[i] * dilations[i] + (out[i] - 1) * strides[i] + 1, strides[i])
            for i in range(spatial)
        )
        view = padded[(slice(None), slice(None), *window)]
        for g in range(group):
            one_tap: tuple[Any, ...] = (slice(g * filters, (g + 1) * filters), slice(None), *tap)
            weights = w[one_tap].astype(np.float64)
            part = view[:, g * channels : (g + 1) * channels]
            y[:, g * filters : (g + 1) * filters] += np.einsum("oc,nc...->no...", weights, part)
    return y


# x, w, strides, pads, dilations, group
CASES = {
    "3x3": ((2, 5, 9, 11), (7, 5, 3, 3), [1, 1], [1, 1, 1, 1], [1, 1], 1),
    "3x3 stride 2": ((1, 6, 13, 14), (15, 6, 3, 3), [2, 2], [1, 1, 1, 1], [1, 1], 1),
    "pads that differ": ((1, 3, 7, 40), (4, 3, 2, 5), [1, 1], [0, 3, 1, 2], [1, 1], 1),
    "dilation": ((1, 2, 12, 13), (3, 2, 3, 3), [1, 2], [2, 0, 2, 4], [2, 3], 1),
    "1x1": ((2, 33, 6, 7), (31, 33, 1, 1), [1, 1], [0, 0, 0, 0], [1, 1], 1),
    "1x1 wide": ((1, 256, 16, 20), (17, 256, 1, 1), [1, 1], [0, 0, 0, 0], [1, 1], 1),
    "1x1 stride 2": ((1, 5, 7, 7), (4, 5, 1, 1), [2, 2], [0, 0, 0, 0], [1, 1], 1),
    "7x7 stride 2": ((1, 3, 30, 33), (9, 3, 7, 7), [2, 2], [3, 3, 3, 3], [1, 1], 1),
    "deep": ((1, 160, 4, 5), (20, 160, 3, 3), [1, 1], [1, 1, 1, 1], [1, 1], 1),
    "many rows": ((1, 3, 6, 6), (200, 3, 3, 3), [1, 1], [1, 1, 1, 1], [1, 1], 1),
    "groups": ((2, 6, 8, 8), (9, 2, 3, 3), [1, 1], [1, 1, 1, 1], [1, 1], 3),
    "depthwise": ((2, 5, 9, 37), (5, 1, 3, 3), [1, 1], [1, 1, 1, 1], [1, 1], 5),
    "depthwise stride 2": ((1, 4, 10, 21), (4, 1, 5, 3), [2, 2], [2, 1, 2, 1], [1, 1], 4),
    "depthwise multiplier": ((1, 3, 8, 70), (6, 1, 3, 3), [1, 3], [0, 2, 0, 1], [2, 2], 3),
    "depthwise 1d": ((2, 7, 50), (7, 1, 4), [1], [3, 0], [1], 7),
    "depthwise 3d": ((1, 2, 5, 6, 7), (2, 1, 3, 3, 3), [1, 2, 1], [1, 1, 1, 1, 1, 1], [1, 1, 2], 2),
    "negative pads": ((1, 3, 9, 9), (2, 3, 3, 3), [1, 1], [-1, -2, 0, -1], [1, 1], 1),
    "depthwise negative pads": ((1, 3, 9, 9), (3, 1, 3, 3), [1, 1], [-1, -2, 0, -1], [1, 1], 3),
    "1d": ((3, 4, 65), (5, 4, 3), [2], [1, 1], [1], 1),
    "3d": ((1, 3, 5, 6, 7), (4, 3, 2, 3, 2), [1, 1, 2], [0, 1, 1, 1, 1, 0], [1, 1, 1], 1),
    "kernel larger than input": ((1, 2, 2, 2), (3, 2, 5, 5), [1, 1], [2, 2, 2, 2], [1, 1], 1),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", CASES)
def test_shapes(case: str, level: str) -> None:
    x_shape, w_shape, strides, pads, dilations, group = CASES[case]
    x, w, bias = values(x_shape, np.float32), values(w_shape, np.float32, 1), values(w_shape[:1], np.float32, 2)
    expected = conv(x, w, strides, pads, dilations, group)
    expected += bias.reshape(-1, *[1] * (x.ndim - 2))
    for threads in (1, 2):
        (y,) = call_op(
            CONV,
            [x, w, bias, None],
            [(expected.shape, np.float32)],
            strides=strides,
            pads=pads,
            dilations=dilations,
            group=group,
            threads=threads,
            level=level,
        )
        close(y, expected, depth=int(np.prod(w_shape[1:])), what=f"{case} {threads} threads")


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize(
    "case", ["3x3", "1x1", "groups", "depthwise", "depthwise stride 2", "1d", "3d", "negative pads"]
)
def test_types(case: str, dtype: Any) -> None:
    x_shape, w_shape, strides, pads, dilations, group = CASES[case]
    x, w = values(x_shape, dtype), values(w_shape, dtype, 1)
    expected = conv(x, w, strides, pads, dilations, group)
    residual = values(expected.shape, dtype, 2)
    (y,) = call_op(
        CONV,
        [x, w, None, residual],
        [(expected.shape, dtype)],
        strides=strides,
        pads=pads,
        dilations=dilations,
        group=group,
    )
    close(y, expected + residual.astype(np.float64), depth=int(np.prod(w_shape[1:])), what=case)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("case", ["3x3", "depthwise"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_epilogues(activation: str, case: str, dtype: Any) -> None:
    x_shape, w_shape, strides, pads, dilations, group = CASES[case]
    x, w, bias = values(x_shape, dtype), values(w_shape, dtype, 1), values(w_shape[:1], dtype, 2)
    parameters = {"leaky_relu": (0.2, 0.0), "hard_sigmoid": (0.3, 0.4), "clip": (-0.5, 0.75)}.get(
        activation, (0.0, 0.0)
    )
    product = conv(x, w, strides, pads, dilations, group) + bias.astype(np.float64).reshape(-1, 1, 1)
    residual = values(product.shape, dtype, 3)
    (y,) = call_op(
        CONV,
        [x, w, bias, residual],
        [(product.shape, dtype)],
        strides=strides,
        pads=pads,
        dilations=dilations,
        group=group,
        activation=activation,
        activation_alpha=parameters[0],
        activation_beta=parameters[1],
    )
    close(y, activate(activation, product, *parameters) + residual.astype(np.float64), depth=int(np.prod(w_shape[1:])))


def test_empty() -> None:
    attributes: dict[str, Any] = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1]}
    w = values((3, 2, 3, 3), np.float32)
    (y,) = call_op(CONV, [values((0, 2, 5, 5), np.float32), w, None, None], [((0, 3, 3, 3), np.float32)], **attributes)
    assert y.size == 0
    (y,) = call_op(CONV, [values((1, 2, 2, 5), np.float32), w, None, None], [((1, 3, 0, 3), np.float32)], **attributes)
    assert y.size == 0
    bias = values((3,), np.float32, 2)
    no_channels = [values((1, 0, 5, 5), np.float32), values((3, 0, 3, 3), np.float32), bias, None]
    (y,) = call_op(CONV, no_channels, [((1, 3, 3, 3), np.float32)], **attributes)
    np.testing.assert_array_equal(y, np.broadcast_to(bias.reshape(1, 3, 1, 1), y.shape))


def test_errors_say_what_differs() -> None:
    attributes: dict[str, Any] = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1]}
    x, w = values((1, 4, 5, 5), np.float32), values((3, 2, 3, 3), np.float32)
    with pytest.raises(KernelError, match="the number of channels of x is 4, expected 2"):
        call_op(CONV, [x, w, None, None], [((1, 3, 3, 3), np.float32)], **attributes)
    with pytest.raises(KernelError, match="a spatial extent of y is 4, expected 3"):
        call_op(CONV, [x[:, :2], w, None, None], [((1, 3, 3, 4), np.float32)], **attributes)
    with pytest.raises(KernelError, match="conv does not support element type int32"):
        integers = [x[:, :2].astype(np.int32), w.astype(np.int32), None, None]
        call_op(CONV, integers, [((1, 3, 3, 3), np.int32)], **attributes)
    with pytest.raises(KernelError, match="strides and dilations must be positive"):
        call_op(CONV, [x[:, :2], w, None, None], [((1, 3, 3, 3), np.float32)], **{**attributes, "strides": [0, 1]})
