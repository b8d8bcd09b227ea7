"""Small decoder graphs of the form that onnxruntime-genai's model builder writes, with random weights of our own."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper as helper
import onnx.numpy_helper as numpy_helper

from tests.llm.oracles import pack_bits, rotary_tables

MICROSOFT = "com.microsoft"
INT64, INT32 = onnx.TensorProto.INT64, onnx.TensorProto.INT32
POSITIONS = 256


@dataclass(frozen=True)
class Shape:
    """What a decoder looks like.

    Attributes:
        kinds: of every layer: attention, or conv.
        normed: heads of q and k are normalised, as in Qwen3.
        experts: of a feed-forward layer, 0: it is an ordinary one.
        windows: whether every other attention layer keeps a window of this many positions; 0: none does.
        shared: the embedding table is the last product's matrix.
    """

    kinds: tuple[str, ...] = ("attention", "attention")
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    size: int = 32
    middle: int = 96
    vocabulary: int = 160
    normed: bool = False
    experts: int = 0
    windows: int = 0
    shared: bool = False


@dataclass(frozen=True)
class Precision:
    """How weights are stored: float32 or float16 (bits 0), or few bits in MatMulNBits, or in DequantizeLinear (qdq)."""

    bits: int = 0
    half: bool = False
    zeros: bool = False
    accuracy: int = 0
    block: int = 32
    qdq: bool = False

    @property
    def float(self) -> np.dtype[Any]:
        """Element type of everything else."""
        return np.dtype(np.float16 if self.half else np.float32)


SHAPES = {
    "llama": Shape(),
    "qwen3": Shape(normed=True),
    "phi3": Shape(kv_heads=4, middle=80),
    "gptoss": Shape(kinds=("attention",) * 4, experts=4, windows=12, middle=64),
    "lfm2": Shape(kinds=("conv", "attention", "conv", "attention"), normed=True),
    "smollm2": Shape(heads=3, kv_heads=1, shared=True),
}
PRECISIONS = {
    "fp32": Precision(),
    "fp16": Precision(half=True),
    "int4": Precision(bits=4, accuracy=4),
    "int4-level1": Precision(bits=4, accuracy=1),
    "int4-asym": Precision(bits=4, zeros=True),
    "int4-qdq": Precision(bits=4, qdq=True),
    "int8": Precision(bits=8, accuracy=4),
}


@dataclass
class Writer:
    """A graph as it grows."""

    shape: Shape
    precision: Precision
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def weights(self, name: str, *extents: int, scale: float) -> np.ndarray:
        return (self.random.standard_normal(extents) * scale).astype(self.precision.float)

    def node(self, op: str, inputs: list[str], output: str | list[str], domain: str = "", **attributes: Any) -> str:
        outputs = [output] if isinstance(output, str) else output
        self.nodes.append(helper.make_node(op, inputs, outputs, name=f"/{outputs[0]}", domain=domain, **attributes))
        return outputs[0]

    def product(self, x: str, name: str, k: int, n: int) -> str:
        """x times a matrix [k, n] of the precision."""
        matrix = self.weights(name, k, n, scale=k**-0.5)
        if not self.precision.bits:
            return self.node("MatMul", [x, self.constant(f"{name}.weight", matrix)], f"{name}/out")
        levels, scales, zeros = self.quantised(matrix.T)
        if self.precision.qdq:
            return self.dequantised(x, name, levels, scales, zeros)
        return self.node(
            "MatMulNBits",
            [x, *self.few_bits(name, levels, scales, zeros)],
            f"{name}/out",
            MICROSOFT,
            N=n,
            K=k,
            bits=self.precision.bits,
            block_size=self.precision.block,
            accuracy_level=self.precision.accuracy,
        )

    def quantised(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Levels [n, blocks, block], scales and zero points [n, blocks] of rows, rounded to the nearest."""
        p = self.precision
        blocks = rows.astype(np.float32).reshape(len(rows), -1, p.block)
        top = (1 << p.bits) - 1
        if p.zeros:
            low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
            scales = (high - low) / top
            zeros = np.clip(np.round(-low / scales), 0, top).astype(np.uint8)
        else:
            scales = np.abs(blocks).max(-1) / (1 << (p.bits - 1))
            zeros = np.full(scales.shape, 1 << (p.bits - 1), np.uint8)
        levels = np.clip(np.round(blocks / scales[..., None]) + zeros[..., None], 0, top).astype(np.uint8)
        return levels, scales.astype(p.float), zeros if p.zeros else None

    def few_bits(self, name: str, levels: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None) -> list[str]:
        found = [
            self.constant(f"{name}.weight_Q{self.precision.bits}", pack_bits(levels, self.precision.bits)),
            self.constant(f"{name}.weight_scales", scales),
        ]
        if zeros is not None:
            found.append(self.constant(f"{name}.weight_zero_points", pack_bits(zeros, self.precision.bits)))
        return found

    def dequantised(self, x: str, name: str, levels: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None) -> str:
        """The form with INT4 tensors [k, n]; without zero points levels are signed."""
        assert zeros is None and self.precision.bits == 4
        signed = levels.reshape(len(levels), -1).astype(np.int16).T - 8
        stored = helper.make_tensor(
            f"{name}.weight_DQ_Q4", onnx.TensorProto.INT4, signed.shape, signed.reshape(-1).tolist()
        )
        self.constants[stored.name] = stored
        inputs = [stored.name, self.constant(f"{name}.weight_DQ_scales", scales.T)]
        matrix = self.node("DequantizeLinear", inputs, f"{name}/weight", axis=0, block_size=self.precision.block)
        return self.node("MatMul", [x, matrix], f"{name}/out")

    def state(self, past: str, present: str, extents: list[Any], after: list[Any]) -> tuple[str, str]:
        kind = helper.np_dtype_to_tensor_dtype(self.precision.float)
        self.inputs.append(helper.make_tensor_value_info(past, kind, extents))
        self.outputs.append(helper.make_tensor_value_info(present, kind, after))
        return past, present

    # ---- parts of a decoder ---------------------------------------------------------------------------------

    def lengths(self) -> list[str]:
        one, place = self.constant("[1]", np.array([1])), self.constant("1", np.array(1))
        total = self.node("ReduceSum", ["attention_mask", one], "count", keepdims=0)
        last = self.node("Cast", [self.node("Sub", [total, one], "last")], "seqlens_k", to=INT32)
        extents = self.node("Shape", ["attention_mask"], "mask_shape")
        everything = self.node("Gather", [extents, place], "total64", axis=0)
        return [last, self.node("Cast", [everything], "total", to=INT32)]

    def embedding(self) -> str:
        s, p = self.shape, self.precision
        if not s.shared:
            rows = self.weights("embed_tokens", s.vocabulary, s.hidden, scale=1.0)
            return self.node("Gather", [self.constant("embed_tokens", rows), "input_ids"], "embedded")
        matrix = self.weights("lm_head", s.hidden, s.vocabulary, scale=s.hidden**-0.5)
        if not p.bits:
            table = self.node("Transpose", [self.constant("lm_head.weight", matrix)], "table", perm=[1, 0])
            return self.node("Gather", [table, "input_ids"], "embedded")
        parts = self.few_bits("lm_head", *self.quantised(matrix.T))
        flat = self.constant("flat", np.array([s.vocabulary, s.hidden * p.bits // 8]))
        parts[0] = self.node("Reshape", [parts[0], flat], "table")
        return self.node(
            "GatherBlockQuantized", [parts[0], "input_ids", *parts[1:]], "embedded", MICROSOFT,
            bits=p.bits, block_size=p.block, gather_axis=0, quantize_axis=1,
        )  # fmt: skip

    def logits(self, x: str) -> str:
        s, p = self.shape, self.precision
        if not s.shared:
            return self.node("Identity", [self.product(x, "lm_head", s.hidden, s.vocabulary)], "logits")
        if not p.bits:
            return self.node("MatMul", [x, "lm_head.weight"], "logits")
        parts = [name for name in self.constants if name.startswith("lm_head.weight")]
        return self.node(
            "MatMulNBits", [x, *parts], "logits", MICROSOFT,
            N=s.vocabulary, K=s.hidden, bits=p.bits, block_size=p.block, accuracy_level=p.accuracy,
        )  # fmt: skip

    def norm(self, x: str, name: str, columns: int) -> str:
        scale = self.constant(f"{name}.weight", self.random.uniform(0.7, 1.3, columns).astype(self.precision.float))
        return self.node("SimplifiedLayerNormalization", [x, scale], name, axis=-1, epsilon=1e-5, stash_type=1)

    def skip_norm(self, x: str, skip: str, name: str) -> tuple[str, str]:
        scale = self.random.uniform(0.7, 1.3, self.shape.hidden).astype(self.precision.float)
        inputs = [skip, x, self.constant(f"{name}.weight", scale)]
        self.node("SkipSimplifiedLayerNormalization", inputs, [name, "", "", f"{name}/sum"], MICROSOFT, epsilon=1e-5)
        return name, f"{name}/sum"

    def bias(self, x: str, name: str, columns: int) -> str:
        return self.node(
            "Add", [x, self.constant(f"{name}.bias", self.weights(name, columns, scale=0.1))], f"{name}/biased"
        )

    def attention(self, i: int, x: str, lengths: list[str]) -> str:
        s = self.shape
        columns = (s.heads + 2 * s.kv_heads) * s.size
        qkv, name = self.product(x, f"layers.{i}.qkv", s.hidden, columns), f"layers.{i}"
        operands = [qkv, "", ""]
        if s.normed:
            operands = self.normed_heads(qkv, name)
        windowed = s.windows > 0 and i % 2 == 0
        length = "past_sliding_length" if windowed else "past_sequence_length"
        after = "present_sliding_length" if windowed else "total_sequence_length"
        states = [
            self.state(
                f"past_key_values.{i}.{kind}", f"present.{i}.{kind}",
                ["batch_size", s.kv_heads, length, "kv_cache_dim"], ["batch_size", s.kv_heads, after, "kv_cache_dim"],
            )
            for kind in ("key", "value")
        ]  # fmt: skip
        inputs = [*operands, states[0][0], states[1][0], *lengths, "cos_cache", "sin_cache", "", "", ""]
        if s.windows:
            inputs[11] = self.constant(f"{name}.sinks", self.weights("sinks", s.heads, scale=1.0))
        attributes: dict[str, Any] = {"sliding_window_cache": 1} if windowed else {}
        y = self.node(
            "GroupQueryAttention", inputs, [f"{name}.attention", states[0][1], states[1][1]], MICROSOFT,
            num_heads=s.heads, kv_num_heads=s.kv_heads, scale=s.size**-0.5, softcap=0.0, do_rotary=1,
            rotary_interleaved=0, local_window_size=s.windows if windowed else -1, **attributes,
        )  # fmt: skip
        y = self.product(y, f"{name}.o_proj", s.heads * s.size, s.hidden)
        return self.bias(y, f"{name}.o_proj", s.hidden) if s.windows else y

    def normed_heads(self, qkv: str, name: str) -> list[str]:
        s = self.shape
        widths = [s.heads * s.size, s.kv_heads * s.size, s.kv_heads * s.size]
        parts = [f"{name}.{part}" for part in "qkv"]
        self.node("Split", [qkv, self.constant("widths", np.array(widths))], parts, axis=-1)
        heads = self.constant("heads", np.array([0, -1, s.size]))
        found = []
        for part, width in zip(parts[:2], widths[:2], strict=True):
            apart = self.node("Reshape", [part, heads], f"{part}/heads")
            normed = self.norm(apart, f"{part}_norm", s.size)
            back = self.constant(f"[0, -1, {width}]", np.array([0, -1, width]))
            found.append(self.node("Reshape", [normed, back], f"{part}/normed"))
        return [*found, parts[2]]

    def conv(self, i: int, x: str) -> str:
        s, name = self.shape, f"layers.{i}.conv"
        past, present = self.state(
            f"past.{i}.conv", f"present.{i}.conv", ["batch_size", s.hidden, 2], ["batch_size", s.hidden, 2]
        )
        y = self.node(
            "Transpose", [self.product(x, f"{name}.in_proj", s.hidden, 3 * s.hidden)], f"{name}/t", perm=[0, 2, 1]
        )
        parts = [f"{name}/{part}" for part in "bcx"]
        self.node("Split", [y, self.constant("thirds", np.array([s.hidden] * 3))], parts, axis=1)
        gated = self.node("Mul", [parts[0], parts[2]], f"{name}/bx")
        kernel = self.constant(f"{name}.weight", self.weights(name, s.hidden, 1, 3, scale=0.6))
        y = self.node(
            "CausalConvWithState", [gated, kernel, "", past], [f"{name}/y", present], MICROSOFT,
            ndim=1, activation="none", state_window=0,
        )  # fmt: skip
        y = self.node("Mul", [parts[1], y], f"{name}/cy")
        return self.product(
            self.node("Transpose", [y], f"{name}/back", perm=[0, 2, 1]), f"{name}.out_proj", s.hidden, s.hidden
        )

    def gated(self, i: int, x: str) -> str:
        s, name = self.shape, f"layers.{i}.mlp"
        gate, up = (self.product(x, f"{name}.{part}", s.hidden, s.middle) for part in ("gate", "up"))
        silu = self.node("Mul", [gate, self.node("Sigmoid", [gate], f"{name}/sigmoid")], f"{name}/silu")
        return self.product(self.node("Mul", [silu, up], f"{name}/gated"), f"{name}.down", s.middle, s.hidden)

    def mixture(self, i: int, x: str) -> str:
        s, p, name = self.shape, self.precision, f"layers.{i}.moe"
        scores = self.bias(self.product(x, f"{name}.router", s.hidden, 32), f"{name}.router", 32)
        starts, ends = self.constant("[0]", np.array([0])), self.constant("experts", np.array([s.experts]))
        scores = self.node("Slice", [scores, starts, ends, self.constant("[-1]", np.array([-1]))], f"{name}/cut")
        flat = self.constant("[-1, experts]", np.array([-1, s.experts]))
        router = self.node("Reshape", [scores, flat], f"{name}/router")
        inputs, attributes = [x, router], {}
        for part, rows, columns in (("gate_up", 2 * s.middle, s.hidden), ("down", s.hidden, s.middle)):
            matrices = self.weights(part, s.experts, rows, columns, scale=columns**-0.5)
            bias = self.constant(f"{name}.{part}.bias", self.weights(part, s.experts, rows, scale=0.1))
            if not p.bits:
                inputs += [self.constant(f"{name}.{part}.weight", matrices), bias]
                continue
            quantised = [self.quantised(matrix) for matrix in matrices]
            packed = np.stack([pack_bits(levels, p.bits).reshape(rows, -1) for levels, _, _ in quantised])
            inputs += [
                self.constant(f"{name}.{part}.qweight", packed),
                self.constant(f"{name}.{part}.scales", np.stack([scales for _, scales, _ in quantised])),
                bias,
            ]
            attributes = {"expert_weight_bits": p.bits, "block_size": p.block, "weights_prepacked": 0}
        return self.node(
            "QMoE" if p.bits else "MoE", inputs, f"{name}/out", MICROSOFT, k=2, normalize_routing_weights=1,
            activation_type="swiglu", activation_alpha=1.702, activation_beta=1.0, swiglu_fusion=1, swiglu_limit=7.0,
            use_sparse_mixer=0, **attributes,
        )  # fmt: skip


def decoder(shape: Shape, precision: Precision) -> onnx.ModelProto:
    """The graph; the same arguments give the same weights."""
    w = Writer(shape, precision)
    for name, array in zip(("cos_cache", "sin_cache"), rotary_tables(POSITIONS, shape.size // 2), strict=True):
        w.constant(name, array.astype(precision.float))
    skip = w.embedding()
    x, lengths = w.norm(skip, "layers.0.input_norm", shape.hidden), w.lengths()
    for i, kind in enumerate(shape.kinds):
        y = w.attention(i, x, lengths) if kind == "attention" else w.conv(i, x)
        x, skip = w.skip_norm(y, skip, f"layers.{i}.post_norm")
        y = w.mixture(i, x) if shape.experts else w.gated(i, x)
        x, skip = w.skip_norm(y, skip, f"layers.{i + 1}.input_norm")
    w.nodes[-1].output[3] = ""
    w.logits(x)
    float_type = helper.np_dtype_to_tensor_dtype(precision.float)
    entries = [
        helper.make_tensor_value_info("input_ids", INT64, ["batch_size", "sequence_length"]),
        helper.make_tensor_value_info("attention_mask", INT64, ["batch_size", "total_sequence_length"]),
    ]
    logits = helper.make_tensor_value_info("logits", float_type, ["batch_size", "sequence_length", shape.vocabulary])
    graph = helper.make_graph(
        w.nodes, "decoder", [*entries, *w.inputs], [logits, *w.outputs], list(w.constants.values())
    )
    imports = [helper.make_opsetid("", 22), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def genai_config(shape: Shape, *, context_length: int = POSITIONS, end: int | list[int] = 0) -> dict[str, Any]:
    """What genai_config.json says of such a graph."""
    states = {"key": "past_key_values.%d.key", "value": "past_key_values.%d.value"}
    inputs = {f"past_{kind}_names": pattern for kind, pattern in states.items()}
    outputs = {f"present_{kind}_names": f"present.%d.{kind}" for kind in states}
    if "conv" in shape.kinds:
        inputs["past_conv_names"], outputs["present_conv_names"] = "past.%d.conv", "present.%d.conv"
    decoder: dict[str, Any] = {
        "filename": "model.onnx",
        "head_size": shape.size,
        "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "num_hidden_layers": len(shape.kinds),
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **inputs},
        "outputs": {"logits": "logits", **outputs},
    }
    if shape.windows:
        layers = list(range(0, len(shape.kinds), 2))
        decoder["sliding_window"] = {"window_size": shape.windows, "layers": layers, "cache_slack": 0}
    return {
        "model": {
            "type": "llama",
            "context_length": context_length,
            "vocab_size": shape.vocabulary,
            "bos_token_id": 1,
            "eos_token_id": end,
            "pad_token_id": 0,
            "decoder": decoder,
        },
        "search": {"do_sample": False, "top_k": 50, "top_p": 1.0, "temperature": 1.0, "repetition_penalty": 1.0},
    }


def write_folder(folder: Path, shape: Shape, precision: Precision, **settings: Any) -> None:
    """A model folder without its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(decoder(shape, precision), folder / "model.onnx")
    (folder / "genai_config.json").write_text(json.dumps(genai_config(shape, **settings)))
