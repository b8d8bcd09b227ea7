"""Normalisations and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS
from hip_compiler.core.conversion.ops.shape import normalize_axis
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim, product

FLOAT = BY_NAME["float"]


@onnx_op("Softmax", "LogSoftmax", "Hardmax", how="hip.softmax, hip.hardmax")
def convert_softmax(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Along one axis from opset 13; before that over all axes from the given one."""
    x = op.input(0)
    op.require(x.dtype.name in FLOATS, f"element type {x.dtype} is not defined for it")
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


@onnx_op("LayerNormalization", how="hip.layer_norm")
def convert_layer_norm(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """Mean 0 and variance 1 over the trailing axes, then scale and bias."""
    op.ignore("stash_type")
    x = op.input(0)
    op.require(x.dtype.name in FLOATS, f"element type {x.dtype} is not defined for it")
    axis = normalize_axis(op, op.attr("axis", -1), x.rank)
    tail = x.shape[axis:]
    inputs = {"x": x, "scale": trailing(emitter, op.input(1), tail), "bias": None}
    if op.optional(2) is not None:
        inputs["bias"] = trailing(emitter, op.input(2), tail)
    attributes: dict[str, Any] = {"axis": axis, "epsilon": op.attr("epsilon", 1e-5)}
    if any(op.wants(i) for i in (1, 2)):
        return emitter.hip("hip.layer_norm_stats", inputs, [x.dtype, FLOAT, FLOAT], **attributes)
    return emitter.hip("hip.layer_norm", inputs, [x.dtype], **attributes)


@onnx_op("RMSNormalization", how="hip.rms_norm")
def convert_rms_norm(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Division by the root mean square over the trailing axes, then scale."""
    op.ignore("stash_type")
    x = op.input(0)
    op.require(x.dtype.name in FLOATS, f"element type {x.dtype} is not defined for it")
    axis = normalize_axis(op, op.attr("axis", -1), x.rank)
    inputs = {"x": x, "scale": trailing(emitter, op.input(1), x.shape[axis:])}
    return emitter.hip("hip.rms_norm", inputs, [x.dtype], axis=axis, epsilon=op.attr("epsilon", 1e-5))[0]


def trailing(emitter: Emitter, parameter: Tensor, tail: Sequence[object]) -> Tensor:
    """A scale or bias in the shape of the normalised axes."""
    shape = tuple(tail)
    if parameter.rank > len(shape) and all(extent.value == 1 for extent in parameter.shape[: -len(shape)]):
        parameter = emitter.reshape(parameter, parameter.shape[-len(shape) :])
    return emitter.expand(parameter, shape)  # type: ignore[arg-type]


@onnx_op("BatchNormalization", how="linalg.generic")
def convert_batch_norm(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """Inference form: per channel, minus mean, over deviation, times scale, plus bias."""
    op.ignore("momentum")
    op.require(op.attr("training_mode", 0) == 0, "training mode")
    op.require(bool(op.attr("spatial", 1)), "statistics per element (spatial is 0)")
    op.require(not any(op.wants(i) for i in range(1, op.outputs)), "outputs of training mode")
    x, epsilon = op.input(0), op.attr("epsilon", 1e-5)
    op.require(x.dtype.name in FLOATS, f"element type {x.dtype} is not defined for it")
    spread = (dim(1),) * max(x.rank - 2, 0)
    per_channel = [emitter.reshape(op.input(i), (*op.input(i).shape, *spread)) for i in range(1, 5)]

    def body(v, scale, bias, mean, variance):  # type: ignore[no-untyped-def]
        return (v - mean) / (variance + epsilon).apply("sqrt") * scale + bias

    return [emitter.elementwise(body, [x, *per_channel], x.dtype, x.shape)]


@onnx_op("InstanceNormalization", how="hip.instance_norm")
def convert_instance_norm(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Mean 0 and variance 1 over the spatial axes of every channel."""
    x = op.input(0)
    op.require(x.dtype.name in FLOATS, f"element type {x.dtype} is not defined for it")
    inputs = {"x": x, "scale": op.input(1), "bias": op.input(2)}
    return emitter.hip("hip.instance_norm", inputs, [x.dtype], epsilon=op.attr("epsilon", 1e-5))[0]


@onnx_op("GroupNormalization", how="hip.group_norm")
def convert_group_norm(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Mean 0 and variance 1 over groups of channels."""
    op.ignore("stash_type")
    x = op.input(0)
    op.require(x.dtype.name in FLOATS, f"element type {x.dtype} is not defined for it")
    inputs = {"x": x, "scale": op.input(1), "bias": op.input(2)}
    attributes: dict[str, Any] = {"groups": op.attr("num_groups"), "epsilon": op.attr("epsilon", 1e-5)}
    return emitter.hip("hip.group_norm", inputs, [x.dtype], **attributes)[0]


@onnx_op("LRN", how="hip.lrn")
def convert_lrn(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Local response normalisation over neighbouring channels."""
    x = op.input(0)
    op.require(x.dtype.name in FLOATS, f"element type {x.dtype} is not defined for it")
    attributes: dict[str, Any] = {
        "size": op.attr("size"),
        "alpha": op.attr("alpha", 1e-4),
        "beta": op.attr("beta", 0.75),
        "bias": op.attr("bias", 1.0),
    }
    return emitter.hip("hip.lrn", {"x": x}, [x.dtype], **attributes)[0]


@onnx_op("LpNormalization", how="hip.lp_norm")
def convert_lp_norm(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Division by the L1 or L2 norm along one axis."""
    x = op.input(0)
    op.require(x.dtype.name in FLOATS, f"element type {x.dtype} is not defined for it")
    axis = normalize_axis(op, op.attr("axis", -1), x.rank)
    return emitter.hip("hip.lp_norm", {"x": x}, [x.dtype], axis=axis, p=op.attr("p", 2))[0]
