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


@dataclass(frozen=True)
class Bounds:
    """What this machine allows at best.

    Attributes:
        weight_bytes: weights that one token's products read, as the model stores them.
        operations: multiplications and additions of one token's products.
        integer_operations: those of them that may be done in 8-bit integers.
        bandwidth: bytes a second that the threads read from memory.
        float32: operations a second of a large product of float32 matrices.
        integers: operations a second of 8-bit integers.
    """

    weight_bytes: float
    operations: float
    integer_operations: float
    bandwidth: float
    float32: float
    integers: float

    @property
    def tokens_per_second(self) -> float:
        """Of decoding, if it did nothing but read the weights."""
        return self.bandwidth / self.weight_bytes

    def first_ms(self, prompt: int) -> float:
        """Of a prompt, if it did nothing but multiply."""
        rest = self.operations - self.integer_operations
        return 1e3 * prompt * (rest / self.float32 + self.integer_operations / self.integers)


def bounds(config: ModelConfig, threads: int) -> Bounds:
    """Measures the machine, and counts what the graph's products need."""
    size, operations, integers = count_weights(onnx.load(config.graph, load_external_data=False).graph)
    float32 = _float32(threads)
    vnni = host().has("avx512vnni")
    return Bounds(size, operations, integers, _bandwidth(threads), float32, float32 * (INTEGER_SPEED if vnni else 1))


def count_weights(graph: onnx.GraphProto) -> tuple[float, float, float]:
    """Bytes of the constant operands of products, operations of one token, and those that may be of integers.

    Of experts, those count that are chosen.
    """
    sizes = {}
    for entry in graph.initializer:
        count = float(np.prod(entry.dims, dtype=np.float64))
        sizes[entry.name] = (count, count * _bytes_of(entry.data_type))
    made_by = {output: node for node in graph.node for output in node.output}
    total = operations = integers = 0.0
    for node in graph.node:
        if node.op_type not in ("MatMul", "MatMulNBits", "Gemm", "MoE", "QMoE"):
            continue
        attributes = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        for position, name in enumerate(node.input[1:]):
            source = made_by.get(name)
            if source is not None and source.op_type in ("Transpose", "DequantizeLinear"):
                name = source.input[0]
            if name not in sizes:
                continue
            count, size = sizes[name]
            share = 1.0
            if node.op_type in ("MoE", "QMoE"):
                experts = next(entry.dims[0] for entry in graph.initializer if entry.name == name)
                share = attributes.get("k", 1) / experts
            total += size * share
            if node.op_type != "MatMulNBits":
                operations += 2.0 * count * share
            elif position == 0:
                own = 2.0 * attributes["N"] * attributes["K"]
                operations += own
                integers += own if attributes.get("accuracy_level") == INTEGER_LEVEL else 0.0
    return total, operations, integers


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
