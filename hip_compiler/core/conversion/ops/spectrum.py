"""Discrete Fourier transform and determinant."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.extents import index
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS
from hip_compiler.core.conversion.ops.shape import normalize_axis
from hip_compiler.core.conversion.run_time_axes import names_axis
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.core.mlir import arith
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import Dim, dim

INT64 = BY_NAME["int64"]


@onnx_op("DFT", since=17, how="hip.dft")
def convert_dft(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Discrete Fourier transform along one axis."""
    x, length = op.input(0), op.optional(1)
    op.require(x.dtype.name in FLOATS, f"element type {x.dtype} is not defined for it")
    at = op.optional(2) if op.version >= 20 else None
    if at is not None and at.constant is None:
        return _along_data(emitter, op, x, at)
    if op.version < 20:
        axis = normalize_axis(op, op.attr("axis", 1), x.rank)
    else:
        axis = normalize_axis(op, -2 if at is None or at.constant is None else int(at.constant.reshape(())), x.rank)
    extent, parts = _lengths(emitter, op, x.shape[axis])
    kept = tuple(extent if i == axis else size for i, size in enumerate(x.shape[:-1]))
    length = None if length is None else emitter.cast(length, INT64)
    inputs = {"x": x, "length": length, "at": None}
    return emitter.hip("hip.dft", inputs, [x.dtype], [(*kept, parts)], axis=axis, **_direction(op))[0]


def _along_data(emitter: Emitter, op: OnnxOp, x: Tensor, at: Tensor) -> Tensor:
    """The transform along an axis that is data."""
    axis, length = emitter.run_time_extents(at)[0], op.optional(1)
    named = [names_axis(emitter, axis, i, x.rank) for i in range(x.rank - 1)]
    given = index(1)
    for flag, extent in zip(named, x.shape, strict=False):
        given = arith.select(flag, emitter.index_value(extent), given)
    extent, parts = _lengths(emitter, op, emitter.fresh_symbol(given))
    value = emitter.index_value(extent)
    kept = [
        emitter.fresh_symbol(arith.select(flag, value, emitter.index_value(size)))
        for flag, size in zip(named, x.shape, strict=False)
    ]
    inputs = {"x": x, "length": None if length is None else emitter.cast(length, INT64), "at": at}
    return emitter.hip("hip.dft", inputs, [x.dtype], [(*kept, parts)], axis=0, **_direction(op))[0]


def _direction(op: OnnxOp) -> dict[str, Any]:
    return {"inverse": bool(op.attr("inverse", 0)), "onesided": bool(op.attr("onesided", 0))}


def _lengths(emitter: Emitter, op: OnnxOp, given: Dim) -> tuple[Dim, Dim]:
    """Extents of the result along the axis, of extent `given`, and along the last one."""
    direction, length = _direction(op), op.optional(1)
    to_real = direction["inverse"] and direction["onesided"]
    count = (given - 1) * 2 if to_real else given
    if length is not None:
        count = emitter.run_time_extents(length)[0]
    half = direction["onesided"] and not direction["inverse"]
    return count // 2 + 1 if half else count, dim(1 if to_real else 2)


@onnx_op("Det", how="hip.det")
def convert_det(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Determinants of square matrices."""
    x = op.input(0)
    op.require(x.dtype.name in FLOATS, f"element type {x.dtype} is not defined for it")
    op.require(x.rank >= 2, f"rank {x.rank}")
    emitter.check_equal(x.shape[-1], x.shape[-2], "Det, rows and columns")
    return emitter.hip("hip.det", {"x": x}, [x.dtype])[0]
