"""Discrete Fourier transform. An axis that is known at run time only is the operand `at`; it replaces the attribute."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    FLOATS,
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
    replaced,
    same_element,
    same_rank,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec
from hip_compiler.shapes import dim


def _dft(shapes: OpShapes) -> Sequence[TensorSpec]:
    x, attributes = input_shape(shapes, "x"), shapes.attributes
    if shapes.inputs.get("at") is not None:
        return (TensorSpec(destination_shape(shapes, "y"), input_dtype(shapes, "x")),)
    at = normal_axis(attributes["axis"], len(x))
    to_real = attributes["inverse"] and attributes["onesided"]
    length = (x[at] - 1) * 2 if to_real else x[at]
    if shapes.inputs.get("length") is not None:
        known = shapes.values.get("length")
        if known is None:
            return (TensorSpec(destination_shape(shapes, "y"), input_dtype(shapes, "x")),)
        length = known[0]
    half = attributes["onesided"] and not attributes["inverse"]
    result = replaced(x, at, length // 2 + 1 if half else length)
    return (TensorSpec((*result[:-1], dim(1 if to_real else 2)), input_dtype(shapes, "x")),)


def _not_the_last(view: OperandView) -> str | None:
    axes = view.rank("x") or 0
    if view.attributes["axis"] in (-1, axes - 1):
        return "the last axis holds the real and the imaginary part and cannot be transformed"
    return None


OPS: tuple[OpDef, ...] = (
    define(
        "dft",
        "Discrete Fourier transform along one axis; the last axis is (real) or (real, imaginary).",
        ("x", "length?", "at?"),
        ("y",),
        _dft,
        attributes=(
            attribute("axis", "int", -2),
            attribute("inverse", "bool", False),
            attribute("onesided", "bool", False),
        ),
        rules=(
            element("x", FLOATS),
            element("length", ("i64",)),
            element("at", INDICES),
            same_element("x", "y"),
            same_rank("x", "y"),
            rank("x", 2),
            rank("length", 0, 1),
            rank("at", 0, 1),
            axis("axis", "x"),
            _not_the_last,
        ),
    ),
)
