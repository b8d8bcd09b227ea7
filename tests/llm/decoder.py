"""A small decoder as model builders write it: packed projections of 4 bits, cached attention, gated feed-forward."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.helper as helper
import onnx.numpy_helper as numpy_helper

from tests.llm.graphs import MICROSOFT
from tests.llm.oracles import quantised, rotary_tables


@dataclass
class Decoder:
    """Shapes, and the graph as it grows."""

    layers: int = 2
    hidden: int = 64
    heads: int = 4
    shared: int = 2
    size: int = 16
    middle: int = 112
    vocabulary: int = 96
    accuracy: int = 0
    bits: int = 4
    block: int = 32
    zeros: str = "none"
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    seed: int = 0

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def norm(self, name: str) -> str:
        self.seed += 1
        scale = np.random.default_rng(self.seed).uniform(0.5, 1.5, self.hidden).astype(np.float32)
        return self.constant(name, scale)

    def node(self, op: str, inputs: list[str], outputs: list[str], domain: str = MICROSOFT, **attributes: Any) -> str:
        made = helper.make_node(op, inputs, outputs, name=f"/{outputs[0]}", domain=domain, **attributes)
        self.nodes.append(made)
        return outputs[0]

    def product(self, x: str, k: int, n: int, name: str) -> str:
        self.seed += 1
        q = quantised(n, k, self.bits, self.block, self.zeros, seed=self.seed)
        inputs = [
            x,
            self.constant(f"{name}.b", q.weights),
            self.constant(f"{name}.s", (q.scales / np.sqrt(k)).astype(np.float32)),
        ]
        if q.zeros is not None:
            inputs.append(self.constant(f"{name}.z", q.zeros))
        attributes: dict[str, Any] = {"bits": self.bits, "block_size": self.block, "accuracy_level": self.accuracy}
        return self.node("MatMulNBits", inputs, [name], N=n, K=k, **attributes)

    def lengths(self) -> tuple[str, str]:
        """seqlens_k and total_sequence_length from the attention mask, as exporters compute them."""
        one, axis = self.constant("one", np.array([1])), self.constant("axis", np.array(1))
        self.node("ReduceSum", ["attention_mask", one], ["count"], domain="", keepdims=0)
        self.node("Sub", ["count", one], ["last"], domain="")
        self.node("Cast", ["last"], ["seqlens_k"], domain="", to=onnx.TensorProto.INT32)
        self.node("Shape", ["attention_mask"], ["mask_shape"], domain="")
        self.node("Gather", ["mask_shape", axis], ["total64"], domain="", axis=0)
        self.node("Cast", ["total64"], ["total"], domain="", to=onnx.TensorProto.INT32)
        return "seqlens_k", "total"

    def layer(self, i: int, x: str, skip: str, lengths: tuple[str, str]) -> tuple[str, str]:
        """Normalised input and residual sum in, the same out."""
        columns = (self.heads + 2 * self.shared) * self.size
        qkv = self.product(x, self.hidden, columns, f"qkv{i}")
        inputs = [qkv, "", "", f"past_k{i}", f"past_v{i}", *lengths, "cos", "sin"]
        y = self.node(
            "GroupQueryAttention", inputs, [f"attention{i}", f"present_k{i}", f"present_v{i}"],
            num_heads=self.heads, kv_num_heads=self.shared, do_rotary=1, rotary_interleaved=0, local_window_size=-1,
        )  # fmt: skip
        y = self.product(y, self.heads * self.size, self.hidden, f"o{i}")
        x, skip = self.skip_norm(f"norm{i}", y, skip)
        gate = self.product(x, self.hidden, self.middle, f"gate{i}")
        up = self.product(x, self.hidden, self.middle, f"up{i}")
        self.node("Sigmoid", [gate], [f"sigmoid{i}"], domain="")
        self.node("Mul", [gate, f"sigmoid{i}"], [f"silu{i}"], domain="")
        self.node("Mul", [f"silu{i}", up], [f"gated{i}"], domain="")
        down = self.product(f"gated{i}", self.middle, self.hidden, f"down{i}")
        return self.skip_norm(f"next{i}", down, skip)

    def skip_norm(self, name: str, x: str, skip: str) -> tuple[str, str]:
        outputs = [name, "", "", f"{name}.sum"]
        self.node("SkipSimplifiedLayerNormalization", [skip, x, self.norm(f"{name}.w")], outputs, epsilon=1e-6)
        return name, f"{name}.sum"

    def model(self) -> onnx.ModelProto:
        rng = np.random.default_rng(7)
        cos, sin = rotary_tables(256, self.size // 2)
        self.constant("cos", cos)
        self.constant("sin", sin)
        table = self.constant("table", rng.standard_normal((self.vocabulary, self.hidden)).astype(np.float32))
        skip = self.node("Gather", [table, "input_ids"], ["embedded"], domain="")
        x = self.node(
            "SimplifiedLayerNormalization", [skip, self.norm("first.w")], ["first"], domain="", axis=-1, epsilon=1e-6
        )
        lengths = self.lengths()
        for i in range(self.layers):
            x, skip = self.layer(i, x, skip, lengths)
        self.nodes[-1].output[3] = ""
        self.product(x, self.hidden, self.vocabulary, "logits")
        cache: list[Any] = ["batch", self.shared, "past", self.size]
        entries = [("input_ids", 7, ["batch", "sequence"]), ("attention_mask", 7, ["batch", "total"])]
        entries += [(f"past_{kind}{i}", 1, cache) for i in range(self.layers) for kind in "kv"]
        outputs = ["logits", *(f"present_{kind}{i}" for i in range(self.layers) for kind in "kv")]
        graph = helper.make_graph(
            self.nodes, "decoder",
            [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in entries],
            [helper.make_tensor_value_info(name, 1, [None] * (3 if name == "logits" else 4)) for name in outputs],
            self.constants,
        )  # fmt: skip
        imports = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def caches(self, length: int, batch: int = 1) -> dict[str, np.ndarray]:
        shape = (batch, self.shared, length, self.size)
        return {f"past_{kind}{i}": np.zeros(shape, np.float32) for i in range(self.layers) for kind in "kv"}
