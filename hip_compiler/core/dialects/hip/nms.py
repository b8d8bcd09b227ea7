"""Non-maximum suppression: one operation counts the boxes that stay, the other lists them."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import attribute, define, destination_shape, element, rank
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec
from hip_compiler.shapes import dim


def _count(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec((), "i64"),)


def _boxes(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec((destination_shape(shapes, "y")[0], dim(3)), "i64"),)


_INPUTS = ("boxes", "scores", "max_output?", "iou_threshold?", "score_threshold?")
_ATTRIBUTES = (attribute("center_point_box", "bool", False),)
_RULES = (
    element("boxes", ("f32",)),
    element("scores", ("f32",)),
    rank("boxes", 3, 3),
    rank("scores", 3, 3),
    element("max_output", ("i64",)),
    element("iou_threshold", ("f32",)),
    element("score_threshold", ("f32",)),
)

OPS: tuple[OpDef, ...] = (
    define(
        "nms_count",
        "Number of boxes that non-maximum suppression keeps, over all batches and classes.",
        _INPUTS,
        ("n",),
        _count,
        attributes=_ATTRIBUTES,
        rules=(*_RULES, element("n", ("i64",)), rank("n", 0, 0)),
    ),
    define(
        "nms",
        "Batch, class and box number of every box that non-maximum suppression keeps.",
        _INPUTS,
        ("y",),
        _boxes,
        attributes=_ATTRIBUTES,
        rules=(*_RULES, element("y", ("i64",)), rank("y", 2, 2)),
    ),
)
