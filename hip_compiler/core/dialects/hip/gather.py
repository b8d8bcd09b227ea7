"""Reading elements at indices."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    INDICES,
    OperandView,
    attribute,
    axis,
    define,
    element,
    input_dtype,
    input_shape,
    normal_axis,
    rank,
    same_element,
    same_rank,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec


def _gather(shapes: OpShapes) -> Sequence[TensorSpec]:
    data = input_shape(shapes, "data")
    at = normal_axis(shapes.attributes["axis"], len(data))
    result = (*data[:at], *input_shape(shapes, "indices"), *data[at + 1 :])
    return (TensorSpec(result, input_dtype(shapes, "data")),)


def _like_indices(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(input_shape(shapes, "indices"), input_dtype(shapes, "data")),)


def _gather_nd(shapes: OpShapes) -> Sequence[TensorSpec]:
    data, indices = input_shape(shapes, "data"), input_shape(shapes, "indices")
    depth = indices[-1].value
    if depth is None:
        raise ValueError("the last extent of indices must be known")
    result = (*indices[:-1], *data[shapes.attributes["batch_dims"] + depth :])
    return (TensorSpec(result, input_dtype(shapes, "data")),)


def _gather_rank(view: OperandView) -> str | None:
    expected = (view.rank("data") or 0) - 1 + (view.rank("indices") or 0)
    return None if view.rank("y") == expected else f"operand y has rank {view.rank('y')}; {expected} is needed"


def _batch_dims(view: OperandView) -> str | None:
    value = view.attributes["batch_dims"]
    limit = min(view.rank("data") or 0, view.rank("indices") or 0)
    return None if 0 <= value < limit else f"batch_dims = {value} is outside [0, {limit})"


OPS: tuple[OpDef, ...] = (
    define(
        "gather",
        "Slices of `data` along one axis, at every index.",
        ("data", "indices"),
        ("y",),
        _gather,
        attributes=(attribute("axis", "int", 0),),
        rules=(
            element("indices", INDICES),
            same_element("data", "y"),
            rank("data", 1),
            axis("axis", "data"),
            _gather_rank,
        ),
    ),
    define(
        "gather_elements",
        "Elements of `data` where one coordinate is replaced by an index.",
        ("data", "indices"),
        ("y",),
        _like_indices,
        attributes=(attribute("axis", "int", 0),),
        rules=(
            element("indices", INDICES),
            same_element("data", "y"),
            rank("data", 1),
            same_rank("data", "indices", "y"),
            axis("axis", "data"),
        ),
    ),
    define(
        "gather_nd",
        "Slices of `data` at index tuples.",
        ("data", "indices"),
        ("y",),
        _gather_nd,
        attributes=(attribute("batch_dims", "int", 0),),
        rules=(
            element("indices", INDICES),
            same_element("data", "y"),
            rank("data", 1),
            rank("indices", 1),
            _batch_dims,
        ),
    ),
)
