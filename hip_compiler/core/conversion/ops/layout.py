"""Padding, resizing, and operators that pick or place whole slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.extents import index
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS, NUMBERS
from hip_compiler.core.conversion.ops.resize_integers import resize_otherwise
from hip_compiler.core.conversion.ops.shape import normalize_axis
from hip_compiler.core.conversion.run_time_axes import picked_by_axis
from hip_compiler.core.conversion.scalars import Scalar
from hip_compiler.core.conversion.tensors import Tensor, constant, symbolic
from hip_compiler.dtypes import BY_NAME, BY_ONNX
from hip_compiler.shapes import Dim, Shape, dim

INT64 = BY_NAME["int64"]
FLOAT = BY_NAME["float"]
DOUBLE = BY_NAME["double"]


@onnx_op("Pad", how="hip.pad")
def convert_pad(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Elements added (or, by negative pads, removed) at both ends of axes."""
    x = op.input(0)
    if op.version < 11:
        pads: Sequence[Dim] = [dim(v) for v in op.attr("pads")]
        number = np.asarray(op.attr("value", 0.0), dtype=x.dtype.numpy)
        value: Tensor | None = constant(number, x.dtype)
        axes = list(range(x.rank))
    else:
        pads, value = emitter.run_time_extents(op.input(1)), op.optional(2)
        listed = op.optional(3)
        if listed is not None and listed.constant is None and listed.size != 0:
            return _pad_by_data(emitter, op, x, pads, emitter.run_time_extents(listed))
        given = op.constant(3)
        axes = list(range(x.rank)) if given is None else [normalize_axis(op, int(v), x.rank) for v in given.flat]
    op.require(len(pads) == 2 * len(axes), f"{len(pads)} pads for {len(axes)} axes")
    whole: list[Dim] = [dim(0)] * (2 * x.rank)
    for position, axis in enumerate(axes):
        whole[axis], whole[axis + x.rank] = pads[position], pads[position + len(axes)]
    return _pad(emitter, op, x, whole, value)


def _pad_by_data(emitter: Emitter, op: OnnxOp, x: Tensor, pads: Sequence[Dim], axes: Sequence[Dim]) -> Tensor:
    """Pads of axes that are data."""
    op.require(len(pads) == 2 * len(axes), f"{len(pads)} pads for {len(axes)} axes")
    values = [emitter.index_value(pad) for pad in pads]
    whole: list[Dim] = []
    for half in (values[: len(axes)], values[len(axes) :]):
        picked = picked_by_axis(emitter, axes, half, x.rank, [index(0)] * x.rank)
        whole += [emitter.fresh_symbol(value, signed=True) for value in picked]
    return _pad(emitter, op, x, whole, op.optional(2))


def _pad(emitter: Emitter, op: OnnxOp, x: Tensor, pads: Sequence[Dim], value: Tensor | None) -> Tensor:
    """Pads of every axis: all at the front, then all at the end."""
    shape = tuple(extent + pads[i] + pads[i + x.rank] for i, extent in enumerate(x.shape))
    elements = np.empty(len(pads), dtype=object)
    elements[:] = pads
    inputs = {"x": x, "pads": symbolic(elements, INT64), "value": value}
    return emitter.hip("hip.pad", inputs, [x.dtype], [shape], mode=op.attr("mode", "constant"))[0]


@onnx_op(
    "Resize",
    since=10,
    how="hip.resize",
    dtypes=NUMBERS | {"bool"},
    limits="a scale that is no whole number, nor one over one, needs extents known at compile time",
)
def convert_resize(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Sampling at another number of positions along axes."""
    x = op.input(0)
    first = 1 if op.version == 10 else 2
    op.ignore_inputs(1)  # regions, of which only tf_crop_and_resize makes use; opset 11 wants them there at all times
    scales, sizes = op.optional(first), op.optional(3) if op.version > 10 else None
    axes = [normalize_axis(op, axis, x.rank) for axis in op.attr("axes", range(x.rank))]
    coordinate = op.attr("coordinate_transformation_mode", "asymmetric" if op.version == 10 else "half_pixel")
    factor_tensor: Tensor | None
    if sizes is not None and sizes.size != 0:
        shape, factor_tensor = _resize_to(emitter, op, x, axes, emitter.run_time_extents(sizes))
    elif scales is not None and scales.constant is None:
        op.require(scales.size == len(axes), "scales of another length")
        scales = _spread(emitter, scales, axes, [1.0] * x.rank)
        extents = emitter.hip("hip.resize_extents", {"x": x, "scales": scales}, [INT64])[0]
        shape, factor_tensor = emitter.run_time_extents(extents), scales
    else:
        given = op.constant(first)
        op.require(given is not None and given.size == len(axes), "neither sizes nor scales")
        factors = [1.0] * x.rank
        for axis, factor in zip(axes, () if given is None else given.flat, strict=True):
            factors[axis] = float(factor)
        shape = tuple(_scaled(op, extent, factor) for extent, factor in zip(x.shape, factors, strict=True))
        factor_tensor = constant(np.array(factors, np.float32), FLOAT)
    attributes: dict[str, Any] = {
        "mode": op.attr("mode", "nearest"),
        "coordinate": coordinate,
        "nearest": op.attr("nearest_mode", "by_scale" if op.version == 10 else "round_prefer_floor"),
        "cubic_coeff_a": op.attr("cubic_coeff_a", -0.75),
        "exclude_outside": bool(op.attr("exclude_outside", 0)),
        "extrapolation_value": op.attr("extrapolation_value", 0.0),
        "antialias": bool(op.attr("antialias", 0)),
    }
    roi: Tensor | None = None
    if coordinate == "tf_crop_and_resize":
        region = op.input(1)
        op.require(region.size == 2 * len(axes), "no region of interest")
        roi = _spread(emitter, region, [*axes, *(axis + x.rank for axis in axes)], [0.0] * x.rank + [1.0] * x.rank)
    if x.dtype.name not in FLOATS | {"uint8", "int8", "int32"}:
        return resize_otherwise(emitter, op, x, shape, factor_tensor, roi, attributes)
    inputs = {"x": x, "scales": factor_tensor, "roi": roi}
    return emitter.hip("hip.resize", inputs, [x.dtype], [shape], **attributes)[0]


def _spread(emitter: Emitter, values: Tensor, places: Sequence[int], otherwise: Sequence[float]) -> Tensor:
    """Numbers of some places among the numbers of all places, as float32."""
    base = np.array(otherwise, np.float32)
    if values.constant is not None:
        base[list(places)] = values.constant.reshape(-1)
        return constant(base, FLOAT)
    inputs = {
        "data": constant(base, FLOAT),
        "indices": constant(np.array(places, np.int64), INT64),
        "updates": emitter.cast(values, FLOAT),
    }
    return emitter.hip("hip.scatter_elements", inputs, [FLOAT], axis=0)[0]


def _scaled(op: OnnxOp, extent: Dim, factor: float) -> Dim:
    """floor(extent * factor)."""
    if extent.value is not None:
        return dim(int(np.floor(extent.value * factor)))
    if float(factor).is_integer():
        return extent * int(factor)
    inverse = 1.0 / factor
    op.require(abs(inverse - round(inverse)) < 1e-6, f"scale {factor} of an extent that is not known at compile time")
    return extent // round(inverse)


def _resize_to(
    emitter: Emitter, op: OnnxOp, x: Tensor, axes: Sequence[int], sizes: Sequence[Dim]
) -> tuple[Shape, Tensor | None]:
    """Output shape for given sizes; scales only where the aspect-ratio policy changes them."""
    policy = op.attr("keep_aspect_ratio_policy", "stretch")
    shape = list(x.shape)
    if policy == "stretch":
        for axis, size in zip(axes, sizes, strict=True):
            shape[axis] = size
        return tuple(shape), None
    pairs = [(size.value, x.shape[axis].value) for axis, size in zip(axes, sizes, strict=True)]
    if not all(a is not None and b for a, b in pairs):
        return _fitted_at_run_time(emitter, x, axes, sizes, larger=policy == "not_smaller")
    ratios = [a / b for a, b in pairs if a is not None and b]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    factors = [1.0] * x.rank
    for axis in axes:
        extent = x.shape[axis].value
        assert extent is not None
        factors[axis] = scale
        shape[axis] = dim(int(np.floor(scale * extent + 0.5)))
    return tuple(shape), constant(np.array(factors, np.float32), FLOAT)


def _fitted_at_run_time(
    emitter: Emitter, x: Tensor, axes: Sequence[int], sizes: Sequence[Dim], *, larger: bool
) -> tuple[Shape, Tensor]:
    """One scale for all axes, the largest or the smallest that a size asks for, and the shape that it gives."""
    shape = list(x.shape)
    lengths = [emitter.extent_scalar(x.shape[axis], DOUBLE) for axis in axes]
    asked = [emitter.extent_scalar(size, DOUBLE) for size in sizes]

    def ratio(*numbers: Scalar) -> Scalar:
        ratios = [size / length for size, length in zip(numbers[::2], numbers[1::2], strict=True)]
        scale = ratios[0]
        for other in ratios[1:]:
            scale = scale.maximum(other) if larger else scale.minimum(other)
        return scale

    pairs = [number for pair in zip(asked, lengths, strict=True) for number in pair]
    scale = emitter.elementwise(ratio, pairs, DOUBLE)

    def rounded(factor: Scalar, length: Scalar) -> Scalar:
        return (factor * length + 0.5).apply("floor")

    for axis, length in zip(axes, lengths, strict=True):
        extent = emitter.elementwise(rounded, [scale, length], INT64)
        shape[axis] = emitter.run_time_extents(extent)[0]
    one = constant(np.ones((), np.float64), DOUBLE)
    parts = [emitter.reshape(scale if axis in axes else one, (dim(1),)) for axis in range(x.rank)]
    factors = emitter.cast(emitter.concat(parts, 0, (dim(x.rank),)), FLOAT)
    return tuple(shape), factors


@onnx_op("Upsample", since=7, until=9, how="hip.resize")
def convert_upsample(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Resize of opset 7 to 9: asymmetric coordinates, floor."""
    x = op.input(0)
    scales = constant(np.array(op.attr("scales"), np.float32), FLOAT) if op.version < 9 else op.input(1)
    op.require(scales.size == x.rank, "scales of another length")
    if scales.constant is None:
        shape = emitter.run_time_extents(emitter.hip("hip.resize_extents", {"x": x, "scales": scales}, [INT64])[0])
    else:
        factors = [float(factor) for factor in scales.constant.flat]
        shape = tuple(_scaled(op, extent, factor) for extent, factor in zip(x.shape, factors, strict=True))
    inputs = {"x": x, "scales": scales}
    attributes: dict[str, Any] = {"mode": op.attr("mode", "nearest"), "coordinate": "asymmetric", "nearest": "floor"}
    return emitter.hip("hip.resize", inputs, [x.dtype], [shape], **attributes)[0]


@onnx_op("OneHot", how="hip.one_hot")
def convert_one_hot(emitter: Emitter, op: OnnxOp) -> Tensor:
    """`values[1]` at each index along a new axis, `values[0]` elsewhere."""
    indices, values = op.input(0), op.input(2)
    op.require(indices.dtype.kind in ("int", "uint", "float"), f"indices of type {indices.dtype}")
    axis = normalize_axis(op, op.attr("axis", -1), indices.rank + 1)
    depth = op.input(1)
    if depth.constant is not None:
        extent = dim(int(depth.constant.flat[0]))
    else:
        op.require(depth.dtype.kind in ("int", "uint", "float"), f"a depth of type {depth.dtype}")
        extent = emitter.run_time_extents(emitter.cast(depth, INT64))[0]
    shape = (*indices.shape[:axis], extent, *indices.shape[axis:])
    wide = emitter.cast(indices, INT64)
    return emitter.hip("hip.one_hot", {"indices": wide, "values": values}, [values.dtype], [shape], axis=axis)[0]


@onnx_op("ReverseSequence", how="hip.reverse_sequence", texts=True)
def convert_reverse_sequence(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Every sequence of a batch reversed over its own length."""
    x = op.input(0)
    attributes: dict[str, Any] = {"batch_axis": op.attr("batch_axis", 1), "time_axis": op.attr("time_axis", 0)}
    return emitter.hip("hip.reverse_sequence", {"x": x, "lengths": op.input(1)}, [x.dtype], **attributes)[0]


@onnx_op("EyeLike", how="linalg.generic", limits="rank 2")
def convert_eye_like(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Ones on a diagonal."""
    x = op.input(0)
    op.require(x.rank == 2, f"rank {x.rank}")
    dtype = BY_ONNX[op.attr("dtype", x.dtype.onnx)]
    offset = dim(op.attr("k", 0))
    ones = emitter.expand(constant(np.ones((), dtype.numpy), dtype), x.shape)
    return emitter.band(emitter.band(ones, offset, keep_above=True), offset, keep_above=False)
