"""Sampling at positions that are data, and non-maximum suppression."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.in_doubles import DOUBLE, in_doubles, within
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import BOOLS, NUMBERS
from hip_compiler.core.conversion.ops.selection import counted
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim

INT64 = BY_NAME["int64"]


@onnx_op("GridSample", since=16, how="hip.grid_sample", dtypes=NUMBERS | BOOLS)
def convert_grid_sample(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The input at the positions of a grid.

    What lies between integers is computed in double and rounded to even, as by Resize; between bools, what is not 0 is
    true. The operator's text leaves both open.
    """
    x, grid = op.input(0), op.input(1)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(op.attr("mode", "linear"), op.attr("mode", "linear"))
    attributes: dict[str, Any] = {
        "mode": mode,
        "padding": op.attr("padding_mode", "zeros"),
        "align_corners": bool(op.attr("align_corners", 0)),
    }

    def sampled(source: Tensor) -> Tensor:
        return emitter.hip("hip.grid_sample", {"x": source, "grid": grid}, [source.dtype], **attributes)[0]

    if x.dtype.kind == "float":
        return sampled(x)
    if mode == "nearest" or x.dtype.name == "bool":
        return in_doubles(emitter, x, sampled)
    between = sampled(emitter.cast(x, DOUBLE))
    return emitter.elementwise(lambda v: within(v.apply("roundeven"), x.dtype), [between], x.dtype)


@onnx_op("RoiAlign", since=10, how="hip.roi_align")
def convert_roi_align(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Regions of a feature map pooled to one size."""
    x = op.input(0)
    default = "half_pixel" if op.version >= 16 else "output_half_pixel"
    attributes: dict[str, Any] = {
        "mode": op.attr("mode", "avg"),
        "coordinate": op.attr("coordinate_transformation_mode", default),
        "output_height": op.attr("output_height", 1),
        "output_width": op.attr("output_width", 1),
        "sampling_ratio": op.attr("sampling_ratio", 0),
        "spatial_scale": op.attr("spatial_scale", 1.0),
    }
    inputs = {"x": x, "rois": op.input(1), "batch_indices": op.input(2)}
    return emitter.hip("hip.roi_align", inputs, [x.dtype], **attributes)[0]


@onnx_op("NonMaxSuppression", since=10, how="hip.nms")
def convert_nms(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Batch, class and box number of every box that suppression keeps."""
    names = ("boxes", "scores", "max_output", "iou_threshold", "score_threshold")
    inputs = {name: op.optional(i) for i, name in enumerate(names)}
    center = bool(op.attr("center_point_box", 0))
    found = counted(emitter, "hip.nms_count", inputs, center_point_box=center)
    return emitter.hip("hip.nms", inputs, [INT64], [(found, dim(3))], center_point_box=center)[0]
