"""Decoder graphs of onnxruntime-genai's builder in float64: every operator as it is defined, nothing fused or rounded.

The whole sequence is run at once, with empty caches: in exact arithmetic that gives the logits of a prompt and of the
tokens after it. Levels of quantised caches are the only thing rounded, for their rounding is part of the definition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.helper as helper
import onnx.numpy_helper as numpy_helper

from tests.llm import oracles
from tests.llm.experts import Activation, experts, route

Array = np.ndarray
Given = list[Any]


def logits(model: onnx.ModelProto, tokens: Array, size: int) -> Array:
    """Logits [tokens, vocabulary] after every one of the tokens [1, tokens]; `size`: that of a head."""
    values: dict[str, Any] = {entry.name: _array(entry) for entry in model.graph.initializer}
    values |= {"": None, "input_ids": tokens, "attention_mask": np.ones_like(tokens)}
    for entry in model.graph.input:
        if entry.name.startswith("past"):
            extents = [extent.dim_value or 1 for extent in entry.type.tensor_type.shape.dim]
            values[entry.name] = np.zeros(extents) if entry.name.endswith("conv") else None
    for node in model.graph.node:
        attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
        results = OPERATORS[node.op_type]([values[name] for name in node.input], {"size": size, **attributes})
        for name, result in zip(node.output, results, strict=False):
            values[name] = result
    return np.asarray(values["logits"][0], np.float64)


def _array(entry: onnx.TensorProto) -> Array:
    """What is not a whole number as float64; numbers of few bits as int64."""
    array = numpy_helper.to_array(entry)
    if array.dtype == np.uint8 or array.dtype == np.int64 or array.dtype == np.int32:
        return array
    return array.astype(np.int64) if "int" in array.dtype.name else array.astype(np.float64)


def fields(packed: Array, bits: int) -> Array:
    """Fields of bytes along the last axis, lowest bits first."""
    parts = packed[..., None] >> (np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)) & np.uint8((1 << bits) - 1)
    return parts.reshape(*packed.shape[:-1], -1)


def dequantised(packed: Array, scales: Array, zeros: Array | None, bits: int, block: int) -> Array:
    """Rows [..., blocks * block] of levels in bytes; zero points in bytes, too, or the middle of the range."""
    levels = fields(packed, bits).astype(np.float64)
    scales = scales.reshape(*levels.shape[:-1], -1)
    middle: Any = 1 << (bits - 1)
    if zeros is not None:
        middle = fields(zeros.reshape(*levels.shape[:-1], -1), bits)[..., : scales.shape[-1], None]
    blocks = levels.reshape(*scales.shape, block)
    return ((blocks - middle) * scales[..., None]).reshape(levels.shape)


def matmul_nbits(given: Given, a: dict[str, Any]) -> Given:
    x, packed, scales, zeros = [*given, None][:4]
    rows = dequantised(packed.reshape(a["N"], -1), scales, zeros, a["bits"], a["block_size"])
    return [x @ rows[:, : a["K"]].T]


def gather_block_quantized(given: Given, a: dict[str, Any]) -> Given:
    packed, ids, scales, zeros = [*given, None][:4]
    return [dequantised(packed, scales, zeros, a["bits"], a["block_size"])[ids]]


def dequantize_linear(given: Given, a: dict[str, Any]) -> Given:
    levels, scales, *zeros = given
    repeated = [np.repeat(part, a["block_size"], a["axis"]) for part in (scales, *zeros)]
    return [(levels - (repeated[1] if zeros else 0)) * repeated[0]]


def norm(x: Array, scale: Array, epsilon: float) -> Array:
    return np.asarray(x / np.sqrt(np.mean(x * x, -1, keepdims=True) + epsilon) * scale)


def skip_norm(given: Given, a: dict[str, Any]) -> Given:
    total = given[0] + given[1]
    return [norm(total, given[2], a["epsilon"]), None, None, total]


def attention(given: Given, a: dict[str, Any]) -> Given:
    """GroupQueryAttention without a past."""
    q, k, v, _, _, _, _, cos, sin, _, _, sink, k_scale, v_scale, q_norm, k_norm = given + [None] * (16 - len(given))
    heads, shared, size = a["num_heads"], a["kv_num_heads"], a["size"]
    if k is None:
        q, k, v = np.split(q, [heads * size, (heads + shared) * size], -1)
    parts = [oracles.split_heads(x, count) for x, count in ((q, heads), (k, shared), (v, shared))]
    for i, scale in enumerate((q_norm, k_norm)):
        if scale is not None:
            parts[i] = norm(parts[i], scale, a["qk_norm_epsilon"])
    if a["do_rotary"]:
        positions = np.arange(q.shape[1])[None]
        parts[:2] = [oracles.rotary(x, cos, sin, positions, interleaved=False) for x in parts[:2]]
    if k_scale is not None:
        for i, scale in ((1, k_scale), (2, v_scale)):
            by = scale if scale.size == 1 else scale.reshape(shared, 1, size)
            limit = 1 << (a["kv_cache_bit_width"] - 1)
            parts[i] = np.clip(np.round(parts[i] / by), -limit, limit - 1) * by
    window = max(a["local_window_size"], 0)
    y = oracles.attention(*parts, scale=a["scale"], causal=True, window=window, softcap=a["softcap"], sink=sink)
    return [oracles.join_heads(y)]


def causal_conv(given: Given, a: dict[str, Any]) -> Given:
    x, kernel = given[:2]
    taps = kernel.shape[-1]
    padded = np.concatenate([np.zeros((*x.shape[:2], taps - 1)), x], -1)
    return [sum(kernel[:, 0, i, None] * padded[..., i : i + x.shape[-1]] for i in range(taps))]


def mixture(given: Given, a: dict[str, Any]) -> Given:
    """MoE, and QMoE with its scales."""
    bits = a.get("expert_weight_bits", 0)
    x, router = given[:2]
    if bits:
        (first, scales1, bias1), (second, scales2, bias2) = given[2:5], given[5:8]
        zeros1, zeros2 = (given + [None] * 14)[11:13]
        first = dequantised(first, scales1, zeros1, bits, a["block_size"])
        second = dequantised(second, scales2, zeros2, bits, a["block_size"])
    else:
        first, bias1, second, bias2 = given[2:6]
    activation = Activation(
        a["activation_type"].decode(),
        a["activation_alpha"],
        a["activation_beta"],
        a["swiglu_limit"],
        a["swiglu_fusion"],
    )
    shares = route(router, a["k"], bool(a["normalize_routing_weights"]))
    y = experts(
        x, shares, [part.T for part in first], [part.T for part in second], activation, bias1=bias1, bias2=bias2
    )
    return [y.reshape(x.shape)]


def reshape(given: Given, a: dict[str, Any]) -> Given:
    x, target = given
    return [x.reshape([x.shape[i] if extent == 0 else extent for i, extent in enumerate(target)])]


def slice_last(given: Given, a: dict[str, Any]) -> Given:
    x, starts, ends, axes = given
    assert axes.tolist() == [-1]
    return [x[..., starts[0] : ends[0]]]


def gelu(given: Given, a: dict[str, Any]) -> Given:
    assert a["approximate"] == b"tanh"
    x = given[0]
    return [0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))]


def cast(given: Given, a: dict[str, Any]) -> Given:
    whole = a["to"] in (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
    return [given[0].astype(np.int64 if whole else np.float64)]


OPERATORS: dict[str, Callable[[Given, dict[str, Any]], Given]] = {
    "Add": lambda given, a: [given[0] + given[1]],
    "Cast": cast,
    "CausalConvWithState": causal_conv,
    "Constant": lambda given, a: [_array(a["value"])],
    "DequantizeLinear": dequantize_linear,
    "Gather": lambda given, a: [given[0].take(given[1], a.get("axis", 0))],
    "GatherBlockQuantized": gather_block_quantized,
    "Gelu": gelu,
    "GroupQueryAttention": attention,
    "Identity": lambda given, a: given,
    "MatMul": lambda given, a: [given[0] @ given[1]],
    "MatMulNBits": matmul_nbits,
    "MoE": mixture,
    "Mul": lambda given, a: [given[0] * given[1]],
    "QMoE": mixture,
    "ReduceSum": lambda given, a: [given[0].sum(tuple(given[1]), keepdims=bool(a["keepdims"]))],
    "Reshape": reshape,
    "Shape": lambda given, a: [np.array(given[0].shape)],
    "Sigmoid": lambda given, a: [1 / (1 + np.exp(-given[0]))],
    "SimplifiedLayerNormalization": lambda given, a: [norm(given[0], given[1], a["epsilon"])],
    "SkipSimplifiedLayerNormalization": skip_norm,
    "Slice": slice_last,
    "Split": lambda given, a: np.split(given[0], np.cumsum(given[1])[:-1], a["axis"]),
    "Sub": lambda given, a: [given[0] - given[1]],
    "Transpose": lambda given, a: [given[0].transpose(a["perm"])],
}
