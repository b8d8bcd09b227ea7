"""Positions of extremes, and the k greatest or least."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    NUMBERS,
    UNSIGNED,
    attribute,
    axis,
    define,
    destination_shape,
    element,
    input_dtype,
    input_shape,
    normal_axis,
    replaced,
    same_element,
    same_rank,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec
from hip_compiler.shapes import dim


def _arg_reduce(shapes: OpShapes) -> Sequence[TensorSpec]:
    x = input_shape(shapes, "x")
    if not x:
        return (TensorSpec((), "i64"),)
    at = normal_axis(shapes.attributes["axis"], len(x))
    kept = replaced(x, at, dim(1)) if shapes.attributes["keepdims"] else (*x[:at], *x[at + 1 :])
    return (TensorSpec(kept, "i64"),)


def _topk(shapes: OpShapes) -> Sequence[TensorSpec]:
    x = input_shape(shapes, "x")
    at = normal_axis(shapes.attributes["axis"], len(x))
    result = replaced(x, at, destination_shape(shapes, "values")[at])
    return (TensorSpec(result, input_dtype(shapes, "x")), TensorSpec(result, "i64"))


OPS: tuple[OpDef, ...] = (
    define(
        "arg_reduce",
        "Position of the greatest or least element along one axis; a NaN is both.",
        ("x",),
        ("y",),
        _arg_reduce,
        attributes=(
            attribute("mode", "string", choices=("max", "min")),
            attribute("axis", "int", 0),
            attribute("keepdims", "bool", True),
            attribute("select_last_index", "bool", False),
            UNSIGNED,
        ),
        rules=(element("x", NUMBERS), element("y", ("i64",)), axis("axis", "x")),
    ),
    define(
        "topk",
        "The k greatest or least elements along one axis and their positions; k is the extent of the outputs.",
        ("x",),
        ("values", "indices"),
        _topk,
        attributes=(
            attribute("axis", "int", -1),
            attribute("largest", "bool", True),
            attribute("sorted", "bool", True),
            UNSIGNED,
        ),
        rules=(
            element("x", NUMBERS),
            same_element("x", "values"),
            element("indices", ("i64",)),
            same_rank("x", "values", "indices"),
            axis("axis", "x"),
        ),
    ),
)
