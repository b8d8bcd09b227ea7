"""Constant folding: an operation whose inputs are all constants is computed at compile time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx

from hip_compiler.core.frontend.attributes import dtype_of, shape_of
from hip_compiler.core.frontend.node import PREFIX, attribute_proto, domain_of, node_name, node_proto
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.simplify.evaluate import EVALUATORS, Arrays
from hip_compiler.core.passes.simplify.rewriter import ANY, Rewriter, Rule, static_shape
from hip_compiler.dtypes import BY_NUMPY

MAX_ELEMENTS = 1 << 26
"""Results with more elements are computed at run time."""
SMALL_BYTES = 1 << 16
GROWTH = 8
"""A result above SMALL_BYTES may be at most so many times as large as what it is computed from (int4 to float32: 4)."""

# Operators that ONNX's reference evaluator computes for us: exact, or as accurate as any kernel.
_BY_REFERENCE = frozenset(
    {
        *("ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Clip", "CumSum"),
        *("BlackmanWindow", "DepthToSpace", "Erf", "EyeLike", "GatherElements", "GatherND", "HammingWindow"),
        *("HannWindow", "IsInf", "IsNaN", "MatMul", "NonZero", "OneHot", "ReduceL1", "ReduceL2", "ReduceMax"),
        *("ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "ScatterElements"),
        *("ScatterND", "Sigmoid", "Sign", "SpaceToDepth", "Split", "Tanh", "Tile", "Trilu"),
    }
)
# Operators whose result can be larger than anything broadcasting makes of the inputs.
_GROWING = frozenset(
    {"BlackmanWindow", "EyeLike", "HammingWindow", "HannWindow", "MatMul", "NonZero", "OneHot", "Tile"}
)


def _fold(op: Any, rewriter: Rewriter) -> bool:
    name = op.name.removeprefix(PREFIX)
    if domain_of(op) or len(op.regions) or not len(op.operands):
        return False
    if name not in EVALUATORS and name not in _BY_REFERENCE:
        return False
    arrays: list[np.ndarray | None] = []
    for value in op.operands:
        array = None if isinstance(value.type, ir.NoneType) else rewriter.constant(value)
        if array is None and not isinstance(value.type, ir.NoneType):
            return False
        arrays.append(array)
    if not _worthwhile(op, name, arrays):
        return False
    results = _evaluate(op, name, arrays, rewriter.opset(op))
    if results is None or not all(_fits(result, value) for result, value in zip(results, op.results, strict=True)):
        return False
    rewriter.replace(op, [rewriter.create_constant(result, node_name(op) or name, like=op) for result in results])
    return True


def _worthwhile(op: Any, name: str, arrays: Arrays) -> bool:
    """Whether the results are known to be of a bearable size, before they are computed."""
    given = [array for array in arrays if array is not None]
    elements = 0
    for value in op.results:
        shape = static_shape(value)
        count = math.prod(shape) if shape is not None else _count(name, given)
        if count is None:
            return False
        elements += count
    dtype = dtype_of(op.results[0].type)
    size = elements * (8 if dtype is None else dtype.size)
    return elements <= MAX_ELEMENTS and size <= max(SMALL_BYTES, GROWTH * sum(array.nbytes for array in given))


def _count(name: str, arrays: list[np.ndarray]) -> int | None:
    """Elements of a result whose type does not tell; None when it takes the computation to know."""
    try:
        if name == "ConstantOfShape":
            return math.prod(int(extent) for extent in arrays[0])
        if name == "Expand":
            return math.prod(np.broadcast_shapes(arrays[0].shape, tuple(int(extent) for extent in arrays[1])))
        if name == "Tile":
            return arrays[0].size * math.prod(int(count) for count in arrays[1])
        if name == "Range":
            start, limit, delta = (float(array.reshape(())) for array in arrays)
            return max(math.ceil((limit - start) / delta), 0)
        if name == "Gather":
            return arrays[0].size * max(arrays[1].size, 1)
        if name in _GROWING:
            return None
        return max(math.prod(np.broadcast_shapes(*(array.shape for array in arrays))), *(a.size for a in arrays), 1)
    except (ValueError, ArithmeticError):
        total = sum(array.size for array in arrays)
        return None if name in _GROWING or name in ("ConstantOfShape", "Expand", "Tile", "Range") else total


def _evaluate(op: Any, name: str, arrays: Arrays, opset: int) -> list[np.ndarray] | None:
    """Results, or None when the operator does not define them for these inputs."""
    try:
        with np.errstate(all="ignore"):
            if name in EVALUATORS:
                if len(op.results) != 1:
                    return None
                result = EVALUATORS[name](arrays, _attributes(op), opset)
                return None if result is None else [np.asarray(result)]
            return _by_reference(op, arrays, opset)
    except Exception:  # noqa: BLE001 - whatever goes wrong here goes wrong at run time, with the node's name
        return None


def _by_reference(op: Any, arrays: Arrays, opset: int) -> list[np.ndarray]:
    # Imported by the compilations that need it.
    from onnx.reference import ReferenceEvaluator

    inputs = ["" if array is None else f"i{number}" for number, array in enumerate(arrays)]
    outputs = [f"o{number}" for number in range(len(op.results))]
    node = node_proto(op, inputs, outputs)
    graph = onnx.helper.make_graph(
        [node],
        "fold",
        [onnx.helper.make_empty_tensor_value_info(name) for name in inputs if name],
        [onnx.helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    feeds = {name: array for name, array in zip(inputs, arrays, strict=True) if name}
    return [np.asarray(result) for result in ReferenceEvaluator(model).run(None, feeds)]


def _attributes(op: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in op.attributes:
        if name == "hip.opset":
            continue
        value = onnx.helper.get_attribute_value(attribute_proto(name, op.attributes[name]))
        values[name] = onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
    return values


def _fits(array: np.ndarray, value: Any) -> bool:
    """Whether an array agrees with what is known about the value that it is to replace."""
    if array.dtype == object or array.dtype not in BY_NUMPY:
        return False
    dtype, shape = dtype_of(value.type), shape_of(value.type)
    if dtype is not None and dtype != BY_NUMPY[array.dtype]:
        return False
    if shape is None:
        return True
    return len(shape) == array.ndim and all(a is None or a == b for a, b in zip(shape, array.shape, strict=True))


RULES = (Rule("fold-constants", (ANY,), _fold),)
