"""Running sums and products. An axis that is known at run time only is the operand `at`; it replaces the attribute."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    INDICES,
    NUMBERS,
    attribute,
    axis,
    define,
    element,
    input_dtype,
    input_shape,
    rank,
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
_RULES = (
    element("x", NUMBERS),
    same_element("x", "y"),
    same_rank("x", "y"),
    element("at", INDICES),
    rank("at", 0, 1),
    axis("axis", "x"),
)

OPS: tuple[OpDef, ...] = (
    define(
        "cumsum",
        "Sum of all elements up to each position along one axis; integers wrap around.",
        ("x", "at?"),
        ("y",),
        _like_x,
        attributes=_ATTRIBUTES,
        rules=_RULES,
    ),
    define(
        "cumprod",
        "Product of all elements up to each position along one axis; integers wrap around.",
        ("x", "at?"),
        ("y",),
        _like_x,
        attributes=_ATTRIBUTES,
        rules=_RULES,
    ),
)
