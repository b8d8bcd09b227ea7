"""Products and convolutions of 8-bit integers, with exact sums in 32 bits.

Sums that stay below 2**24 are exact in `f32`, whose kernels are the fast ones; whether they do is known where the right
operand is. The others are summed as integers (products) or in `f64` (convolutions).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.conv import convert_conv
from hip_compiler.core.conversion.ops.elementwise import FLOATS, SMALL
from hip_compiler.core.conversion.ops.matmul import multiply
from hip_compiler.core.conversion.ops.quantize import UINT8, dynamic_parameters, level, quantize
from hip_compiler.core.conversion.scalars import Scalar
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.dtypes import BY_NAME, DType
from hip_compiler.shapes import dim

FLOAT = BY_NAME["float"]
DOUBLE = BY_NAME["double"]
INT32 = BY_NAME["int32"]
BYTES = frozenset({"int8", "uint8"})
MICROSOFT = "com.microsoft"
_LARGEST = 255
"""Of an 8-bit number less another of its type."""
_EXACT = 1 << 24
"""Integers up to here are exact in `f32`."""


def product(
    emitter: Emitter, op: OnnxOp, a: Tensor, b: Tensor, zero_a: Tensor | None, zero_b: Tensor | None, **flags: Any
) -> Tensor:
    """The product of operands less their zero points, scalars or per row of a and column of b.

    Of integers of 8 bits it is int32. QLinearMatMul has floats of 8 bits, too; with one on either side it is float.
    """
    for operand in (a, b):
        op.require(operand.dtype.name in _quantized(op), f"element type {operand.dtype} is not defined for it")
    if zero_a is not None and zero_a.rank == 1 and a.rank > 1 and not flags.get("trans_a"):
        zero_a = zero_a if zero_a.shape == (dim(1),) else emitter.reshape(zero_a, (*zero_a.shape, dim(1)))
    if not {a.dtype.name, b.dtype.name} <= BYTES:
        return multiply(emitter, centred(emitter, a, zero_a, FLOAT), centred(emitter, b, zero_b, FLOAT), **flags)
    inner = a.shape[-2 if flags.get("trans_a") else -1].value
    bound = None if inner is None else inner * _LARGEST
    weights = _centred_constant(b, zero_b)
    if weights is not None and b.rank >= 2:
        bound = int(np.abs(weights).sum(axis=-1 if flags.get("trans_b") else -2).max(initial=0))
    dtype = FLOAT if bound is not None and bound * _LARGEST < _EXACT else INT32
    left = centred(emitter, a, zero_a, dtype)
    right = centred(emitter, b, zero_b, dtype)
    return emitter.cast(multiply(emitter, left, right, **flags), INT32)


def _quantized(op: OnnxOp) -> frozenset[str]:
    """Element types of what an operator has scales for."""
    return BYTES | SMALL if op.op == "QLinearMatMul" else BYTES


def centred(emitter: Emitter, x: Tensor, zero: Tensor | None, dtype: DType) -> Tensor:
    """A tensor less its zero point, in a type that holds the difference; a constant stays one."""
    known = _centred_constant(x, zero)
    if known is not None:
        return constant(known.astype(dtype.numpy), dtype)
    if zero is None:
        return emitter.cast(x, dtype)
    exact = FLOAT if x.dtype.kind == "float" else INT32
    return emitter.elementwise(lambda v, z: (v.cast(exact) - z.cast(exact)).cast(dtype), [x, zero], dtype, x.shape)


def _centred_constant(x: Tensor, zero: Tensor | None) -> np.ndarray | None:
    if x.constant is None or x.dtype.kind == "float" or (zero is not None and zero.constant is None):
        return None
    numbers = x.constant.astype(np.int32)
    return numbers if zero is None or zero.constant is None else numbers - zero.constant.astype(np.int32)


def requantize(
    emitter: Emitter,
    op: OnnxOp,
    total: Tensor,
    scales: Sequence[Tensor],
    out: Tensor,
    zero: Tensor | None,
    dtype: DType,
) -> Tensor:
    """round(total * product of scales / output scale) + zero point, within the range of the element type."""
    op.require(dtype.name in _quantized(op), f"element type {dtype} is not defined for it")
    op.require(all(scale.dtype.name in FLOATS for scale in (*scales, out)), f"scales of type {out.dtype}")
    op.require(out.size == 1 and (zero is None or zero.size == 1), "an output scale that is no scalar")
    operands = [total, *scales, emitter.reshape(out, ())]
    if zero is not None:
        operands.append(emitter.reshape(zero, ()))

    def body(number: Scalar, *rest: Scalar) -> Scalar:
        factor = rest[0].cast(FLOAT)
        for scale in rest[1 : len(scales)]:
            factor = factor * scale.cast(FLOAT)
        factor = factor / rest[len(scales)].cast(FLOAT)
        quotient, shift = number.cast(FLOAT) * factor, None if zero is None else rest[-1]
        if dtype.kind != "float":
            return level(quotient, shift, dtype)
        return (quotient if shift is None else quotient + shift.cast(FLOAT)).cast(dtype)

    return emitter.elementwise(body, operands, dtype, total.shape)


def _row_scale(emitter: Emitter, scale: Tensor) -> Tensor:
    """A scale per row in a shape that broadcasts over the product."""
    if scale.rank != 1 or scale.shape == (dim(1),):
        return scale
    return emitter.reshape(scale, (*scale.shape, dim(1)))


@onnx_op("MatMulInteger", how="hip.matmul", dtypes=BYTES)
def convert_matmul_integer(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Integer product of 8-bit operands, zero points taken off first."""
    return product(emitter, op, op.input(0), op.input(1), op.optional(2), op.optional(3))


@onnx_op("QLinearMatMul", how="hip.matmul", dtypes=BYTES | SMALL, limits="one output scale")
def convert_qlinear_matmul(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Product of 8-bit operands, integers or floats, brought to the output's scale."""
    a, b, out, zero = op.input(0), op.input(3), op.input(6), op.input(7)
    total = product(emitter, op, a, b, op.input(2), op.input(5))
    scales = [_row_scale(emitter, op.input(1)), op.input(4)]
    return requantize(emitter, op, total, scales, out, zero, zero.dtype)


@onnx_op("MatMulIntegerToFloat", domain=MICROSOFT, how="hip.matmul", dtypes=BYTES)
def convert_matmul_integer_to_float(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Integer product of 8-bit operands, times their scales, plus a bias row."""
    total = product(emitter, op, op.input(0), op.input(1), op.optional(4), op.optional(5))
    return _scaled(emitter, total, [_row_scale(emitter, op.input(2)), op.input(3)], op.optional(6))


@onnx_op("DynamicQuantizeMatMul", domain=MICROSOFT, how="hip.matmul", dtypes=frozenset({"float"}))
def convert_dynamic_quantize_matmul(emitter: Emitter, op: OnnxOp) -> Tensor:
    """A float operand quantised by its own range, then as MatMulIntegerToFloat."""
    x, b = op.input(0), op.input(1)
    op.require(x.dtype is FLOAT, f"element type {x.dtype} is not defined for it")
    scale, zero = dynamic_parameters(emitter, x)
    a = emitter.elementwise(lambda v, s, z: quantize(v, s, z, UINT8), [x, scale, zero], UINT8)
    total = product(emitter, op, a, b, zero, op.optional(3))
    return _scaled(emitter, total, [scale, op.input(2)], op.optional(4))


def _scaled(emitter: Emitter, total: Tensor, scales: Sequence[Tensor], bias: Tensor | None) -> Tensor:
    dtype = scales[-1].dtype

    def body(number: Scalar, a: Scalar, b: Scalar, c: Scalar | None = None) -> Scalar:
        result = number.cast(FLOAT) * (a.cast(FLOAT) * b.cast(FLOAT))
        return result if c is None else result + c.cast(FLOAT)

    operands = [total, *scales, *([] if bias is None else [bias])]
    return emitter.elementwise(body, operands, dtype, total.shape)


@onnx_op("QGemm", domain=MICROSOFT, how="hip.matmul", dtypes=BYTES, limits="rank 2")
def convert_qgemm(emitter: Emitter, op: OnnxOp) -> Tensor:
    """alpha * A' * B' + C of 8-bit matrices, the sum in int32; float without an output scale."""
    a, b, bias, out = op.input(0), op.input(3), op.optional(6), op.optional(7)
    op.require(a.rank == 2 and b.rank == 2, f"operands of ranks {a.rank} and {b.rank}")
    flags = {"trans_a": bool(op.attr("transA", 0)), "trans_b": bool(op.attr("transB", 0))}
    alpha = constant(np.array(op.attr("alpha", 1.0), np.float32), FLOAT)
    zero_b, scale_b = op.input(5), op.input(4)
    if flags["trans_b"] and zero_b.size != 1:
        zero_b = emitter.reshape(zero_b, (*zero_b.shape, dim(1)))
    total = product(emitter, op, a, b, op.input(2), zero_b, **flags)
    if bias is not None:
        total = emitter.elementwise(lambda v, c: v + c, [total, bias], INT32, total.shape)
    if out is None:
        return _scaled(emitter, total, [op.input(1), _times(emitter, scale_b, alpha)], None)
    zero = op.optional(8)
    return requantize(
        emitter, op, total, [op.input(1), scale_b, alpha], out, zero, a.dtype if zero is None else zero.dtype
    )


def _times(emitter: Emitter, a: Tensor, b: Tensor) -> Tensor:
    return emitter.elementwise(lambda x, y: x * y, [a, b], FLOAT)


@onnx_op("ConvInteger", how="hip.conv", dtypes=BYTES, limits="one zero point for the input; those of Conv")
def convert_conv_integer(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Integer convolution of 8-bit operands, zero points taken off first."""
    return convolution(emitter, op, op.input(0), op.input(1), op.optional(2), op.optional(3))


@onnx_op(
    "QLinearConv",
    how="hip.conv",
    dtypes=BYTES,
    limits="one zero point for the input and one for the output; those of Conv",
)
def convert_qlinear_conv(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Integer convolution of 8-bit operands, plus bias, brought to the output's scale."""
    x, w, zero, bias = op.input(0), op.input(3), op.input(7), op.optional(8)
    total = convolution(emitter, op, x, w, op.input(2), op.input(5))
    if bias is not None:
        row = _per_channel(emitter, bias, x.rank - 2)
        total = emitter.elementwise(lambda v, c: v + c, [total, row], INT32, total.shape)
    scales = [op.input(1), _per_channel(emitter, op.input(4), x.rank - 2)]
    return requantize(emitter, op, total, scales, op.input(6), zero, zero.dtype)


def convolution(
    emitter: Emitter, op: OnnxOp, x: Tensor, w: Tensor, zero_x: Tensor | None, zero_w: Tensor | None
) -> Tensor:
    """The int32 convolution of 8-bit operands less their zero points: one for x, one or one per filter for w."""
    for operand in (x, w):
        op.require(operand.dtype.name in BYTES, f"element type {operand.dtype} is not defined for it")
    op.require(zero_x is None or zero_x.size == 1, "a zero point of x that is no scalar")
    zero_x = None if zero_x is None else emitter.reshape(zero_x, ())
    zero_w = None if zero_w is None else _per_channel(emitter, zero_w, w.rank - 1)
    weights, extents = _centred_constant(w, zero_w), w.static_shape
    bound = None if extents is None else int(np.prod(extents[1:])) * _LARGEST
    if weights is not None:
        bound = int(np.abs(weights).reshape(len(weights), -1).sum(axis=1).max(initial=0))
    dtype = FLOAT if bound is not None and bound * _LARGEST < _EXACT else DOUBLE
    inputs = [centred(emitter, x, zero_x, dtype), centred(emitter, w, zero_w, dtype)]
    made = convert_conv(emitter, replace(op, op="Conv", inputs=inputs))
    return emitter.cast(only(made), INT32)


def only(made: Tensor | Sequence[Tensor | None] | None) -> Tensor:
    """The result of a converter of operators that have one."""
    result = made if made is None or isinstance(made, Tensor) else made[0]
    assert result is not None
    return result


def _per_channel(emitter: Emitter, parameter: Tensor, trailing: int) -> Tensor:
    """One number, or one per channel, in a shape that broadcasts over what has `trailing` axes after the channels."""
    if parameter.size == 1:
        return emitter.reshape(parameter, ())
    return emitter.reshape(parameter, (*parameter.shape, *[dim(1)] * trailing))
