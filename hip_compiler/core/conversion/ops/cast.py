"""Conversions between element types, of values and of bits."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.narrow_floats import EXPONENT_ONLY, ROUND_MODES
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.scalars import reinterpret
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.core.mlir import ir
from hip_compiler.dtypes import BY_ONNX, DType


@onnx_op("Cast", how="linalg.generic", broadcasts=True, limits="no strings, no complex numbers")
def convert_cast(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Conversion between element types of numbers; floats of 8 bits saturate unless told otherwise."""
    to = op.attr("to")
    op.require(to in BY_ONNX, f"element type number {to}")
    return _cast(emitter, op, BY_ONNX[to])


@onnx_op("CastLike", how="linalg.generic", broadcasts=True, limits="no strings, no complex numbers")
def convert_cast_like(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Conversion to the element type of the second input."""
    return _cast(emitter, op, op.input(1).dtype)


def _cast(emitter: Emitter, op: OnnxOp, to: DType) -> Tensor:
    x, saturate, mode = op.input(0), bool(op.attr("saturate", 1)), op.attr("round_mode", "up")
    for dtype in (x.dtype, to):
        op.require(dtype.kind not in ("string", "complex"), f"Cast from {x.dtype} to {to}")
    op.require(mode in ROUND_MODES or to.name != EXPONENT_ONLY, f"round_mode {mode}")
    if x.dtype is to:
        return x
    return emitter.elementwise(lambda v: v.cast(to, saturate=saturate, round_mode=mode), [x], to)


@onnx_op("BitCast", how="linalg.generic")
def convert_bit_cast(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The same bits under another element type of the same width."""
    x, to = op.input(0), BY_ONNX[op.attr("to")]
    op.require(all(dtype.kind not in ("string", "complex") for dtype in (x.dtype, to)), f"{x.dtype} to {to}")
    op.require(_width(x.dtype) == _width(to), f"{x.dtype} and {to} differ in width")
    if x.dtype is to:
        return x
    identity, outs = ir.AffineMap.get_identity(x.rank), [emitter.empty(x.shape, to)]

    def body(element: Any, _: Any) -> list[Any]:
        return [reinterpret(element, to)]

    [result] = emitter.generic([emitter.value(x)], outs, [identity, identity], "p" * x.rank, body)
    return Tensor(x.shape, to, result)


def _width(dtype: DType) -> int:
    """Bits of an element as ONNX counts them."""
    narrow = {"int4": 4, "uint4": 4, "float4e2m1": 4, "int2": 2, "uint2": 2}
    return narrow.get(dtype.name, dtype.size * 8)
