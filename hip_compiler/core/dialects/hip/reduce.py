"""Reductions whose axes are known at run time only: the extents of the output say which they are."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    NUMBERS,
    UNSIGNED,
    attribute,
    define,
    destination_shape,
    element,
    input_dtype,
    same_element,
    same_rank,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec

KINDS = ("sum", "product", "max", "min")


def _destination(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(destination_shape(shapes, "y"), input_dtype(shapes, "x")),)


OPS: tuple[OpDef, ...] = (
    define(
        "reduce",
        "Combines elements along the axes where the extent of y is 1 and that of x is not; integers wrap around.",
        ("x",),
        ("y",),
        _destination,
        attributes=(attribute("kind", "string", "sum", KINDS), UNSIGNED),
        rules=(element("x", NUMBERS), same_element("x", "y"), same_rank("x", "y")),
    ),
)
