"""Linear algebra beyond products."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import FLOATS, define, element, input_dtype, input_shape, rank, same_element
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec


def _det(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(input_shape(shapes, "x")[:-2], input_dtype(shapes, "x")),)


OPS: tuple[OpDef, ...] = (
    define(
        "det",
        "Determinants of a batch of square matrices.",
        ("x",),
        ("y",),
        _det,
        rules=(element("x", FLOATS), same_element("x", "y"), rank("x", 2)),
    ),
)
