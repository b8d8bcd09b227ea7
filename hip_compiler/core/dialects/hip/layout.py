"""Moving elements around: padding, reversed sequences, one-hot rows."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    INDICES,
    OperandView,
    attribute,
    axis,
    define,
    destination_shape,
    element,
    input_dtype,
    input_shape,
    normal_axis,
    rank,
    same_element,
    same_rank,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec

PAD_MODES = ("constant", "reflect", "edge", "wrap")


def _pad(shapes: OpShapes) -> Sequence[TensorSpec]:
    x = input_shape(shapes, "x")
    pads = shapes.values.get("pads")
    if pads is None:
        return (TensorSpec(destination_shape(shapes, "y"), input_dtype(shapes, "x")),)
    result = tuple(extent + pads[i] + pads[i + len(x)] for i, extent in enumerate(x))
    return (TensorSpec(result, input_dtype(shapes, "x")),)


def _like_x(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(input_shape(shapes, "x"), input_dtype(shapes, "x")),)


def _one_hot(shapes: OpShapes) -> Sequence[TensorSpec]:
    indices = input_shape(shapes, "indices")
    at = normal_axis(shapes.attributes["axis"], len(indices) + 1)
    depth = destination_shape(shapes, "y")[at]
    return (TensorSpec((*indices[:at], depth, *indices[at:]), input_dtype(shapes, "values")),)


def _two_axes(view: OperandView) -> str | None:
    first, second = view.attributes["batch_axis"], view.attributes["time_axis"]
    if {first, second} == {0, 1}:
        return None
    return f"batch_axis = {first} and time_axis = {second}; one must be 0 and the other 1"


OPS: tuple[OpDef, ...] = (
    define(
        "pad",
        "The input with elements added (or, by negative pads, removed) at both ends of every axis.",
        ("x", "pads", "value?"),
        ("y",),
        _pad,
        attributes=(attribute("mode", "string", "constant", PAD_MODES),),
        rules=(
            same_element("x", "value", "y"),
            same_rank("x", "y"),
            element("pads", ("i64",)),
            rank("pads", 1, 1),
        ),
    ),
    define(
        "reverse_sequence",
        "Every sequence of a batch reversed over its own length.",
        ("x", "lengths"),
        ("y",),
        _like_x,
        attributes=(attribute("batch_axis", "int", 1), attribute("time_axis", "int", 0)),
        rules=(
            same_element("x", "y"),
            same_rank("x", "y"),
            rank("x", 2),
            element("lengths", ("i64",)),
            rank("lengths", 1, 1),
            _two_axes,
        ),
    ),
    define(
        "one_hot",
        "`values[1]` at each index along a new axis, `values[0]` elsewhere; the new extent is the output's.",
        ("indices", "values"),
        ("y",),
        _one_hot,
        attributes=(attribute("axis", "int", -1),),
        rules=(
            element("indices", INDICES),
            same_element("values", "y"),
            rank("values", 1, 1),
            axis("axis", "y"),
        ),
    ),
)
