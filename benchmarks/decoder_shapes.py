"""Decoder LLMs of known shapes as ONNX graphs, whose weights are holes in a file: only their places matter here.

The graphs have the operators that model builders write: GroupQueryAttention with rotary embedding inside and a cache
whose past and present may share a buffer, SkipSimplifiedLayerNormalization, gated SiLU, MatMulNBits for 4 bits. Weights
are external data in a sparse file, so that shapes of many gigabytes compile on a small machine; whoever runs the
compiled model fills its constants with numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

MICROSOFT = "com.microsoft"
WEIGHTS = "weights.bin"
ALIGNMENT = 4096
BLOCK = 32


@dataclass(frozen=True)
class Shape:
    """Extents of a decoder.

    Attributes:
        dtype: element type of activations, and of weights that are not quantised: `TensorProto.DataType`.
        bits: bits of a weight of the projections; 16: they are of `dtype`.
    """

    layers: int
    hidden: int
    heads: int
    shared: int
    head_size: int
    middle: int
    vocabulary: int
    dtype: int
    bits: int = 16
    theta: float = 10000.0


SHAPES = {
    "a": Shape(30, 576, 9, 3, 64, 1536, 49152, TensorProto.FLOAT16),
    "b": Shape(16, 2048, 32, 8, 64, 8192, 128256, TensorProto.BFLOAT16),
    "c": Shape(32, 4096, 32, 8, 128, 14336, 128256, TensorProto.BFLOAT16),
    "c4": Shape(32, 4096, 32, 8, 128, 14336, 128256, TensorProto.FLOAT16, bits=4),
    "tiny": Shape(2, 64, 4, 2, 16, 112, 96, TensorProto.FLOAT16),
}
"""The shapes of SmolLM2-135M, Llama-3.2-1B, Llama-3-8B, and the last with 4-bit weights."""

_BYTES: dict[int, int] = {
    TensorProto.FLOAT: 4,
    TensorProto.FLOAT16: 2,
    TensorProto.BFLOAT16: 2,
    TensorProto.UINT8: 1,
}


@dataclass
class Builder:
    """A graph as it grows."""

    shape: Shape
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    size: int = 0

    def weight(self, name: str, extents: Sequence[int], dtype: int | None = None) -> str:
        """A weight whose contents are a hole of the file."""
        dtype = dtype or self.shape.dtype
        count = prod(extents) * _BYTES[dtype]
        tensor = TensorProto(name=name, data_type=dtype, dims=extents, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", WEIGHTS), ("offset", self.size), ("length", count)):
            tensor.external_data.add(key=key, value=str(value))
        self.constants.append(tensor)
        self.size += -(-count // ALIGNMENT) * ALIGNMENT
        return name

    def node(self, op: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **attributes: Any) -> str:
        self.nodes.append(
            helper.make_node(op, inputs, outputs, name=f"/{outputs[0]}/{op}", domain=domain, **attributes)
        )
        return outputs[0]

    def product(self, x: str, inner: int, outer: int, name: str, bits: int) -> str:
        if bits == 16:
            return self.node("MatMul", [x, self.weight(f"{name}.weight", (inner, outer))], [f"{name}.out"])
        blocks = inner // BLOCK
        weights = self.weight(f"{name}.qweight", (outer, blocks, BLOCK * bits // 8), TensorProto.UINT8)
        scales = self.weight(f"{name}.scales", (outer * blocks,))
        attributes = {"K": inner, "N": outer, "bits": bits, "block_size": BLOCK}
        return self.node("MatMulNBits", [x, weights, scales], [f"{name}.out"], MICROSOFT, **attributes)

    def layer(self, number: int, skip: str, normed: str) -> tuple[str, str]:
        """One decoder layer: from the running sum and its norm to the next of both."""
        shape, name = self.shape, f"layers.{number}"
        width, shared = shape.heads * shape.head_size, shape.shared * shape.head_size
        packed = self.product(normed, shape.hidden, width + 2 * shared, f"{name}.qkv", shape.bits)
        past = [f"past_key_values.{number}.key", f"past_key_values.{number}.value"]
        present = [f"present.{number}.key", f"present.{number}.value"]
        attended = self.node(
            "GroupQueryAttention",
            [packed, "", "", *past, "seqlens_k", "total_sequence_length", "cos_cache", "sin_cache"],
            [f"{name}.attention", *present],
            MICROSOFT,
            num_heads=shape.heads,
            kv_num_heads=shape.shared,
            do_rotary=1,
        )
        output = self.product(attended, width, shape.hidden, f"{name}.o", shape.bits)
        skip, normed = self.skip_norm(skip, output, f"{name}.post")
        gate = self.product(normed, shape.hidden, shape.middle, f"{name}.gate", shape.bits)
        up = self.product(normed, shape.hidden, shape.middle, f"{name}.up", shape.bits)
        sigmoid = self.node("Sigmoid", [gate], [f"{name}.sigmoid"])
        gated = self.node("Mul", [self.node("Mul", [gate, sigmoid], [f"{name}.silu"]), up], [f"{name}.gated"])
        down = self.product(gated, shape.middle, shape.hidden, f"{name}.down", shape.bits)
        if number + 1 < shape.layers:
            return self.skip_norm(skip, down, f"{name}.next")
        # Only the last position has logits.
        total = self.node("Add", [skip, down], [f"{name}.next.sum"])
        bounds = [
            self.integers(f"last.{word}", [value]) for word, value in (("first", -1), ("end", 2**31), ("axis", 1))
        ]
        last = self.node("Slice", [total, *bounds], [f"{name}.last"])
        scale = self.weight(f"{name}.next.norm.weight", (shape.hidden,))
        outputs = [f"{name}.next.normed"]
        return last, self.node("SimplifiedLayerNormalization", [last, scale], outputs, axis=-1, epsilon=1e-5)

    def integers(self, name: str, values: Sequence[int]) -> str:
        self.constants.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], list(values)))
        return name

    def skip_norm(self, skip: str, x: str, name: str) -> tuple[str, str]:
        scale = self.weight(f"{name}.norm.weight", (self.shape.hidden,))
        outputs = [f"{name}.normed", "", "", f"{name}.sum"]
        normed = self.node("SkipSimplifiedLayerNormalization", [skip, x, scale], outputs, MICROSOFT, epsilon=1e-5)
        return f"{name}.sum", normed


def build(shape: Shape, folder: Path, positions: int = 4096) -> Path:
    """Write `model.onnx` and its file of holes.

    Inputs: `input_ids` and per layer `past_key_values.N.key|value` `[batch, kv heads, capacity, head size]`,
    `seqlens_k` int32 `[batch]`, `total_sequence_length` int32. Outputs: `logits` `[batch, 1, vocabulary]` of the last
    position, and `present.N.key|value` of the caches' shape.

    Args:
        positions: rows of the rotary tables.

    Returns:
        Path of the model.
    """
    builder = Builder(shape)
    builder.weight("cos_cache", (positions, shape.head_size // 2))
    builder.weight("sin_cache", (positions, shape.head_size // 2))
    table = builder.weight("embed.weight", (shape.vocabulary, shape.hidden))
    skip = builder.node("Gather", [table, "input_ids"], ["embedded"])
    scale = builder.weight("first.norm.weight", (shape.hidden,))
    normed = builder.node("SimplifiedLayerNormalization", [skip, scale], ["first.normed"], axis=-1, epsilon=1e-5)
    for number in range(shape.layers):
        skip, normed = builder.layer(number, skip, normed)
    logits = builder.product(normed, shape.hidden, shape.vocabulary, "lm_head", 16)
    builder.nodes[-1].output[0] = "logits"
    assert logits == "lm_head.out"
    cache: list[str | int] = ["batch", shape.shared, "capacity", shape.head_size]
    value = helper.make_tensor_value_info
    inputs = [value("input_ids", TensorProto.INT64, ["batch", "sequence"])]
    outputs = [value("logits", shape.dtype, ["batch", 1, shape.vocabulary])]
    for number in range(shape.layers):
        for kind in ("key", "value"):
            inputs.append(value(f"past_key_values.{number}.{kind}", shape.dtype, cache))
            outputs.append(value(f"present.{number}.{kind}", shape.dtype, cache))
    inputs += [value("seqlens_k", TensorProto.INT32, ["batch"]), value("total_sequence_length", TensorProto.INT32, [])]
    graph = helper.make_graph(builder.nodes, "decoder", inputs, outputs, builder.constants)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / WEIGHTS).open("wb") as file:
        file.truncate(builder.size)
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())
    return path
