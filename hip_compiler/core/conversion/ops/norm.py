"""Normalisations and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS
from hip_compiler.core.conversion.ops.shape import normalize_axis
from hip_compiler.core.conversion.scalars import Scalar
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME, BY_ONNX
from hip_compiler.shapes import dim, product

FLOAT, DOUBLE = BY_NAME["float"], BY_NAME["double"]


@onnx_op("Softmax", "LogSoftmax", "Hardmax", how="hip.softmax, hip.hardmax", dtypes=FLOATS)
def convert_softmax(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Along one axis from opset 13; before that over all axes from the given one."""
    x = op.input(0)
    name = "hip.hardmax" if op.op == "Hardmax" else "hip.softmax"
    log: dict[str, Any] = {} if op.op == "Hardmax" else {"log": op.op == "LogSoftmax"}
    if op.version >= 13:
        axis = normalize_axis(op, op.attr("axis", -1), x.rank)
        return emitter.hip(name, {"x": x}, [x.dtype], axis=axis, **log)[0]
    axis = op.attr("axis", 1)
    op.require(-x.rank <= axis <= x.rank, f"axis {axis} is out of range for rank {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    flat = emitter.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))
    return emitter.reshape(emitter.hip(name, {"x": flat}, [x.dtype], axis=1, **log)[0], x.shape)


@onnx_op("LayerNormalization", how="hip.layer_norm", dtypes=FLOATS)
def convert_layer_norm(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """Mean 0 and variance 1 over the trailing axes, then scale and bias."""
    x, stash = op.input(0), BY_ONNX[op.attr("stash_type", FLOAT.onnx)]
    op.require(stash.name in FLOATS, f"stash_type {stash}")
    axis = normalize_axis(op, op.attr("axis", -1), x.rank)
    tail = x.shape[axis:]
    inputs = {"x": x, "scale": trailing(emitter, op.input(1), tail), "bias": None}
    if op.optional(2) is not None:
        inputs["bias"] = trailing(emitter, op.input(2), tail)
    attributes: dict[str, Any] = {"axis": axis, "epsilon": op.attr("epsilon", 1e-5)}
    if any(op.wants(i) for i in (1, 2)):
        y, *stats = emitter.hip("hip.layer_norm_stats", inputs, [x.dtype, FLOAT, FLOAT], **attributes)
        return [y, *(emitter.cast(number, stash) for number in stats)]
    return emitter.hip("hip.layer_norm", inputs, [x.dtype], **attributes)


@onnx_op("RMSNormalization", how="hip.rms_norm", dtypes=FLOATS)
def convert_rms_norm(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Division by the root mean square over the trailing axes, then scale."""
    op.ignore("stash_type")
    x = op.input(0)
    axis = normalize_axis(op, op.attr("axis", -1), x.rank)
    inputs = {"x": x, "scale": trailing(emitter, op.input(1), x.shape[axis:])}
    return emitter.hip("hip.rms_norm", inputs, [x.dtype], axis=axis, epsilon=op.attr("epsilon", 1e-5))[0]


def trailing(emitter: Emitter, parameter: Tensor, tail: Sequence[object]) -> Tensor:
    """A scale or bias in the shape of the normalised axes."""
    shape = tuple(tail)
    if parameter.rank > len(shape) and all(extent.value == 1 for extent in parameter.shape[: -len(shape)]):
        parameter = emitter.reshape(parameter, parameter.shape[-len(shape) :])
    return emitter.expand(parameter, shape)  # type: ignore[arg-type]


@onnx_op(
    "BatchNormalization",
    how="linalg.generic",
    dtypes=FLOATS,
    limits="no statistics per element (spatial is 0 before opset 9)",
)
def convert_batch_norm(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """Per channel, minus mean, over deviation, times scale, plus bias; training mode measures mean and deviation."""
    op.require(bool(op.attr("spatial", 1)), "statistics per element (spatial is 0)")
    x = op.input(0)
    momentum = op.attr("momentum", 0.9)
    if op.attr("training_mode", 0):
        op.require(x.rank >= 2, f"training mode with rank {x.rank}")
        measured = _channel_statistics(emitter, x)
        running = [_running(emitter, op.input(3 + i), now, momentum) for i, now in enumerate(measured)]
        return [_normalized(emitter, op, x, *measured), *running][: op.outputs]
    op.require(not any(op.wants(i) for i in range(1, op.outputs)), "outputs of training mode")
    return [_normalized(emitter, op, x, op.input(3), op.input(4))]


def _normalized(emitter: Emitter, op: OnnxOp, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    epsilon, spread = op.attr("epsilon", 1e-5), (dim(1),) * max(x.rank - 2, 0)
    parameters = (op.input(1), op.input(2), mean, variance)
    per_channel = [emitter.reshape(parameter, (*parameter.shape, *spread)) for parameter in parameters]

    wide = DOUBLE if any(source.dtype is DOUBLE for source in (x, *parameters)) else FLOAT

    def body(*numbers: Scalar) -> Scalar:
        v, scale, bias, centre, spread = (number.cast(wide) for number in numbers)
        return (v - centre) / (spread + epsilon).apply("sqrt") * scale + bias

    return emitter.elementwise(body, [x, *per_channel], x.dtype, x.shape)


def _channel_statistics(emitter: Emitter, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of every channel, in the element type that arithmetic on x uses."""
    axes = [0, *range(2, x.rank)]
    spread = (x.shape[1], *(dim(1) for _ in range(x.rank - 2)))

    def average(values: Tensor) -> Tensor:
        total = emitter.reduce(values, axes, "sum")
        count = emitter.extent_scalar(product([x.shape[axis] for axis in axes]), total.dtype)
        return emitter.elementwise(lambda v, n: v / n, [total, count], total.dtype)

    mean = average(x)

    def squared(v: Scalar, centre: Scalar) -> Scalar:
        return (v - centre) * (v - centre)

    return mean, average(emitter.elementwise(squared, [x, emitter.reshape(mean, spread)], mean.dtype, x.shape))


def _running(emitter: Emitter, before: Tensor, now: Tensor, momentum: float) -> Tensor:
    def mixed(old: Scalar, new: Scalar) -> Scalar:
        return old * momentum + new.cast(old.dtype) * (1.0 - momentum)

    return emitter.elementwise(mixed, [before, now], before.dtype)


@onnx_op("MeanVarianceNormalization", since=9, how="linalg.generic", dtypes=FLOATS)
def convert_mean_variance_norm(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Mean 0 and deviation 1 over some axes; 1e-9 is added to the deviation, as in the operator's function body."""
    x = op.input(0)
    axes = sorted({normalize_axis(op, axis, x.rank) for axis in op.attr("axes", [0, 2, 3])})
    kept = tuple(dim(1) if axis in axes else extent for axis, extent in enumerate(x.shape))

    def average(values: Tensor) -> Tensor:
        total = emitter.reduce(values, axes, "sum")
        count = emitter.extent_scalar(product([x.shape[axis] for axis in axes]), total.dtype)
        return emitter.reshape(emitter.elementwise(lambda v, n: v / n, [total, count], total.dtype), kept)

    mean = average(x)
    centred = emitter.elementwise(lambda v, m: v - m, [x, mean], mean.dtype, x.shape)
    variance = average(emitter.elementwise(lambda v: v * v, [centred], mean.dtype))
    return emitter.elementwise(lambda v, s: v / (s.apply("sqrt") + 1e-9), [centred, variance], x.dtype, x.shape)


@onnx_op("InstanceNormalization", how="hip.instance_norm", dtypes=FLOATS)
def convert_instance_norm(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Mean 0 and variance 1 over the spatial axes of every channel."""
    x = op.input(0)
    inputs = {"x": x, "scale": op.input(1), "bias": op.input(2)}
    return emitter.hip("hip.instance_norm", inputs, [x.dtype], epsilon=op.attr("epsilon", 1e-5))[0]


@onnx_op("GroupNormalization", how="hip.group_norm", dtypes=FLOATS)
def convert_group_norm(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Mean 0 and variance 1 over groups of channels."""
    op.ignore("stash_type")
    x = op.input(0)
    inputs = {"x": x, "scale": op.input(1), "bias": op.input(2)}
    attributes: dict[str, Any] = {"groups": op.attr("num_groups"), "epsilon": op.attr("epsilon", 1e-5)}
    return emitter.hip("hip.group_norm", inputs, [x.dtype], **attributes)[0]


@onnx_op("LRN", how="hip.lrn", dtypes=FLOATS)
def convert_lrn(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Local response normalisation over neighbouring channels."""
    x = op.input(0)
    attributes: dict[str, Any] = {
        "size": op.attr("size"),
        "alpha": op.attr("alpha", 1e-4),
        "beta": op.attr("beta", 0.75),
        "bias": op.attr("bias", 1.0),
    }
    return emitter.hip("hip.lrn", {"x": x}, [x.dtype], **attributes)[0]


@onnx_op("LpNormalization", how="hip.lp_norm", dtypes=FLOATS)
def convert_lp_norm(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Division by the L1 or L2 norm along one axis."""
    x = op.input(0)
    axis = normalize_axis(op, op.attr("axis", -1), x.rank)
    return emitter.hip("hip.lp_norm", {"x": x}, [x.dtype], axis=axis, p=op.attr("p", 2))[0]
