"""Product with a right-hand side of few bits."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    OperandView,
    attribute,
    define,
    element,
    input_dtype,
    input_shape,
    positive,
    rank,
    same_element,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec
from hip_compiler.shapes import dim

BITS = (2, 4, 8)
STRIP = 16
"""Columns whose packed weights lie side by side."""

_FLOATS = ("f32", "f16", "bf16")


def _product(shapes: OpShapes) -> Sequence[TensorSpec]:
    a = input_shape(shapes, "a")
    depth = dim(shapes.attributes["k"])
    if a[-1].value is not None and a[-1] != depth:
        raise ValueError(f"the last extent of a is {a[-1]}, and K is {depth}")
    return (TensorSpec((*a[:-1], dim(shapes.attributes["n"])), input_dtype(shapes, "a")),)


def _quantisation(view: OperandView) -> str | None:
    bits, block = view.attributes["bits"], view.attributes["block"]
    if bits not in BITS:
        return f"weights of {bits} bits; 2, 4 or 8 are needed"
    if block < 16 or block & (block - 1):
        return f"blocks of {block}; a power of two from 16 on is needed"
    return None


OPS: tuple[OpDef, ...] = (
    define(
        "matmul_nbits",
        "a x (weights - zeros) * scales + bias, with weights of 2, 4 or 8 bits in blocks along K.",
        ("a", "weights", "scales", "zeros?", "bias?"),
        ("y",),
        _product,
        attributes=(
            attribute("n", "int"),
            attribute("k", "int"),
            attribute("bits", "int"),
            attribute("block", "int"),
            attribute("accuracy_level", "int", 0),
            attribute("packed", "bool", False),
        ),
        rules=(
            element("a", _FLOATS),
            same_element("a", "bias", "y"),
            element("weights", ("i8",)),
            element("scales", _FLOATS),
            element("zeros", (*_FLOATS, "i8")),
            rank("a", 1),
            rank("bias", 1, 1),
            positive("n", "k"),
            _quantisation,
        ),
    ),
)
