"""Linear attention and the causal convolution in front of it: both carry a state from run to run."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
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

_FLOATS = ("f32", "f16", "bf16")


def _linear_attention(shapes: OpShapes) -> Sequence[TensorSpec]:
    q, attributes = input_shape(shapes, "q"), shapes.attributes
    dtype = input_dtype(shapes, "q")
    state = (q[0], *(dim(attributes[name]) for name in ("kv_heads", "size", "v_size")))
    past = shapes.dtypes.get("past")
    return (
        TensorSpec((*q[:2], dim(attributes["q_heads"] * attributes["v_size"])), dtype),
        TensorSpec(state, past or dtype),
    )


def _causal_conv(shapes: OpShapes) -> Sequence[TensorSpec]:
    x, w, dtype = input_shape(shapes, "x"), input_shape(shapes, "w"), input_dtype(shapes, "x")
    return (TensorSpec(x, dtype), TensorSpec((*x[:2], (w[2] - 1) * shapes.attributes["dilation"]), dtype))


OPS: tuple[OpDef, ...] = (
    define(
        "linear_attention",
        "A state per head that is decayed, corrected, written and read once per position; the state is float32.",
        ("q", "k", "v", "past?", "decay?", "beta?"),
        ("y", "present"),
        _linear_attention,
        attributes=(
            attribute("q_heads", "int"),
            attribute("kv_heads", "int"),
            attribute("size", "int"),
            attribute("v_size", "int"),
            attribute("scale", "float"),
        ),
        rules=(
            *(element(name, _FLOATS) for name in ("q", "past", "decay", "beta")),
            same_element("q", "k", "v", "y"),
            *(rank(name, 3, 3) for name in ("q", "k", "v")),
            positive("q_heads", "kv_heads", "size", "v_size"),
        ),
    ),
    define(
        "causal_conv",
        "Depthwise convolution along the last axis over past and present inputs; the last inputs are the next state.",
        ("x", "w", "bias?", "past?"),
        ("y", "present"),
        _causal_conv,
        attributes=(attribute("dilation", "int", 1), attribute("silu", "bool", False)),
        rules=(
            element("x", _FLOATS),
            same_element("x", "w", "bias", "past", "y", "present"),
            rank("x", 3, 3),
            rank("w", 3, 3),
            positive("dilation"),
        ),
    ),
)
