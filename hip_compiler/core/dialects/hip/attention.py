"""Attention over cached keys and values, what fills the cache, and rotary position embedding.

Heads come in either layout: rank 4 is `[batch, head, position, size]`; rank 3 is `[batch, position, columns]` with the
heads side by side from a column on, so that packed q, k and v need no copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    OperandView,
    attribute,
    define,
    destination_shape,
    element,
    input_dtype,
    input_shape,
    positive,
    rank,
    same_element,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec
from hip_compiler.shapes import dim

ATTENTION_FLOATS = ("f32", "f16", "bf16")
MAX_ROTARY_SIZE = 1024
"""Greatest size of a head that is rotated."""


def _attention(shapes: OpShapes) -> Sequence[TensorSpec]:
    q, attributes = input_shape(shapes, "q"), shapes.attributes
    columns = attributes.get("v_size", attributes["size"]) * (1 if len(q) == 4 else attributes["q_heads"])
    return (TensorSpec((*q[:-1], dim(columns)), input_dtype(shapes, "q")),)


def _rotary(shapes: OpShapes) -> Sequence[TensorSpec]:
    x, attributes = input_shape(shapes, "x"), shapes.attributes
    shape = x if len(x) == 4 else (*x[:2], dim(attributes["heads"] * attributes["size"]))
    return (TensorSpec(shape, input_dtype(shapes, "x")),)


def _cache(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(destination_shape(shapes, "present"), input_dtype(shapes, "update")),)


def _quantized_cache(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(destination_shape(shapes, "present"), "i8"),)


def _cached_attention(shapes: OpShapes) -> Sequence[TensorSpec]:
    q, attributes, dtype = input_shape(shapes, "q"), shapes.attributes, input_dtype(shapes, "q")
    y = TensorSpec((*q[:2], dim(attributes["q_heads"] * attributes["size"])), dtype)
    return (y, *(TensorSpec(destination_shape(shapes, f"present_{word}"), dtype) for word in "kv"))


def _window(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(destination_shape(shapes, "present"), input_dtype(shapes, "staged")),)


def _cache_bits(view: OperandView) -> str | None:
    bits, size = view.attributes["bits"], view.attributes["size"]
    if bits not in (4, 8):
        return f"a cache of {bits} bits; 4 or 8 are needed"
    return f"heads of size {size} in a cache of 4 bits; an even size is needed" if bits == 4 and size % 2 else None


def _groups(view: OperandView) -> str | None:
    heads, shared = view.attributes["q_heads"], view.attributes["kv_heads"]
    return None if heads % shared == 0 else f"{heads} query heads do not share {shared} heads of k and v evenly"


def _rotary_size(view: OperandView) -> str | None:
    size = view.attributes["size"]
    return None if size <= MAX_ROTARY_SIZE else f"heads of size {size}; at most {MAX_ROTARY_SIZE} can be rotated"


HEADS = (attribute("q_heads", "int"), attribute("kv_heads", "int"), attribute("size", "int"))
FIRSTS = tuple(attribute(f"{name}_first", "int", 0) for name in "qkv")
SOFTMAX = (attribute("window", "int", 0), attribute("softcap", "float", 0.0), attribute("smooth", "bool", False))
MASKING = (
    element("bias", (*ATTENTION_FLOATS, "i8")),
    rank("bias", 1, 4),
    element("past_lengths", ("i32",)),
    element("lengths", ("i32",)),
    element("sink", ATTENTION_FLOATS),
)
"""Rules for what says which keys a row sees, and how much."""

OPS: tuple[OpDef, ...] = (
    define(
        "attention",
        "softmax(scale * q k' + bias) v per head; the sums are float32.",
        ("q", "k", "v", "bias?", "past_lengths?", "lengths?", "sink?"),
        ("y",),
        _attention,
        attributes=(
            *HEADS,
            attribute("v_size", "int"),
            *FIRSTS,
            attribute("scale", "float"),
            attribute("causal", "bool", False),
            *SOFTMAX,
        ),
        rules=(
            element("q", ATTENTION_FLOATS),
            same_element("q", "k", "v", "y"),
            *(rank(name, 3, 4) for name in ("q", "k", "v")),
            *MASKING,
            positive("q_heads", "kv_heads", "size", "v_size"),
            _groups,
        ),
    ),
    define(
        "rotary",
        "Rotates pairs of columns of every head by the angle of its position; the other columns stay.",
        ("x", "cos", "sin", "positions?"),
        ("y",),
        _rotary,
        attributes=(
            attribute("heads", "int"),
            attribute("size", "int"),
            attribute("first", "int", 0),
            attribute("interleaved", "bool", False),
        ),
        rules=(
            element("x", ATTENTION_FLOATS),
            same_element("x", "y"),
            rank("x", 3, 4),
            element("cos", ATTENTION_FLOATS),
            same_element("cos", "sin"),
            rank("cos", 2, 3),
            element("positions", ("i64",)),
            positive("heads", "size"),
            _rotary_size,
        ),
    ),
    define(
        "cached_attention",
        "Causal attention of a decoder layer: q and k are rotated, k and v go into their caches, y attends to these.",
        (
            "q",
            "k",
            "v",
            "cos?",
            "sin?",
            "positions?",
            "past_k?",
            "past_v?",
            "past_lengths",
            "lengths",
            "bias?",
            "sink?",
        ),
        ("y", "present_k", "present_v"),
        _cached_attention,
        attributes=(
            *HEADS,
            *FIRSTS,
            attribute("interleaved", "bool", False),
            attribute("scale", "float"),
            *SOFTMAX,
        ),
        rules=(
            element("q", ATTENTION_FLOATS),
            same_element("q", "k", "v", "past_k", "past_v", "y", "present_k", "present_v"),
            *(rank(name, 3, 3) for name in ("q", "k", "v", "y")),
            *(rank(name, 4, 4) for name in ("past_k", "past_v", "present_k", "present_v")),
            element("cos", ATTENTION_FLOATS),
            same_element("cos", "sin"),
            rank("cos", 2, 2),
            element("positions", ("i64",)),
            *MASKING,
            positive("q_heads", "kv_heads", "size"),
            _groups,
            _rotary_size,
        ),
    ),
    define(
        "kv_append",
        "A cache of keys or values with new positions after the valid ones; in place when both are one buffer.",
        ("update", "past?", "lengths?"),
        ("present",),
        _cache,
        attributes=(attribute("heads", "int"), attribute("size", "int"), attribute("first", "int", 0)),
        rules=(
            element("update", ATTENTION_FLOATS),
            same_element("update", "past", "present"),
            rank("update", 3, 4),
            rank("past", 4, 4),
            rank("present", 4, 4),
            element("lengths", ("i32",)),
            positive("heads", "size"),
        ),
    ),
    define(
        "attention_quantized",
        "Causal attention over caches of 4 or 8 bits: k and v are their integers times their scales.",
        ("q", "k", "v", "k_scale", "v_scale", "bias?", "past_lengths?", "lengths?", "sink?"),
        ("y",),
        _attention,
        attributes=(
            *HEADS,
            attribute("q_first", "int", 0),
            attribute("scale", "float"),
            *SOFTMAX,
            attribute("bits", "int"),
        ),
        rules=(
            element("q", ATTENTION_FLOATS),
            same_element("q", "y"),
            rank("q", 3, 4),
            *(element(name, ("i8",)) for name in ("k", "v")),
            *(rank(name, 4, 4) for name in ("k", "v")),
            *(element(name, ("f32",)) for name in ("k_scale", "v_scale")),
            *MASKING,
            positive("q_heads", "kv_heads", "size"),
            _groups,
            _cache_bits,
        ),
    ),
    define(
        "kv_append_quantized",
        "A cache of 4 or 8 bits with new positions after the valid ones, the nearest integers to update / scale.",
        ("update", "scale", "past?", "lengths?"),
        ("present",),
        _quantized_cache,
        attributes=(
            attribute("heads", "int"),
            attribute("size", "int"),
            attribute("first", "int", 0),
            attribute("bits", "int"),
        ),
        rules=(
            element("update", ATTENTION_FLOATS),
            element("scale", ("f32",)),
            *(element(name, ("i8",)) for name in ("past", "present")),
            rank("update", 3, 4),
            rank("past", 4, 4),
            rank("present", 4, 4),
            element("lengths", ("i32",)),
            positive("heads", "size"),
            _cache_bits,
        ),
    ),
    define(
        "kv_window",
        "The last of the filled positions of a cache, from row 0 on, in a smaller cache.",
        ("staged", "filled", "kept"),
        ("present",),
        _window,
        attributes=(attribute("window", "int"),),
        rules=(
            element("staged", (*ATTENTION_FLOATS, "i8")),
            same_element("staged", "present"),
            rank("staged", 4, 4),
            rank("present", 4, 4),
            element("filled", ("i32",)),
            element("kept", ("i32",)),
            positive("window"),
        ),
    ),
)
