"""What a decoder's layer is made of, for targets where every launch counts: products with all that surrounds them."""

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

FLOATS = ("f32", "f16", "bf16")
LINEAR_ACTIVATIONS = ("none", "silu", "gelu", "gelu_tanh")


def _rows(shapes: OpShapes) -> Sequence[TensorSpec]:
    x = input_shape(shapes, "x")
    depth = dim(shapes.attributes["k"])
    if x[-1].value is not None and x[-1] != depth:
        raise ValueError(f"the last extent of x is {x[-1]}, and K is {depth}")
    return (TensorSpec((*x[:-1], dim(shapes.attributes["n"])), input_dtype(shapes, "x")),)


def _weights(view: OperandView) -> str | None:
    quantised = view.attributes["bits"] != 0
    if quantised != ("scales" in view.types):
        return "scales belong to weights of few bits"
    if ("up" in view.types) and quantised != ("up_scales" in view.types):
        return "both weights have scales, or neither has"
    if not quantised and view.element("weight") != view.element("x"):
        return f"weight has element type {view.element('weight')}, x has {view.element('x')}"
    if view.attributes["activation"] != "none" and "up" not in view.types:
        return "an activation is that of a gate, and there is no up projection"
    return None


OPS: tuple[OpDef, ...] = (
    define(
        "linear",
        "norm(x) W + bias + residual, or activation(norm(x) W) * (norm(x) Up) + residual; W is [K, N], or [N, K].",
        ("x", "norm?", "weight", "scales?", "zeros?", "up?", "up_scales?", "up_zeros?", "bias?", "residual?"),
        ("y",),
        _rows,
        attributes=(
            attribute("n", "int"),
            attribute("k", "int"),
            attribute("bits", "int", 0),
            attribute("block", "int", 0),
            attribute("epsilon", "float", 0.0),
            attribute("activation", "string", "none", LINEAR_ACTIVATIONS),
            attribute("transposed", "bool", False),
        ),
        rules=(
            element("x", FLOATS),
            same_element("x", "norm", "bias", "residual", "y"),
            rank("x", 2, 2),
            rank("norm", 1, 1),
            rank("bias", 1, 1),
            rank("residual", 2, 2),
            same_element("weight", "up"),
            same_element("scales", "up_scales"),
            same_element("zeros", "up_zeros"),
            positive("n", "k"),
            _weights,
        ),
    ),
)
