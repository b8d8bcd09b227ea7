"""What a machine allows a language model at best: weights over memory's speed, operations over that of the cores."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import onnx

import hip_compiler
from hip_compiler.generate.config import ModelConfig
from hip_compiler.generate.timing import sample, undisturbed
from hip_compiler.runtime.cpu import host

INTEGER_LEVEL = 4
INTEGER_SPEED = 4
"""Products of 8 bits that an instruction with VNNI adds up where one of float32 has a single product."""


PRODUCTS = ("MatMul", "MatMulNBits", "Gemm", "MoE", "QMoE")


@dataclass(frozen=True)
class Work:
    """What products need for one token; of experts, those count that are chosen.

    Attributes:
        weight_bytes: weights that they read, as the model stores them.
        operations: multiplications and additions.
        integers: those of the operations that may be done in 8-bit integers.
    """

    weight_bytes: float = 0.0
    operations: float = 0.0
    integers: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.weight_bytes + other.weight_bytes, self.operations + other.operations, self.integers + other.integers
        )


@dataclass(frozen=True)
class Bounds:
    """What this machine allows at best.

    Attributes:
        work: of one token.
        logits: what of that makes the logits, which only the last position of a prompt needs.
        bandwidth: bytes a second that the threads read from memory.
        float32: operations a second of a large product of float32 matrices.
        integers: operations a second of 8-bit integers.
    """

    work: Work
    logits: Work
    bandwidth: float
    float32: float
    integers: float

    @property
    def tokens_per_second(self) -> float:
        """Of decoding, if it did nothing but read the weights."""
        return self.bandwidth / self.work.weight_bytes

    def first_ms(self, prompt: int) -> float:
        """Of a prompt, if it did nothing but multiply, or nothing but read the weights once."""
        multiplying = prompt * self._seconds(self.work) - (prompt - 1) * self._seconds(self.logits)
        return 1e3 * max(multiplying, self.work.weight_bytes / self.bandwidth)

    def _seconds(self, work: Work) -> float:
        return (work.operations - work.integers) / self.float32 + work.integers / self.integers


def bounds(config: ModelConfig, threads: int) -> Bounds:
    """Measures the machine, and counts what the graph's products need."""
    graph = onnx.load(config.graph, load_external_data=False).graph
    float32, vnni = _float32(threads), host().has("avx512vnni")
    work, logits = count_work(graph, config.logits)
    return Bounds(work, logits, _bandwidth(threads), float32, float32 * (INTEGER_SPEED if vnni else 1))


def count_work(graph: onnx.GraphProto, logits: str) -> tuple[Work, Work]:
    """What all products with constant operands need for one token, and what the one needs that makes the logits."""
    stored = {entry.name: entry for entry in graph.initializer}
    made_by = {output: node for node in graph.node for output in node.output}
    last = made_by.get(logits)
    while last is not None and last.op_type not in PRODUCTS:
        last = made_by.get(last.input[0]) if last.input else None
    works = [(node, _work_of(node, stored, made_by)) for node in graph.node if node.op_type in PRODUCTS]
    return sum((work for _, work in works), Work()), next((work for node, work in works if node is last), Work())


def _work_of(node: onnx.NodeProto, stored: dict[str, onnx.TensorProto], made_by: dict[str, onnx.NodeProto]) -> Work:
    attributes = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
    total = Work()
    for position, name in enumerate(node.input[1:]):
        source = made_by.get(name)
        if source is not None and source.op_type in ("Transpose", "DequantizeLinear"):
            name = source.input[0]
        entry = stored.get(name)
        if entry is None:
            continue
        share = attributes.get("k", 1) / entry.dims[0] if node.op_type in ("MoE", "QMoE") else 1.0
        count = share * float(np.prod(entry.dims, dtype=np.float64))
        operations, integers = 2.0 * count, 0.0
        if node.op_type == "MatMulNBits":
            operations = 2.0 * attributes["N"] * attributes["K"] if position == 0 else 0.0
            integers = operations if attributes.get("accuracy_level") == INTEGER_LEVEL else 0.0
        total += Work(count * _bytes_of(entry.data_type), operations, integers)
    return total


def _bytes_of(kind: int) -> float:
    """Bytes of one element; those of few bits lie side by side."""
    name = onnx.TensorProto.DataType.Name(kind)
    if name in ("INT4", "UINT4", "FLOAT4E2M1"):
        return 0.5
    return float(onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize)


def _bandwidth(threads: int) -> float:
    """Of several passes over 256 MB, in parts."""
    parts = np.array_split(np.ones(1 << 25, np.float64), threads)
    size = float(sum(part.nbytes for part in parts))
    if threads == 1:
        return size / undisturbed([sample(lambda: np.max(parts[0])) for _ in range(10)], threads)
    with ThreadPoolExecutor(threads) as pool:
        return size / undisturbed([sample(lambda: list(pool.map(np.max, parts))) for _ in range(10)], threads)


def _float32(threads: int, size: int = 1024) -> float:
    """Of several products of square matrices."""
    draw = np.random.default_rng(0)
    x, w = (draw.standard_normal((size, size)).astype(np.float32) for _ in range(2))
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [info("x", onnx.TensorProto.FLOAT, [size, size])],
        [info("y", onnx.TensorProto.FLOAT, [size, size])],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    with hip_compiler.compile(model, num_threads=threads) as session:
        times = [sample(lambda: session.run({"x": x})) for _ in range(20)]
    return 2.0 * size**3 / undisturbed(times, threads)
