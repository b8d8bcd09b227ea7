"""hip.conv_transpose against a scatter in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.core.dialects.hip.conv_transpose import OPS
from hip_compiler.registry.contributions import OpShapes
from hip_compiler.shapes import shape
from tests.kernels.compare import FLOATS, assert_close, draw, widen
from tests.kernels.harness import KernelError, call_op

(CONV_TRANSPOSE,) = OPS


def oracle(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, out: tuple[int, ...], **a: Any) -> np.ndarray:
    axes, group = x.ndim - 2, a["group"]
    result = np.zeros(out)
    per_in, per_out = x.shape[1] // group, w.shape[1]
    for tap in np.ndindex(*w.shape[2:]):
        for at in np.ndindex(*x.shape[2:]):
            place = [at[i] * a["strides"][i] + tap[i] * a["dilations"][i] - a["pads"][i] for i in range(axes)]
            if any(not 0 <= p < n for p, n in zip(place, out[2:], strict=True)):
                continue
            for g in range(group):
                channels = slice(g * per_in, (g + 1) * per_in)
                result[(slice(None), slice(g * per_out, (g + 1) * per_out), *place)] += widen(
                    x[(slice(None), channels, *at)]
                ) @ widen(w[(channels, slice(None), *tap)])
    return result if bias is None else result + widen(bias).reshape(-1, *(1,) * axes)


CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 5), (3, 2, 3), {"strides": [2]}),
    ((2, 2, 4, 5), (2, 3, 3, 3), {"strides": [1, 1], "pads": [1, 1, 1, 1]}),
    ((1, 5, 4, 6), (5, 2, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 4, 3, 7), (4, 3, 2, 3), {"strides": [3, 2], "pads": [0, 1, 1, 0], "output_padding": [2, 1]}),
    ((1, 4, 4, 4), (4, 2, 3, 3), {"strides": [2, 1], "dilations": [2, 3], "group": 2}),
    ((2, 6, 3, 3), (6, 1, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "group": 6, "output_padding": [1, 1]}),
    ((1, 2, 2, 3, 4), (2, 3, 2, 3, 2), {"strides": [2, 1, 3], "pads": [1, 0, 1, 0, 1, 0]}),
    ((1, 1, 2), (1, 1, 1), {"strides": [5]}),
    # Enough channels for products: panels whole and ragged, strides and dilations, groups, more rows than one block.
    ((2, 8, 4, 8), (8, 3, 2, 2), {"strides": [2, 2]}),
    ((1, 16, 5, 7), (16, 5, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 24, 3, 5), (24, 9, 3, 2), {"strides": [3, 1], "dilations": [1, 3], "output_padding": [2, 0]}),
    ((2, 24, 4, 4), (24, 4, 3, 3), {"strides": [2, 3], "pads": [1, 0, 0, 2], "group": 3}),
    ((1, 9, 70), (9, 70, 3), {"strides": [2], "pads": [1, 1]}),
    ((1, 8, 2, 3, 4), (8, 2, 2, 3, 2), {"strides": [2, 1, 3], "pads": [1, 0, 1, 0, 1, 0]}),
    ((1, 8, 3, 2), (8, 2, 2, 2), {"strides": [1, 1], "pads": [2, 2, 1, 1], "dilations": [3, 3]}),
]


@pytest.mark.parametrize(("x_shape", "w_shape", "given"), CASES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("with_bias", [True, False])
def test_conv_transpose(
    x_shape: tuple[int, ...], w_shape: tuple[int, ...], given: dict[str, Any], dtype: Any, with_bias: bool
) -> None:
    axes = len(x_shape) - 2
    attributes = {
        "pads": [0] * (2 * axes),
        "dilations": [1] * axes,
        "output_padding": [0] * axes,
        "group": 1,
        **given,
    }
    shapes = OpShapes({"x": shape(x_shape), "w": shape(w_shape)}, {"x": "f32"}, attributes)
    (spec,) = CONV_TRANSPOSE.reify(shapes)
    out = tuple(extent.value or 0 for extent in spec.shape)
    x, w = draw(x_shape, dtype), draw(w_shape, dtype, 1)
    bias = draw((out[1],), dtype, 2) if with_bias else None
    actual = call_op(CONV_TRANSPOSE, [x, w, bias], [(out, dtype)], threads=2, **attributes)[0]
    assert_close(actual, oracle(x, w, bias, out, **attributes), factor=4)


def test_refuses_channels_that_do_not_fit() -> None:
    with pytest.raises(KernelError, match="channels of input, weights and output do not fit"):
        call_op(
            CONV_TRANSPOSE,
            [draw((1, 3, 5)), draw((2, 2, 3)), None],
            [((1, 2, 7), np.float32)],
            strides=[1],
            pads=[0, 0],
            dilations=[1],
            output_padding=[0],
        )
