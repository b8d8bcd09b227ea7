"""Convolutions, pooling and padding on emulated GPUs equal the host's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.device.machine import ARCHITECTURES, MATRIX_ARCHITECTURES
from tests.device.operators import BF16, FLOATS, MakeHip, check

CONV, POOL = ("conv",), ("pool",)


def draw(shape: Any, dtype: Any, seed: int = 1) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, np.float64])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_conv(make_hip: MakeHip, architecture: str, dtype: Any) -> None:
    """Strides, dilations and uneven pads; five filters a group go through tiles, double is summed directly."""
    x, w, bias = draw((2, 6, 9, 7), dtype), draw((10, 3, 3, 2), dtype, 2), draw(10, dtype, 3)
    check(make_hip, architecture, CONV, "hipc_conv", [x, w, bias, None], [((2, 10, 5, 5), dtype)],
          [2, 1], [1, 0, 2, 0], [1, 2], 2, 0, 0.0, 0.0, factor=2)  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("architecture", MATRIX_ARCHITECTURES)
def test_conv_of_many_channels(make_hip: MakeHip, architecture: str, dtype: Any) -> None:
    """Tap after tap: of the last eight channels three exist, and an infinity beside them adds nothing."""
    x, w, bias = draw((1, 22, 9, 7), dtype), draw((10, 11, 3, 2), dtype, 2), draw(10, dtype, 3)
    x[0, 0, 0, 0] = x[0, 11, 0, 0] = np.inf
    check(make_hip, architecture, CONV, "hipc_conv", [x, w, bias, None], [((1, 10, 5, 5), dtype)],
          [2, 1], [0, -1, 2, 0], [1, 1], 2, 0, 0.0, 0.0, factor=4)  # fmt: skip


@pytest.mark.parametrize("channels", [16, 12])
def test_conv_of_single_taps(make_hip: MakeHip, channels: int) -> None:
    """Filters that lie in order already, and some that must be filled up."""
    x, w = draw((2, channels, 5, 13), np.float16), draw((66, channels, 1, 1), np.float16, 2)
    check(make_hip, "gfx1151", CONV, "hipc_conv", [x, w, None, None], [((2, 66, 5, 13), np.float16)],
          [1, 1], [0, 0, 0, 0], [1, 1], 1, 1, 0.0, 0.0, factor=4)  # fmt: skip


def test_conv_ends(make_hip: MakeHip) -> None:
    x, w = draw((1, 4, 8, 8), np.float32), draw((70, 4, 1, 1), np.float32, 2)
    residual = draw((1, 70, 8, 8), np.float32, 4)
    check(make_hip, "gfx1151", CONV, "hipc_conv", [x, w, None, residual], [((1, 70, 8, 8), np.float32)],
          [1, 1], [0, 0, 0, 0], [1, 1], 1, 4, 0.0, 0.0)  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_depthwise_and_one_axis(make_hip: MakeHip, dtype: Any) -> None:
    x, w, bias = draw((1, 5, 6, 6), dtype), draw((5, 1, 3, 3), dtype, 2), draw(5, dtype)
    check(make_hip, "gfx1151", CONV, "hipc_conv", [x, w, bias, None], [((1, 5, 6, 6), dtype)],
          [1, 1], [1, 1, 1, 1], [1, 1], 5, 1, 0.0, 0.0)  # fmt: skip
    x, w = draw((2, 3, 17), dtype), draw((6, 3, 4), dtype, 2)
    check(make_hip, "gfx1151", CONV, "hipc_conv", [x, w, None, None], [((2, 6, 7), dtype)],
          [2], [0, 0], [1], 1, 0, 0.0, 0.0)  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("mode", "include", "p"), [(0, 0, 2), (1, 0, 2), (1, 1, 2), (2, 0, 2), (2, 0, 1), (2, 0, 3)])
def test_pool(make_hip: MakeHip, mode: int, include: int, p: int, dtype: Any) -> None:
    x = draw((2, 3, 7, 8), dtype)
    window = ([3, 2], [2, 2], [1, 0, 1, 1], [1, 1], 1, include, p, 0)
    factor = 20.0 if p == 3 else 1.0
    check(make_hip, "gfx1151", POOL, "hipc_pool_window", [x], [((2, 3, 4, 4), dtype)], mode, *window, factor=factor)


def test_max_pool_of_integers_and_indices(make_hip: MakeHip) -> None:
    x = draw((1, 2, 6, 5), np.float32)
    x[0, 0, 2, 2] = np.nan
    for order in (0, 1):
        outputs = [((1, 2, 3, 2), np.float32), ((1, 2, 3, 2), np.int64)]
        check(
            make_hip,
            "gfx942",
            POOL,
            "hipc_max_pool_indices",
            [x],
            outputs,
            [2, 3],
            [2, 2],
            [0, 0, 0, 0],
            [1, 1],
            0,
            order,
            0,
        )
    x = draw((1, 2, 9), np.int8)
    for unsigned in (0, 1):
        check(make_hip, "gfx942", POOL, "hipc_pool_window", [x], [((1, 2, 4), np.int8)],
              0, [3], [2], [0, 0], [1], 0, 0, 2, unsigned)  # fmt: skip


@pytest.mark.parametrize("mode", range(3))
def test_global_pool(make_hip: MakeHip, mode: int) -> None:
    for dtype in (np.float32, np.float16, np.float64):
        check(
            make_hip,
            "gfx1151",
            POOL,
            "hipc_global_pool",
            [draw((2, 3, 9, 37), dtype)],
            [((2, 3, 1, 1), dtype)],
            mode,
            2,
        )


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
def test_pad(make_hip: MakeHip, dtype: Any, mode: int) -> None:
    x, value = draw((2, 3, 4), dtype), np.array(7, dtype)
    for pads in ([0, 1, 2, 0, 2, 1], [1, -1, 3, 0, 0, -1]):
        if mode == 1 and pads[2] == 3:
            pads = [0, -1, 3, 0, 0, -1]
        shape = tuple(extent + pads[i] + pads[i + 3] for i, extent in enumerate(x.shape))
        inputs = [x, np.array(pads, np.int64), value if mode == 0 else None]
        check(make_hip, "gfx1151", POOL, "hipc_pad", inputs, [(shape, dtype)], mode)
