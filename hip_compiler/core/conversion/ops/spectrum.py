"""Discrete Fourier transform and determinant."""

from __future__ import annotations

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS
from hip_compiler.core.conversion.ops.shape import normalize_axis
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim

INT64 = BY_NAME["int64"]


@onnx_op("DFT", since=17, how="hip.dft")
def convert_dft(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Discrete Fourier transform along one axis."""
    x, length = op.input(0), op.optional(1)
    op.require(x.dtype.name in FLOATS, f"element type {x.dtype} is not defined for it")
    if op.version < 20:
        axis = normalize_axis(op, op.attr("axis", 1), x.rank)
    else:
        given = op.constant(2)
        axis = normalize_axis(op, -2 if given is None else int(given.reshape(())), x.rank)
    inverse, onesided = bool(op.attr("inverse", 0)), bool(op.attr("onesided", 0))
    to_real = inverse and onesided
    if length is not None:
        count = emitter.run_time_extents(length)[0]
        length = emitter.cast(length, INT64)
    else:
        count = (x.shape[axis] - 1) * 2 if to_real else x.shape[axis]
    extent = count // 2 + 1 if onesided and not inverse else count
    kept = tuple(extent if i == axis else size for i, size in enumerate(x.shape[:-1]))
    shape = (*kept, dim(1 if to_real else 2))
    attributes = {"axis": axis, "inverse": inverse, "onesided": onesided}
    return emitter.hip("hip.dft", {"x": x, "length": length}, [x.dtype], [shape], **attributes)[0]


@onnx_op("Det", how="hip.det")
def convert_det(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Determinants of square matrices."""
    x = op.input(0)
    op.require(x.dtype.name in FLOATS, f"element type {x.dtype} is not defined for it")
    op.require(x.rank >= 2, f"rank {x.rank}")
    emitter.check_equal(x.shape[-1], x.shape[-2], "Det, rows and columns")
    return emitter.hip("hip.det", {"x": x}, [x.dtype])[0]
