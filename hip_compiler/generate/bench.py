"""Times a language model: time to the first token and tokens a second, beside peers and the machine's own bounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx

import hip_compiler
from hip_compiler.generate.config import ModelConfig
from hip_compiler.generate.engines import Engine

PROMPTS = (16, 128, 512, 2048)
DECODED = 32


@dataclass(frozen=True)
class Figure:
    """One engine at one prompt length: milliseconds to the first token, and tokens a second after it; medians."""

    engine: str
    prompt: int
    first_ms: float
    tokens_per_second: float


def measure(engines: Sequence[Engine], prompts: Sequence[int], vocabulary: int, rounds: int) -> list[Figure]:
    """Every engine at every prompt length; engines take turns, so that all meet the same machine."""
    draw = np.random.default_rng(0)
    figures = []
    for prompt in prompts:
        tokens = [int(token) for token in draw.integers(0, vocabulary, prompt + DECODED)]
        capacity = prompt + DECODED + 1
        first: dict[str, list[float]] = {engine.name: [] for engine in engines}
        rest: dict[str, list[float]] = {engine.name: [] for engine in engines}
        for turn in range(rounds + 1):
            for engine in engines:
                seconds = _seconds(partial(engine.begin, tokens[:prompt], capacity))
                steps = [_seconds(partial(engine.step, token)) for token in tokens[prompt:]]
                if turn:  # the first turn warms up
                    first[engine.name].append(seconds)
                    rest[engine.name] += steps
        figures += [
            Figure(
                engine.name,
                prompt,
                1e3 * statistics.median(first[engine.name]),
                1 / statistics.median(rest[engine.name]),
            )
            for engine in engines
        ]
    return figures


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@dataclass(frozen=True)
class Bounds:
    """What this machine allows at best.

    Attributes:
        weight_bytes: weights that one token's products read, as the model stores them.
        operations: multiplications and additions of one token's products.
        bandwidth: bytes a second that the threads read from memory.
        float32: operations a second of a large product of float32 matrices.
    """

    weight_bytes: float
    operations: float
    bandwidth: float
    float32: float

    @property
    def tokens_per_second(self) -> float:
        """Of decoding, if it did nothing but read the weights."""
        return self.bandwidth / self.weight_bytes

    def first_ms(self, prompt: int) -> float:
        """Of a prompt, if it did nothing but multiply in float32."""
        return 1e3 * prompt * self.operations / self.float32


def bounds(config: ModelConfig, threads: int) -> Bounds:
    """Measures the machine, and counts what the graph's products need."""
    size, operations = count_weights(onnx.load(config.graph, load_external_data=False).graph)
    return Bounds(size, operations, _bandwidth(threads), _float32(threads))


def count_weights(graph: onnx.GraphProto) -> tuple[float, float]:
    """Bytes of the constant operands of products, and operations of one token; of experts, those that are chosen."""
    sizes = {}
    for entry in graph.initializer:
        count = float(np.prod(entry.dims, dtype=np.float64))
        sizes[entry.name] = (count, count * _bytes_of(entry.data_type))
    made_by = {output: node for node in graph.node for output in node.output}
    total = operations = 0.0
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
            if node.op_type == "MatMulNBits":
                operations += 2.0 * attributes["N"] * attributes["K"] if position == 0 else 0.0
            else:
                operations += 2.0 * count * share
    return total, operations


def _bytes_of(kind: int) -> float:
    """Bytes of one element; those of few bits lie side by side."""
    name = onnx.TensorProto.DataType.Name(kind)
    if name in ("INT4", "UINT4", "FLOAT4E2M1"):
        return 0.5
    return float(onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize)


def _bandwidth(threads: int) -> float:
    """The best of several passes over 256 MB, in parts."""
    parts = np.array_split(np.ones(1 << 25, np.float64), threads)
    with ThreadPoolExecutor(threads) as pool:
        best = min(_seconds(lambda: sum(pool.map(np.max, parts))) for _ in range(5))
    return float(sum(part.nbytes for part in parts)) / best


def _float32(threads: int, size: int = 1024) -> float:
    """The best of several products of square matrices."""
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
        best = min(_seconds(lambda: session.run({"x": x})) for _ in range(10))
    return 2.0 * size**3 / best
