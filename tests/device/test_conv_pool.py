"""Convolution and pooling on emulated GPUs equal the host's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.device.machine import ARCHITECTURES
from tests.device.operators import FLOATS, MakeHip, check
from tests.gpu_runtime.harness import RunError


def draw(shape: Any, dtype: Any = np.float32, seed: int = 0) -> Any:
    values = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return (20 * values).astype(dtype) if np.dtype(dtype).kind in "iu" else values.astype(dtype)


def extents(x: Any, kernel: Any, strides: Any, pads: Any, dilations: Any) -> tuple[int, ...]:
    half = len(kernel)
    return tuple(
        (x[2 + i] + pads[i] + pads[half + i] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1
        for i in range(half)
    )


CONVOLUTIONS = [
    # x, w, strides, pads, dilations, group
    ((2, 3, 9, 7), (5, 3, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((1, 16, 5, 5), (70, 16, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((1, 4, 11, 8), (6, 2, 3, 2), (2, 3), (0, 2, 1, 0), (2, 1), 2),
    ((2, 6, 6, 6), (6, 1, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 6),
    ((1, 3, 17), (4, 3, 5), (2,), (2, 1), (1,), 1),
    ((1, 2, 4, 5, 3), (3, 2, 2, 3, 2), (1, 2, 1), (1, 0, 0, 0, 1, 1), (1, 1, 1), 1),
    ((1, 16, 4, 4), (16, 8, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 2),
]


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_conv(make_hip: MakeHip, case: Any) -> None:
    x_shape, w_shape, strides, pads, dilations, group = case
    shape = (x_shape[0], w_shape[0], *extents(x_shape, w_shape[2:], strides, pads, dilations))
    inputs = [draw(x_shape), draw(w_shape, seed=1), draw(w_shape[:1], seed=2), None]
    attributes = [list(strides), list(pads), list(dilations), group, 0, 0.0, 0.0]
    check(make_hip, "gfx1151", ("conv",), "hipc_conv", inputs, [(shape, np.float32)], *attributes, factor=4)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("group", [1, 4])
def test_conv_with_everything_behind_it(make_hip: MakeHip, architecture: str, dtype: Any, group: int) -> None:
    x, w = draw((1, 4, 6, 5), dtype), draw((4, 4 // group, 3, 3), dtype, 1)
    inputs = [x, w, draw((4,), dtype, 2), draw((1, 4, 6, 5), dtype, 3)]
    # leaky_relu, with its slope.
    attributes = [[1, 1], [1, 1, 1, 1], [1, 1], group, 9, 0.25, 0.0]
    check(make_hip, architecture, ("conv",), "hipc_conv", inputs, [((1, 4, 6, 5), dtype)], *attributes, factor=4)


def test_conv_refuses_doubles(make_hip: MakeHip) -> None:
    inputs = [draw((1, 1, 3), np.float64), draw((1, 1, 1), np.float64), None, None]
    with pytest.raises(RunError, match="conv does not support element type double"):
        check(
            make_hip,
            "gfx1151",
            ("conv",),
            "hipc_conv",
            inputs,
            [((1, 1, 3), np.float64)],
            [1],
            [0, 0],
            [1],
            1,
            0,
            0.0,
            0.0,
        )


WINDOWS = [
    # x, kernel, strides, pads, dilations, ceil_mode
    ((2, 3, 7, 6), (3, 2), (2, 1), (1, 0, 0, 1), (1, 1), 0),
    ((1, 2, 9), (3,), (2,), (1, 1), (2,), 0),
    ((1, 1, 4, 5, 6), (2, 2, 3), (1, 2, 2), (0, 1, 1, 1, 0, 1), (1, 1, 1), 0),
]


@pytest.mark.parametrize("case", WINDOWS)
@pytest.mark.parametrize(("mode", "include"), [(0, 0), (1, 0), (1, 1)])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_pool(make_hip: MakeHip, architecture: str, case: Any, mode: int, include: int) -> None:
    shape, kernel, strides, pads, dilations, ceil_mode = case
    x = draw(shape)
    x.flat[3] = np.nan if mode == 0 else 1
    y = (*shape[:2], *extents(shape, kernel, strides, pads, dilations))
    attributes = [mode, list(kernel), list(strides), list(pads), list(dilations), ceil_mode, include, 2, 0]
    check(make_hip, architecture, ("pool",), "hipc_pool_window", [x], [(y, np.float32)], *attributes)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64, np.int8, np.uint8])
def test_max_pool_of_other_types(make_hip: MakeHip, dtype: Any) -> None:
    x = draw((1, 2, 8, 8), dtype)
    attributes = [0, [2, 2], [2, 2], [0, 0, 0, 0], [1, 1], 0, 0, 2, int(dtype == np.uint8)]
    check(make_hip, "gfx1151", ("pool",), "hipc_pool_window", [x], [((1, 2, 4, 4), dtype)], *attributes)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", [0, 1])
def test_global_pool(make_hip: MakeHip, mode: int, dtype: Any) -> None:
    for shape in ((2, 3, 19, 21), (1, 2, 1), (3, 1, 300)):
        y = (*shape[:2], *(1 for _ in shape[2:]))
        check(make_hip, "gfx942", ("pool",), "hipc_global_pool", [draw(shape, dtype)], [(y, dtype)], mode, 2, factor=4)


def test_pools_by_norms_are_refused(make_hip: MakeHip) -> None:
    with pytest.raises(RunError, match="global pool by norms is not supported on GPUs"):
        check(make_hip, "gfx942", ("pool",), "hipc_global_pool", [draw((1, 1, 3))], [((1, 1, 1), np.float32)], 2, 2)
