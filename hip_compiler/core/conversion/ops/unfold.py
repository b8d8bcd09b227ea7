"""Sliding blocks put back together, displaced convolution, pooling of regions."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.in_doubles import in_doubles
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.conv import pad_with
from hip_compiler.core.conversion.ops.elementwise import BOOLS, FLOATS, NUMBERS
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.core.mlir import arith
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim, product

INT64 = BY_NAME["int64"]


def _per_axis(op: OnnxOp, axes: int) -> dict[str, Any]:
    return {
        "strides": op.attr("strides", [1] * axes),
        "pads": op.attr("pads", [0] * 2 * axes),
        "dilations": op.attr("dilations", [1] * axes),
    }


@onnx_op("Col2Im", since=18, how="hip.col2im", dtypes=NUMBERS | BOOLS)
def convert_col2im(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Columns of sliding blocks added back into an image."""
    x, block = op.input(0), op.input(2)
    image, extents = emitter.run_time_extents(op.input(1)), emitter.run_time_extents(block)
    op.require(len(extents) == len(image), "image and block of different ranks")
    shape = (x.shape[0], x.shape[1] // product(extents), *image)
    block, attributes = emitter.cast(block, INT64), _per_axis(op, len(image))

    def added(columns: Tensor) -> Tensor:
        return emitter.hip("hip.col2im", {"x": columns, "block": block}, [columns.dtype], [shape], **attributes)[0]

    return added(x) if x.dtype.kind == "float" else in_doubles(emitter, x, added)


@onnx_op("DeformConv", since=19, how="hip.deform_conv", dtypes=FLOATS, limits="rank 4")
def convert_deform_conv(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Convolution whose taps are displaced by offsets."""
    x, w = op.input(0), op.input(1)
    op.require(x.rank == 4, f"rank {x.rank}")
    op.ignore("kernel_shape")
    inputs = {"x": x, "w": w, "offset": op.input(2), "bias": op.optional(3), "mask": op.optional(4)}
    groups = {"group": op.attr("group", 1), "offset_group": op.attr("offset_group", 1)}
    return emitter.hip("hip.deform_conv", inputs, [x.dtype], **_per_axis(op, 2), **groups)[0]


@onnx_op("MaxRoiPool", how="hip.max_roi_pool", dtypes=FLOATS)
def convert_max_roi_pool(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Maximum over every cell of regions."""
    x = op.input(0)
    height, width = op.attr("pooled_shape")
    attributes = {"output_height": height, "output_width": width, "spatial_scale": op.attr("spatial_scale", 1.0)}
    return emitter.hip("hip.max_roi_pool", {"x": x, "rois": op.input(1)}, [x.dtype], **attributes)[0]


@onnx_op("MaxUnpool", how="hip.scatter_elements")
def convert_max_unpool(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Elements put back where MaxPool took them from; zeros elsewhere.

    Indices count elements of the whole tensor that kernel, strides and pads give; a larger `output_shape` adds zeros
    at the end of every axis.
    """
    x, kernel = op.input(0), op.attr("kernel_shape")
    op.require(x.rank == len(kernel) + 2, f"rank {x.rank}")
    window = _per_axis(op, len(kernel))
    strides, pads = window["strides"], window["pads"]
    spatial = [
        (x.shape[2 + i] - 1) * strides[i] + size - pads[i] - pads[len(kernel) + i] for i, size in enumerate(kernel)
    ]
    shape = (*x.shape[:2], *spatial)
    zeros = Tensor((product(shape),), x.dtype, emitter.fill(0, (product(shape),), x.dtype))
    flat = {
        "data": zeros,
        "indices": emitter.reshape(op.input(1), (product(op.input(1).shape),)),
        "updates": emitter.reshape(x, (product(x.shape),)),
    }
    result = emitter.reshape(emitter.hip("hip.scatter_elements", flat, [x.dtype], axis=0)[0], shape)
    wanted = op.optional(2)
    if wanted is None:
        return result
    extents = emitter.run_time_extents(wanted)
    op.require(len(extents) == x.rank, f"an output_shape of {len(extents)} numbers")
    added = [extent - have for extent, have in zip(extents, shape, strict=True)]
    for extent in added:
        if extent.value is None:
            fits = arith.cmpi(arith.CmpIPredicate.sge, emitter.index_value(extent), emitter.index_value(0))
            emitter.check(fits, "output_shape is smaller than what is put back")
        op.require(extent.value is None or extent.value >= 0, "output_shape smaller than what is put back")
    return pad_with(emitter, result, [*[dim(0)] * x.rank, *added], 0.0)
