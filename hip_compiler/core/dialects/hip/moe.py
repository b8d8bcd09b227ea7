"""Mixture of experts: feed-forward layers of which every token uses a few."""

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

ACTIVATIONS = ("relu", "gelu", "silu", "swiglu", "identity")
FUSIONS = ("apart", "interleaved", "concatenated")
"""Where the linear half of a swiglu is: in fc3, beside each column of the gate, or after all of them."""

_FLOATS = ("f32", "f16", "bf16")
_LAYERS = ("fc1", "fc2", "fc3")


def _like_x(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(input_shape(shapes, "x"), input_dtype(shapes, "x")),)


def _few(view: OperandView) -> str | None:
    k, experts = view.attributes["k"], view.attributes["experts"]
    return None if k <= experts else f"{k} of {experts} experts"


def _bits(view: OperandView) -> str | None:
    for layer in _LAYERS:
        bits, block = view.attributes[f"{layer}_bits"], view.attributes[f"{layer}_block"]
        if bits not in (0, 2, 4, 8):
            return f"{layer} has weights of {bits} bits; 2, 4, 8 or floats (0) are needed"
        if bits and (block < 16 or block % 16):
            return f"{layer} has blocks of {block}; a multiple of 16 is needed"
    return None


OPS: tuple[OpDef, ...] = (
    define(
        "moe",
        "The weighted sum of what the k experts with the highest router scores make of a token. Weights are packed as"
        " those of `matmul` and `matmul_nbits`, one expert after the other.",
        (
            "x", "router", "router_weights?",
            "fc1", "fc1_scales?", "fc1_zeros?", "fc1_bias?",
            "fc2", "fc2_scales?", "fc2_zeros?", "fc2_bias?",
            "fc3?", "fc3_scales?", "fc3_zeros?", "fc3_bias?",
        ),
        ("y",),
        _like_x,
        attributes=(
            attribute("experts", "int"),
            attribute("inner", "int"),
            attribute("k", "int"),
            attribute("activation", "string", choices=ACTIVATIONS),
            attribute("fusion", "string", "apart", choices=FUSIONS),
            attribute("alpha", "float", 1.0),
            attribute("beta", "float", 0.0),
            attribute("limit", "float", float("inf")),
            attribute("normalize", "bool", False),
            *(attribute(f"{layer}_{what}", "int", 0) for layer in _LAYERS for what in ("bits", "block")),
            attribute("accuracy_level", "int", 0),
        ),
        rules=(
            element("x", _FLOATS),
            same_element("x", "y"),
            element("router", _FLOATS),
            element("router_weights", _FLOATS),
            rank("x", 1),
            *(element(layer, ("f32", "i8")) for layer in _LAYERS),
            *(element(f"{layer}_{what}", ("f32",)) for layer in _LAYERS for what in ("scales", "zeros", "bias")),
            positive("experts", "inner", "k"),
            _few,
            _bits,
        ),
    ),
)  # fmt: skip
