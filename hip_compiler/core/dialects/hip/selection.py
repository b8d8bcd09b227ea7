"""Operations whose output extent depends on the data: one operation counts, the other fills.

The counting operation writes a rank-0 i64 tensor; whoever makes the pair reads it, allocates, and calls the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    NUMBERS,
    UNSIGNED,
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
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec
from hip_compiler.shapes import dim, product


def _count(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec((), "i64"),)


def _nonzero(shapes: OpShapes) -> Sequence[TensorSpec]:
    found = destination_shape(shapes, "y")[1]
    return (TensorSpec((dim(len(input_shape(shapes, "x"))), found), "i64"),)


def _kept(shapes: OpShapes) -> TensorSpec:
    x, y = input_shape(shapes, "x"), destination_shape(shapes, "y")
    if shapes.attributes["flatten"]:
        return TensorSpec((y[0],), input_dtype(shapes, "x"))
    at = normal_axis(shapes.attributes["axis"], len(x))
    return TensorSpec(replaced(x, at, y[at]), input_dtype(shapes, "x"))


def _compress(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (_kept(shapes),)


def _unique(shapes: OpShapes) -> Sequence[TensorSpec]:
    x, y = input_shape(shapes, "x"), _kept(shapes)
    flat = shapes.attributes["flatten"]
    at = 0 if flat else normal_axis(shapes.attributes["axis"], len(x))
    found = TensorSpec((y.shape[at],), "i64")
    inverse = TensorSpec((product(x) if flat else x[at],), "i64")
    return y, found, inverse, found


def _axis_unless_flat(view: OperandView) -> str | None:
    return None if view.attributes["flatten"] else axis("axis", "x")(view)


_COUNT = (element("n", ("i64",)), rank("n", 0, 0))
_AXIS = (attribute("axis", "int", 0), attribute("flatten", "bool", False))

OPS: tuple[OpDef, ...] = (
    define("nonzero_count", "Number of elements that are not zero.", ("x",), ("n",), _count, rules=_COUNT),
    define(
        "nonzero",
        "Coordinates of the elements that are not zero, one column each, in row-major order.",
        ("x",),
        ("y",),
        _nonzero,
        rules=(element("y", ("i64",)), rank("y", 2, 2)),
    ),
    define(
        "compress_count",
        "Number of true conditions.",
        ("condition",),
        ("n",),
        _count,
        rules=(element("condition", ("i8",)), rank("condition", 1, 1), *_COUNT),
    ),
    define(
        "compress",
        "Slices along one axis, or elements of the flattened input, where the condition is true.",
        ("x", "condition"),
        ("y",),
        _compress,
        attributes=_AXIS,
        rules=(
            same_element("x", "y"),
            element("condition", ("i8",)),
            rank("condition", 1, 1),
            _axis_unless_flat,
        ),
    ),
    define(
        "unique_count",
        "Number of different elements, or of different slices along one axis.",
        ("x",),
        ("n",),
        _count,
        attributes=(*_AXIS, UNSIGNED),
        rules=(element("x", NUMBERS), *_COUNT, _axis_unless_flat),
    ),
    define(
        "unique",
        "Different elements or slices, where each occurs first, which one each input is, and how often each occurs.",
        ("x",),
        ("y", "indices", "inverse", "counts"),
        _unique,
        attributes=(*_AXIS, attribute("sorted", "bool", True), UNSIGNED),
        rules=(
            element("x", NUMBERS),
            same_element("x", "y"),
            element("indices", ("i64",)),
            same_element("indices", "inverse", "counts"),
            _axis_unless_flat,
        ),
    ),
)
