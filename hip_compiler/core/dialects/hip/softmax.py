"""Softmax and hardmax."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    FLOATS,
    attribute,
    axis,
    define,
    element,
    input_dtype,
    input_shape,
    same_element,
    same_rank,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec


def _like_x(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(input_shape(shapes, "x"), input_dtype(shapes, "x")),)


_RULES = (element("x", FLOATS), same_element("x", "y"), same_rank("x", "y"), axis("axis", "x"))

OPS: tuple[OpDef, ...] = (
    define(
        "softmax",
        "Softmax along one axis, or its logarithm.",
        ("x",),
        ("y",),
        _like_x,
        attributes=(attribute("axis", "int", -1), attribute("log", "bool", False)),
        rules=_RULES,
    ),
    define(
        "hardmax",
        "One at the first maximum along an axis, zero elsewhere.",
        ("x",),
        ("y",),
        _like_x,
        attributes=(attribute("axis", "int", -1),),
        rules=_RULES,
    ),
)
