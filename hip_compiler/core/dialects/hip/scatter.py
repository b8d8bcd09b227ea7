"""Writing elements at indices into a copy of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    INDICES,
    UNSIGNED,
    OperandView,
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

REDUCTIONS = ("none", "add", "mul", "max", "min")


def _like_data(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(input_shape(shapes, "data"), input_dtype(shapes, "data")),)


def _like_past(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(input_shape(shapes, "past"), input_dtype(shapes, "past")),)


def _no_complex_reduction(view: OperandView) -> str | None:
    if view.attributes["reduction"] != "none" and (view.element("data") or "").startswith("complex"):
        return "a reduction of complex numbers is not supported"
    return None


_REDUCTION = attribute("reduction", "string", "none", REDUCTIONS)
_RULES = (
    element("indices", INDICES),
    same_element("data", "updates", "y"),
    same_rank("data", "y"),
    rank("data", 1),
    _no_complex_reduction,
)

OPS: tuple[OpDef, ...] = (
    define(
        "scatter_elements",
        "A copy of `data` with `updates` written, or reduced in, where one coordinate is replaced by an index.",
        ("data", "indices", "updates"),
        ("y",),
        _like_data,
        attributes=(attribute("axis", "int", 0), _REDUCTION, UNSIGNED),
        rules=(*_RULES, same_rank("data", "indices", "updates"), axis("axis", "data")),
    ),
    define(
        "scatter_nd",
        "A copy of `data` with slices of `updates` written, or reduced in, at index tuples.",
        ("data", "indices", "updates"),
        ("y",),
        _like_data,
        attributes=(_REDUCTION, UNSIGNED),
        rules=(*_RULES, rank("indices", 1)),
    ),
    define(
        "tensor_scatter",
        "A copy of `past` with a block of `update` written per batch entry, at a position along one axis.",
        ("past", "update", "positions?"),
        ("y",),
        _like_past,
        attributes=(attribute("axis", "int", -2), attribute("mode", "string", "linear", ("linear", "circular"))),
        rules=(
            element("positions", ("i64",)),
            rank("positions", 1, 1),
            same_element("past", "update", "y"),
            same_rank("past", "update", "y"),
            rank("past", 2),
            axis("axis", "past"),
        ),
    ),
)
