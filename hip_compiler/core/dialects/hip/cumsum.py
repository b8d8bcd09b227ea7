"""Running sums and products."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    NUMBERS,
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


_ATTRIBUTES = (
    attribute("axis", "int", 0),
    attribute("exclusive", "bool", False),
    attribute("reverse", "bool", False),
)
_RULES = (element("x", NUMBERS), same_element("x", "y"), same_rank("x", "y"), axis("axis", "x"))

OPS: tuple[OpDef, ...] = (
    define(
        "cumsum",
        "Sum of all elements up to each position along one axis; integers wrap around.",
        ("x",),
        ("y",),
        _like_x,
        attributes=_ATTRIBUTES,
        rules=_RULES,
    ),
    define(
        "cumprod",
        "Product of all elements up to each position along one axis; integers wrap around.",
        ("x",),
        ("y",),
        _like_x,
        attributes=_ATTRIBUTES,
        rules=_RULES,
    ),
)
