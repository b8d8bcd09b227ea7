"""hip.col2im and hip.deform_conv against ONNX's reference implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.core.dialects.hip.unfold import OPS
from tests.kernels.compare import FLOATS, assert_close, draw, widen
from tests.kernels.harness import KernelError, call_op
from tests.kernels.reference import reference

COL2IM, DEFORM_CONV = OPS

CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((5, 5), (1, 5), {}),
    ((6, 6), (3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ((5, 6), (2, 2), {"dilations": [1, 3], "pads": [0, 1, 0, 1]}),
    ((4, 4, 4), (1, 2, 3), {}),
    ((7,), (3,), {"strides": [2]}),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("image", "block", "given"), CASES)
def test_col2im(image: tuple[int, ...], block: tuple[int, ...], given: dict[str, Any], dtype: Any) -> None:
    axes = len(image)
    attributes = {"strides": [1] * axes, "pads": [0] * 2 * axes, "dilations": [1] * axes, **given}
    cells = [
        (n + attributes["pads"][i] + attributes["pads"][i + axes] - attributes["dilations"][i] * (block[i] - 1) - 1)
        // attributes["strides"][i]
        + 1
        for i, n in enumerate(image)
    ]
    x = draw((2, 3 * int(np.prod(block)), int(np.prod(cells))), dtype)
    (expected,) = reference("Col2Im", [widen(x), np.array(image), np.array(block)], opset=18, **attributes)
    actual = call_op(COL2IM, [x, np.array(block)], [((2, 3, *image), dtype)], threads=2, **attributes)[0]
    assert_close(actual, expected)


def test_col2im_refuses_another_number_of_blocks() -> None:
    with pytest.raises(KernelError, match="the image has 4 blocks, the columns 3"):
        attributes: dict[str, Any] = {"strides": [1], "pads": [0, 0], "dilations": [1]}
        call_op(COL2IM, [draw((1, 2, 3)), np.array([2])], [((1, 1, 5), np.float32)], **attributes)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("group", "offset_group"), [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("extras", [False, True])
def test_deform_conv(extras: bool, group: int, offset_group: int, dtype: Any) -> None:
    x, w = draw((2, 4, 5, 6), dtype), draw((4, 4 // group, 2, 3), dtype, 1)
    offset = draw((2, offset_group * 2 * 6, 3, 5), dtype, 2, 1)
    bias = draw((4,), dtype, 3) if extras else None
    mask = draw((2, offset_group * 6, 3, 5), dtype, 4) if extras else None
    attributes: dict[str, Any] = {
        "strides": [2, 1],
        "pads": [1, 1, 0, 0],
        "dilations": [1, 1],
        "group": group,
        "offset_group": offset_group,
    }
    wide = [None if value is None else widen(value) for value in (x, w, offset, bias, mask)]
    (expected,) = reference("DeformConv", wide, opset=19, kernel_shape=[2, 3], **attributes)
    actual = call_op(DEFORM_CONV, [x, w, offset, bias, mask], [((2, 4, 3, 5), dtype)], threads=2, **attributes)[0]
    # The reference places its samples in float32.
    assert_close(actual.astype(np.float32) if dtype == np.float64 else actual, expected, factor=8)


def test_deform_conv_survives_wild_offsets() -> None:
    offset = np.array([np.nan, np.inf, -np.inf, 3e38, -1e9, 2e9, 0, 0], np.float32).reshape(1, 2, 2, 2)
    attributes: dict[str, Any] = {"strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1]}
    inputs = [np.ones((1, 1, 2, 2), np.float32), np.ones((1, 1, 1, 1), np.float32), offset, None, None]
    actual = call_op(DEFORM_CONV, inputs, [((1, 1, 2, 2), np.float32)], **attributes)[0]
    np.testing.assert_array_equal(actual, 0)
