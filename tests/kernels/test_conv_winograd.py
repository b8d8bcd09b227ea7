"""Convolutions from the points of their kernels: Winograd's minimal filtering against the sum in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.core.dialects.hip.conv import OPS
from hip_compiler.core.passes.winograd import points
from tests.kernels.compare import draw, widen
from tests.kernels.harness import KernelError, call_op

(CONV,) = OPS
EPS = float(np.finfo(np.float32).eps)


def direct(x: np.ndarray, w: np.ndarray, pads: tuple[int, int, int, int]) -> np.ndarray:
    padded = np.pad(widen(x), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    height, width = padded.shape[2] - 2, padded.shape[3] - 2
    result = np.zeros((x.shape[0], w.shape[0], height, width))
    for i, j in np.ndindex(3, 3):
        result += np.einsum("nchw,mc->nmhw", padded[:, :, i : i + height, j : j + width], widen(w[:, :, i, j]))
    return result


def run(x: np.ndarray, w: np.ndarray, pads: tuple[int, int, int, int], **more: Any) -> np.ndarray:
    out = (x.shape[0], w.shape[0], x.shape[2] + pads[0] + pads[2] - 2, x.shape[3] + pads[1] + pads[3] - 2)
    bias, residual = more.pop("bias", None), more.pop("residual", None)
    attributes: dict[str, Any] = {
        "strides": [1, 1],
        "dilations": [1, 1],
        "pads": list(pads),
        "group": 1,
        "activation": "none",
    }
    attributes |= {"activation_alpha": 0.0, "activation_beta": 0.0, **more}
    return call_op(CONV, [x, points(w), bias, residual], [(out, np.float32)], threads=2, **attributes)[0]


# Images, channels, filters, height, width; pads: tiles that end with the picture, and that do not; one tile; many
# channels; more filters than a block of rows, rows of tiles in several turns.
SHAPES = [
    (1, 16, 16, 8, 8, (1, 1, 1, 1)),
    (2, 17, 33, 13, 21, (1, 0, 2, 1)),
    (1, 3, 5, 3, 3, (0, 0, 0, 0)),
    (1, 256, 16, 14, 14, (1, 1, 1, 1)),
    (1, 16, 180, 6, 70, (0, 2, 1, 0)),
    (1, 96, 64, 90, 100, (1, 1, 1, 1)),
]


@pytest.mark.parametrize(("n", "c", "m", "h", "w", "pads"), SHAPES)
def test_errors_are_a_few_times_those_of_float32_sums(
    n: int, c: int, m: int, h: int, w: int, pads: tuple[int, int, int, int]
) -> None:
    x, kernels = draw((n, c, h, w)), draw((m, c, 3, 3), seed=1, scale=0.5)
    expected = direct(x, kernels, pads)
    found = run(x, kernels, pads)
    assert found.shape == expected.shape
    # 36 numbers per tile are rounded twice and summed over the channels: 24 units in the last place of the largest.
    assert np.abs(found - expected).max() <= 24 * EPS * np.abs(expected).max()
    assert expected.any()


def test_bias_activation_and_residual_come_after() -> None:
    x, kernels = draw((1, 16, 9, 11)), draw((20, 16, 3, 3), seed=1)
    bias, residual = draw((20,), seed=2), draw((1, 20, 9, 11), seed=3)
    found = run(x, kernels, (1, 1, 1, 1), bias=bias, residual=residual, activation="relu")
    expected = np.maximum(direct(x, kernels, (1, 1, 1, 1)) + widen(bias).reshape(-1, 1, 1), 0) + residual
    np.testing.assert_allclose(found, expected, atol=24 * EPS * float(np.abs(expected).max()))


def test_kernels_that_move_the_picture_move_it_exactly_enough() -> None:
    """A kernel with a single one: what comes out is the input, moved."""
    x = draw((1, 16, 12, 12), scale=100.0)
    for i, j in np.ndindex(3, 3):
        kernels = np.zeros((16, 16, 3, 3), np.float32)
        kernels[np.arange(16), np.arange(16), i, j] = 1
        found = run(x, kernels, (1, 1, 1, 1))
        moved = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))[:, :, i : i + 12, j : j + 12]
        np.testing.assert_allclose(found, moved, atol=24 * EPS * float(np.abs(x).max()))


def test_points_of_another_convolution_are_refused() -> None:
    x, kernels = draw((1, 16, 8, 8)), draw((16, 16, 3, 3))
    with pytest.raises(KernelError, match="strides and dilations of 1"):
        call_op(
            CONV,
            [x, points(kernels), None, None],
            [((1, 16, 4, 4), np.float32)],
            strides=[2, 2],
            dilations=[1, 1],
            pads=[1, 1, 1, 1],
            group=1,
            activation="none",
            activation_alpha=0.0,
            activation_beta=0.0,
        )
