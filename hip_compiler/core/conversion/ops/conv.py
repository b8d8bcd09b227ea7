"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS
from hip_compiler.core.conversion.reductions import lowest
from hip_compiler.core.conversion.tensors import Tensor, constant, symbolic
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import Dim, Shape, dim

INT64 = BY_NAME["int64"]


def same_pads(auto_pad: str, extents: Shape, window: Sequence[int], strides: Sequence[int]) -> list[Dim]:
    """Pads of `auto_pad` SAME_UPPER or SAME_LOWER: the output has ceil(extent / stride) elements.

    Args:
        extents: spatial extents of the input.
        window: extents of the dilated kernel.
    """
    begins, ends = [], []
    for extent, size, stride in zip(extents, window, strides, strict=True):
        total = dim(size - 1) if stride == 1 else ((-(-extent // stride) - 1) * stride + size - extent).maximum(0)
        small = total // 2
        begins.append(small if auto_pad == "SAME_UPPER" else total - small)
        ends.append(total - small if auto_pad == "SAME_UPPER" else small)
    return begins + ends


def window_attributes(
    emitter: Emitter, op: OnnxOp, x: Tensor, kernel: Sequence[int], filling: float
) -> tuple[Tensor, dict[str, Any]]:
    """strides, pads and dilations of a sliding window, `auto_pad` resolved.

    Pads that depend on run-time extents are added to the input here, with the given filling.
    """
    rank = x.rank - 2
    strides = list(op.attr("strides", [1] * rank))
    dilations = list(op.attr("dilations", [1] * rank))
    pads: Sequence[Dim] = [dim(pad) for pad in op.attr("pads", [0] * 2 * rank)]
    auto_pad = op.attr("auto_pad", "NOTSET")
    op.require(len(strides) == rank and len(dilations) == rank and len(pads) == 2 * rank, "attributes of another rank")
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        window = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
        pads = same_pads(auto_pad, x.shape[2:], window, strides)
    elif auto_pad == "VALID":
        pads = [dim(0)] * 2 * rank
    if any(pad.value is None for pad in pads):
        whole = [dim(0), dim(0), *pads[:rank], dim(0), dim(0), *pads[rank:]]
        x = pad_with(emitter, x, whole, filling)
        pads = [dim(0)] * 2 * rank
    numbers = [pad.value or 0 for pad in pads]
    op.require(all(number >= 0 for number in numbers), "negative pads")
    return x, {"strides": strides, "pads": numbers, "dilations": dilations}


def pad_with(emitter: Emitter, x: Tensor, pads: Sequence[Dim], filling: float) -> Tensor:
    """The tensor with elements of one value added at both ends of every axis."""
    shape = tuple(extent + pads[i] + pads[i + x.rank] for i, extent in enumerate(x.shape))
    elements = np.empty(len(pads), dtype=object)
    elements[:] = pads
    value = constant(np.asarray(filling, dtype=x.dtype.numpy), x.dtype)
    inputs = {"x": x, "pads": symbolic(elements, INT64), "value": value}
    return emitter.hip("hip.pad", inputs, [x.dtype], [shape], mode="constant")[0]


def output_extents(x: Tensor, kernel: Sequence[int], window: dict[str, Any]) -> Shape:
    """Spatial extents of a convolution's output."""
    rank = x.rank - 2
    return tuple(
        (x.shape[2 + i] + window["pads"][i] + window["pads"][i + rank] - (kernel[i] - 1) * window["dilations"][i] - 1)
        // window["strides"][i]
        + 1
        for i in range(rank)
    )


def known(op: OnnxOp, extents: Sequence[Dim], what: str) -> list[int]:
    """Extents as numbers.

    Raises:
        NotSupportedError: one is not known at compile time.
    """
    values = [extent.value for extent in extents]
    op.require(None not in values, f"{what} must be known at compile time")
    return [value for value in values if value is not None]


@onnx_op(
    "Conv",
    how="hip.conv",
    dtypes=FLOATS,
    limits="one to three spatial axes; the kernel's extents are known at compile time; no negative pads",
)
@onnx_op("Conv", domain="hip", how="hip.conv", dtypes=FLOATS)
def convert_conv(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Convolution over one to three spatial axes, with groups; domain `hip` adds activation and residual sum."""
    x, w, bias, residual = op.input(0), op.input(1), op.optional(2), op.optional(3)
    names = ("activation", "activation_alpha", "activation_beta") if op.domain else ()
    epilogue: dict[str, Any] = {name: op.attr(name) for name in names}
    op.require(3 <= x.rank <= 5 and w.rank == x.rank, f"rank {x.rank}")
    kernel = known(op, w.shape[2:], "the kernel's extents")
    op.require(list(op.attr("kernel_shape", kernel)) == kernel, "kernel_shape differs from the weights' shape")
    group = op.attr("group", 1)
    emitter.check_equal(x.shape[1], w.shape[1] * group, "Conv, input channels")
    inputs = {"x": x, "w": w, "bias": bias, "residual": None}
    x, window = window_attributes(emitter, op, x, kernel, 0.0)
    inputs["x"] = x
    if residual is not None and residual.shape == (x.shape[0], w.shape[0], *output_extents(x, kernel, window)):
        return emitter.hip("hip.conv", inputs | {"residual": residual}, [x.dtype], group=group, **window, **epilogue)[0]
    result = emitter.hip("hip.conv", inputs, [x.dtype], group=group, **window, **epilogue)[0]
    if residual is None:
        return result
    return emitter.elementwise(lambda a, b: a + b, [result, residual], x.dtype)


@onnx_op(
    "ConvTranspose",
    how="hip.conv_transpose",
    dtypes=FLOATS,
    limits="one to three spatial axes; output_shape and auto_pad need spatial extents known at compile time",
)
def convert_conv_transpose(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The gradient of a convolution with respect to its input."""
    x, w, bias = op.input(0), op.input(1), op.optional(2)
    rank = x.rank - 2
    kernel = known(op, w.shape[2:], "the kernel's extents")
    op.require(list(op.attr("kernel_shape", kernel)) == kernel, "kernel_shape differs from the weights' shape")
    strides, dilations = list(op.attr("strides", [1] * rank)), list(op.attr("dilations", [1] * rank))
    extra = list(op.attr("output_padding", [0] * rank))
    pads, auto_pad = list(op.attr("pads", [0] * 2 * rank)), op.attr("auto_pad", "NOTSET")
    wanted = op.attr("output_shape")
    if wanted is not None or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        extents = known(op, x.shape[2:], "spatial extents (with output_shape or auto_pad)")
        wanted = wanted[-rank:] if wanted is not None else [e * s for e, s in zip(extents, strides, strict=True)]
        begins, ends = [], []
        for i in range(rank):
            full = strides[i] * (extents[i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1
            total = full - wanted[i]
            if total < 0:  # beyond what the input reaches: nothing but zeros at the end
                extra[i], total = extra[i] - total, 0
            small, large = total // 2, total - total // 2
            begins.append(large if auto_pad != "SAME_UPPER" else small)
            ends.append(small if auto_pad != "SAME_UPPER" else large)
        pads = begins + ends
    elif auto_pad == "VALID":
        pads = [0] * 2 * rank
    attributes: dict[str, Any] = {
        "strides": strides,
        "pads": pads,
        "dilations": dilations,
        "output_padding": extra,
        "group": op.attr("group", 1),
    }
    return emitter.hip("hip.conv_transpose", {"x": x, "w": w, "bias": bias}, [x.dtype], **attributes)[0]


@onnx_op("AveragePool", "LpPool", how="hip.pool", dtypes=FLOATS, limits="one to three spatial axes; no negative pads")
@onnx_op(
    "MaxPool",
    how="hip.pool, hip.max_pool_indices",
    dtypes=FLOATS | {"int8", "uint8"},
    limits="one to three spatial axes; no negative pads",
)
def convert_pool(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """Maximum, mean or norm over sliding windows."""
    x = op.input(0)
    op.require(3 <= x.rank <= 5, f"rank {x.rank}")
    kernel = list(op.attr("kernel_shape"))
    filling = lowest(x.dtype) if op.op == "MaxPool" else 0.0
    extents = x.shape
    x, window = window_attributes(emitter, op, x, kernel, filling)
    op.require(x.shape == extents or op.op != "AveragePool", "auto_pad over extents that are not known")
    attributes: dict[str, Any] = {"kernel": kernel, **window, "ceil_mode": bool(op.attr("ceil_mode", 0))}
    if op.op == "MaxPool" and op.wants(1):
        order = op.attr("storage_order", 0)
        return emitter.hip("hip.max_pool_indices", {"x": x}, [x.dtype, INT64], storage_order=order, **attributes)
    op.ignore("storage_order")
    mode = {"MaxPool": "max", "AveragePool": "average", "LpPool": "lp"}[op.op]
    attributes["count_include_pad"] = bool(op.attr("count_include_pad", 0)) if mode == "average" else False
    attributes["p"] = op.attr("p", 2) if mode == "lp" else 2
    return emitter.hip("hip.pool", {"x": x}, [x.dtype], mode=mode, **attributes)
