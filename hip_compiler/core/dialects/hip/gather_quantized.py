"""Rows of a table of few bits."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    INDICES,
    attribute,
    define,
    element,
    input_dtype,
    input_shape,
    positive,
    rank,
    same_element,
    same_rank,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec
from hip_compiler.shapes import dim


def _rows(shapes: OpShapes) -> Sequence[TensorSpec]:
    table, per_byte = input_shape(shapes, "table"), 8 // shapes.attributes["bits"]
    result = (*input_shape(shapes, "indices"), *table[1:-1], table[-1] * per_byte)
    return (TensorSpec(result, input_dtype(shapes, "scales")),)


def _packed_rows(shapes: OpShapes) -> Sequence[TensorSpec]:
    """Float32; an operation made with destinations of another float type has theirs."""
    return (TensorSpec((*input_shape(shapes, "indices"), dim(shapes.attributes["k"])), "f32"),)


OPS: tuple[OpDef, ...] = (
    define(
        "gather_block_quantized",
        "Entries of a table of 2, 4 or 8 bits, picked along axis 0 and dequantised in blocks along the last axis.",
        ("table", "indices", "scales", "zeros?"),
        ("y",),
        _rows,
        attributes=(
            attribute("bits", "int"),
            attribute("block", "int"),
            attribute("default_zero", "int", 0),
            attribute("is_signed", "bool", False),
        ),
        rules=(
            element("table", ("i8",)),
            rank("table", 2),
            element("indices", INDICES),
            element("scales", ("f32", "f16", "bf16")),
            same_rank("table", "scales"),
            same_element("scales", "y"),
            element("zeros", ("i8",)),
            positive("bits", "block"),
        ),
    ),
    define(
        "gather_packed",
        "Rows of a table that is the packed right-hand side of a product: row r is column r of the matrix.",
        ("table", "indices", "scales?", "zeros?"),
        ("y",),
        _packed_rows,
        attributes=(
            attribute("n", "int"),
            attribute("k", "int"),
            attribute("bits", "int", 0),
            attribute("block", "int", 0),
            attribute("zeros_outside", "bool", False),
        ),
        rules=(
            element("table", ("f32", "i8")),
            element("indices", INDICES),
            element("scales", ("f32",)),
            element("zeros", ("f32",)),
            element("y", ("f32", "f16", "bf16")),
            positive("n", "k"),
        ),
    ),
)
