"""Transposed convolution."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    FLOATS,
    OperandView,
    attribute,
    count,
    define,
    element,
    input_dtype,
    input_shape,
    positive,
    rank,
    same_element,
    same_rank,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec


def _spatial(view: OperandView) -> int:
    return (view.rank("x") or 2) - 2


def _reify(shapes: OpShapes) -> Sequence[TensorSpec]:
    x, w, attributes = input_shape(shapes, "x"), input_shape(shapes, "w"), shapes.attributes
    axes = len(x) - 2
    spatial = tuple(
        (x[2 + i] - 1) * attributes["strides"][i]
        + attributes["output_padding"][i]
        + (w[2 + i] - 1) * attributes["dilations"][i]
        + 1
        - attributes["pads"][i]
        - attributes["pads"][axes + i]
        for i in range(axes)
    )
    return (TensorSpec((x[0], w[1] * attributes["group"], *spatial), input_dtype(shapes, "x")),)


OPS: tuple[OpDef, ...] = (
    define(
        "conv_transpose",
        "Transposed convolution over one to three spatial axes; automatic padding is resolved before.",
        ("x", "w", "bias?"),
        ("y",),
        _reify,
        attributes=(
            attribute("strides", "ints"),
            attribute("pads", "ints"),
            attribute("dilations", "ints"),
            attribute("output_padding", "ints"),
            attribute("group", "int", 1),
        ),
        rules=(
            element("x", FLOATS),
            same_element("x", "w", "bias", "y"),
            rank("x", 3, 5),
            same_rank("x", "w", "y"),
            rank("bias", 1, 1),
            count("strides", _spatial, "one per spatial axis"),
            count("dilations", _spatial, "one per spatial axis"),
            count("output_padding", _spatial, "one per spatial axis"),
            count("pads", lambda view: 2 * _spatial(view), "two per spatial axis"),
            positive("strides", "dilations", "group"),
        ),
    ),
)
