"""Sliding blocks put back together, and convolution at displaced positions."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    FLOATS,
    OperandView,
    attribute,
    count,
    define,
    destination_shape,
    element,
    input_dtype,
    input_shape,
    positive,
    rank,
    same_element,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec


def _col2im(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(destination_shape(shapes, "y"), input_dtype(shapes, "x")),)


def _deform_conv(shapes: OpShapes) -> Sequence[TensorSpec]:
    x, w, offset = (input_shape(shapes, name) for name in ("x", "w", "offset"))
    return (TensorSpec((x[0], w[0], *offset[2:]), input_dtype(shapes, "x")),)


def _spatial(view: OperandView) -> int:
    return (view.rank("y") or 2) - 2


OPS: tuple[OpDef, ...] = (
    define(
        "col2im",
        "Columns of sliding blocks added back into an image; the output's extents are the image's.",
        ("x", "block"),
        ("y",),
        _col2im,
        attributes=(
            attribute("strides", "ints"),
            attribute("pads", "ints"),
            attribute("dilations", "ints"),
        ),
        rules=(
            element("x", FLOATS),
            same_element("x", "y"),
            rank("x", 3, 3),
            rank("y", 3),
            element("block", ("i64",)),
            rank("block", 1, 1),
            count("strides", _spatial, "one per spatial axis"),
            count("dilations", _spatial, "one per spatial axis"),
            count("pads", lambda view: 2 * _spatial(view), "two per spatial axis"),
            positive("strides", "dilations"),
        ),
    ),
    define(
        "deform_conv",
        "Convolution over two spatial axes whose taps are displaced by offsets and weighted by a mask.",
        ("x", "w", "offset", "bias?", "mask?"),
        ("y",),
        _deform_conv,
        attributes=(
            attribute("strides", "ints"),
            attribute("pads", "ints"),
            attribute("dilations", "ints"),
            attribute("group", "int", 1),
            attribute("offset_group", "int", 1),
        ),
        rules=(
            element("x", FLOATS),
            same_element("x", "w", "offset", "bias", "mask", "y"),
            rank("x", 4, 4),
            rank("w", 4, 4),
            rank("offset", 4, 4),
            rank("bias", 1, 1),
            rank("mask", 4, 4),
            count("strides", lambda view: 2, "one per spatial axis"),
            count("dilations", lambda view: 2, "one per spatial axis"),
            count("pads", lambda view: 4, "two per spatial axis"),
            positive("strides", "dilations", "group", "offset_group"),
        ),
    ),
)
