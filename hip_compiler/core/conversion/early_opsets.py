"""Operators of opset 1 to 6, restated in the terms of opset 7, which is the oldest that converters know.

Every operator here was compared with its later version, input by input and attribute by attribute. One that is not
here is not supported at these versions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hip_compiler.core.conversion.onnx_op import NotSupportedError, OnnxOp
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.core.frontend.opsets import FIRST
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim

if TYPE_CHECKING:
    from hip_compiler.core.conversion.emitter import Emitter

Restate = Callable[["Emitter", OnnxOp], "tuple[list[Tensor | None], dict[str, Any]]"]
"""Inputs and attributes that say in opset 7 what the operator says in its own."""


def restated(emitter: Emitter, op: OnnxOp) -> OnnxOp:
    """The operator in terms of opset 7; itself when it is of that opset or of a later one.

    Raises:
        NotSupportedError: an operator, or a variant of one, that has no counterpart, or was not compared.
    """
    if op.domain or op.version >= FIRST:
        return op
    if op.op in SAME:
        restate: Restate = _same
    elif op.op in RESTATED:
        restate = RESTATED[op.op]
    else:
        raise NotSupportedError(f"opset {op.version}: this version of the operator is not supported, opset 7 may be")
    inputs, attributes = restate(emitter, op)
    attributes.pop("consumed_inputs", None)  # which memory could be overwritten: of no effect on results
    op.read.update(op.attributes)
    return replace(op, version=FIRST, inputs=inputs, attributes=attributes, read=set())


def _same(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    return list(op.inputs), dict(op.attributes)


def _aligned(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """Two operands; with `broadcast`, the right one's axes lie along axes of the left, from `axis` or the last."""
    attributes = dict(op.attributes)
    broadcast, axis = attributes.pop("broadcast", 0), attributes.pop("axis", None)
    a, b = op.input(0), op.input(1)
    return [a, _aligned_operand(emitter, op, a, b, axis) if broadcast else _equal_shape(emitter, op, a, b)], attributes


def _aligned_operand(emitter: Emitter, op: OnnxOp, a: Tensor, b: Tensor, axis: int | None) -> Tensor:
    if b.size == 1:
        return emitter.reshape(b, ())
    op.require(b.rank <= a.rank, f"a right operand of rank {b.rank} for a left one of rank {a.rank}")
    first = a.rank - b.rank if axis is None else axis + a.rank if axis < 0 else axis
    op.require(0 <= first <= a.rank - b.rank, f"axis {axis} for operands of ranks {a.rank} and {b.rank}")
    for position, extent in enumerate(b.shape):
        if extent.value == 1:
            continue  # not in the documentation of these versions, but in ONNX's own test data
        emitter.check_equal(a.shape[first + position], extent, f"{op.op}, axis {first + position}")
    return emitter.reshape(b, (*b.shape, *[dim(1)] * (a.rank - first - b.rank)))


def _equal_shape(emitter: Emitter, op: OnnxOp, a: Tensor, b: Tensor) -> Tensor:
    op.require(a.rank == b.rank, f"operands of ranks {a.rank} and {b.rank} without broadcasting")
    for position, (left, right) in enumerate(zip(a.shape, b.shape, strict=True)):
        emitter.check_equal(left, right, f"{op.op}, axis {position}")
    return b


def _all_equal(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """Any number of operands of one shape."""
    for position in range(1, len(op.inputs)):
        _equal_shape(emitter, op, op.input(0), op.input(position))
    return list(op.inputs), dict(op.attributes)


def _inference(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """Dropout and BatchNormalization: training, unless `is_test` says otherwise."""
    attributes = dict(op.attributes)
    op.require(bool(attributes.pop("is_test", 0)), "training mode (is_test is 0)")
    op.require(not any(op.wants(i) for i in range(1, op.outputs)), "outputs of training mode")
    op.require(bool(attributes.get("spatial", 1)), "statistics per element (spatial is 0)")
    return list(op.inputs), attributes


def _cast(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """The target is a name before opset 6."""
    attributes = dict(op.attributes)
    if op.version < 6:
        name = str(op.attr("to")).lower()
        op.require(name in BY_NAME, f"element type {op.attr('to')}")
        attributes["to"] = BY_NAME[name].onnx
    return list(op.inputs), attributes


def _clip(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """No bounds by default before opset 6; the largest finite numbers from then on."""
    attributes = dict(op.attributes)
    if op.version < 6:
        attributes = {"min": float("-inf"), "max": float("inf")} | attributes
    return list(op.inputs), attributes


def _concat(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    op.require(op.version < 4 or "axis" in op.attributes, "no axis")
    return list(op.inputs), {"axis": 1} | dict(op.attributes)


def _gemm(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """The summand has the product's shape, unless `broadcast` is set."""
    attributes = dict(op.attributes)
    a, b, c = op.input(0), op.input(1), op.input(2)
    if not attributes.pop("broadcast", 0):
        op.require(a.rank == 2 and b.rank == 2 and c.rank == 2, "operands that are no matrices, without broadcasting")
        rows = a.shape[1 if attributes.get("transA", 0) else 0]
        columns = b.shape[0 if attributes.get("transB", 0) else 1]
        emitter.check_equal(c.shape[0], rows, "Gemm, rows")
        emitter.check_equal(c.shape[1], columns, "Gemm, columns")
    return list(op.inputs), attributes


def _selu(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """Opset 1 has shorter constants."""
    defaults = {"alpha": 1.673200011253357, "gamma": 1.0506999492645264} if op.version < 6 else {}
    return list(op.inputs), defaults | dict(op.attributes)


def _prelu(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """One slope, or one per channel (axis 1)."""
    x, slope = op.input(0), op.input(1)
    if slope.size == 1:
        return [x, emitter.reshape(slope, ())], dict(op.attributes)
    op.require(slope.rank == 1 and x.rank >= 2, f"slopes of rank {slope.rank}")
    emitter.check_equal(slope.shape[0], x.shape[1], "PRelu, channels")
    return [x, emitter.reshape(slope, (*slope.shape, *[dim(1)] * (x.rank - 2)))], dict(op.attributes)


def _pad(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """Another name of the attribute in opset 1."""
    attributes = dict(op.attributes)
    if op.version < 2:
        op.require("paddings" in attributes, "no paddings")
        attributes["pads"] = attributes.pop("paddings")
    return list(op.inputs), attributes


def _reshape(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """The target is an attribute before opset 5."""
    attributes = dict(op.attributes)
    if op.version >= 5:
        return list(op.inputs), attributes
    op.require("shape" in attributes, "no shape")
    target = np.array(attributes.pop("shape"), np.int64)
    return [op.input(0), constant(target, BY_NAME["int64"])], attributes


def _split(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """Opset 1 has no default axis, and takes lengths in the input's own element type."""
    if op.version < 2:
        op.require("axis" in op.attributes and op.optional(1) is None, "lengths from an input, or no axis")
    return list(op.inputs), dict(op.attributes)


def _tile(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """Opset 1 repeats along one axis, the numbers given in the input's own element type."""
    if op.version >= 6:
        return list(op.inputs), dict(op.attributes)
    x, tiles, axis = op.input(0), op.constant(1), op.constant(2)
    op.require(tiles is not None and axis is not None and tiles.size == 1 and axis.size == 1, "no tiles or no axis")
    assert tiles is not None and axis is not None
    at, repeats = int(axis.item()), np.ones(x.rank, np.int64)
    op.require(0 <= at < x.rank, f"axis {at} is out of range for rank {x.rank}")
    repeats[at] = int(tiles.item())
    return [x, constant(repeats, BY_NAME["int64"])], dict(op.attributes)


def _upsample(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """Opset 1 names the scales of an image's axes, and does not define how it interpolates."""
    attributes = dict(op.attributes)
    mode = attributes.get("mode", "nearest")
    op.require(mode == "nearest", f"mode {mode}, whose coordinates opset {op.version} does not define")
    op.require(op.input(0).rank == 4, f"rank {op.input(0).rank}")
    attributes["scales"] = [1.0, 1.0, attributes.pop("height_scale"), attributes.pop("width_scale")]
    return list(op.inputs), attributes


def _recurrent(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """`output_sequence` only said whether the first result may be left out."""
    attributes = dict(op.attributes)
    attributes.pop("output_sequence", None)
    if op.op == "GRU" and op.version < 3:
        attributes["linear_before_reset"] = 0
    return list(op.inputs), attributes


def _lp_pool(emitter: Emitter, op: OnnxOp) -> tuple[list[Tensor | None], dict[str, Any]]:
    """The order of the norm is a float in opset 1."""
    attributes = dict(op.attributes)
    order = float(attributes.get("p", 2))
    op.require(order == int(order), f"a norm of order {order}")
    return list(op.inputs), attributes | {"p": int(order)}


SAME = frozenset(
    {
        *("Abs", "ArgMax", "ArgMin", "AveragePool", "Ceil", "Constant", "Conv", "ConvTranspose", "DepthToSpace", "Elu"),
        *("Exp", "Flatten", "Floor", "Gather", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "Hardmax"),
        *("Identity", "If", "InstanceNormalization", "LRN", "LeakyRelu", "Log", "LogSoftmax", "Loop"),
        *("LpNormalization", "MatMul"),
        *("MaxPool", "Neg", "Not", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
        *("Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
        *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Shape", "Sigmoid", "Size", "Slice"),
        *("Softmax", "Softplus", "Softsign", "SpaceToDepth", "Sqrt", "Squeeze", "Tanh", "TopK", "Transpose"),
        "Unsqueeze",
    }
)
"""Operators that mean the same in all versions up to 7, but for `consumed_inputs`."""

RESTATED: dict[str, Restate] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow"), _aligned),
    **dict.fromkeys(("And", "Or", "Xor", "Equal", "Less", "Greater"), _aligned),
    **dict.fromkeys(("Max", "Min", "Mean", "Sum"), _all_equal),
    **dict.fromkeys(("BatchNormalization", "Dropout"), _inference),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(("LpPool", "GlobalLpPool"), _lp_pool),
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Gemm": _gemm,
    "PRelu": _prelu,
    "Pad": _pad,
    "Reshape": _reshape,
    "Selu": _selu,
    "Split": _split,
    "Tile": _tile,
    "Upsample": _upsample,
}
