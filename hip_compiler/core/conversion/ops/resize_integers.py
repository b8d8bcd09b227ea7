"""Resize in the element types that its kernels do not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.in_doubles import DOUBLE, within
from hip_compiler.core.conversion.onnx_op import OnnxOp
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import Shape, dim

FLOAT, INT32 = BY_NAME["float"], BY_NAME["int32"]


def resize_otherwise(
    emitter: Emitter,
    op: OnnxOp,
    x: Tensor,
    shape: Shape,
    scales: Tensor | None,
    roi: Tensor | None,
    attributes: Mapping[str, Any],
) -> Tensor:
    """Neighbours are picked, whatever they are; between neighbours is computed in double, and rounded to even."""
    if attributes["mode"] == "nearest":
        op.require(roi is None, f"tf_crop_and_resize of {x.dtype}")
        return _picked(emitter, x, shape, scales, attributes)
    inputs = {"x": emitter.cast(x, DOUBLE), "scales": scales, "roi": roi}
    between = emitter.hip("hip.resize", inputs, [DOUBLE], [shape], **attributes)[0]
    if x.dtype.name != "bool":
        between = emitter.elementwise(lambda v: within(v.apply("roundeven"), x.dtype), [between], DOUBLE)
    return emitter.cast(between, x.dtype)


def _picked(emitter: Emitter, x: Tensor, shape: Shape, scales: Tensor | None, attributes: Mapping[str, Any]) -> Tensor:
    """Axis by axis: the positions are resized, and say which elements to take."""
    for axis, extent in enumerate(shape):
        factor: Tensor | None = None
        if scales is not None and scales.constant is not None:
            number = scales.constant.reshape(-1)[axis : axis + 1]
            if number[0] == 1:
                continue
            factor = constant(np.ascontiguousarray(number), FLOAT)
        elif scales is not None:
            factor = emitter.slice(scales, [dim(axis)], [dim(1)], [1])
        elif extent == x.shape[axis]:
            continue
        positions = emitter.iota((x.shape[axis],), INT32, lambda loops: loops[0])
        inputs: dict[str, Tensor | None] = {"x": positions, "scales": factor, "roi": None}
        taken = emitter.hip("hip.resize", inputs, [INT32], [(extent,)], **attributes)[0]
        x = emitter.hip("hip.gather", {"data": x, "indices": taken}, [x.dtype], axis=axis)[0]
    return x
