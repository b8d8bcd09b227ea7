"""Linear quantisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.extents import index
from hip_compiler.core.conversion.narrow_floats import FORMATS
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS, clamp
from hip_compiler.core.conversion.ops.shape import normalize_axis
from hip_compiler.core.conversion.reductions import highest, lowest
from hip_compiler.core.conversion.scalars import Scalar, rounded
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.core.mlir import arith
from hip_compiler.dtypes import BY_NAME, BY_ONNX, DType
from hip_compiler.shapes import dim

FLOAT = BY_NAME["float"]
UINT8 = BY_NAME["uint8"]
INT32 = BY_NAME["int32"]
INTEGERS = frozenset({"int8", "uint8", "int16", "uint16", "int32", "int4", "uint4", "int2", "uint2"})
QUANTIZED = INTEGERS | set(FORMATS)


def spread(emitter: Emitter, op: OnnxOp, x: Tensor, parameter: Tensor, axis: int, block: int) -> Tensor:
    """A scale or zero point in a shape that broadcasts against the tensor: per tensor, per axis or per block."""
    if block:
        op.require(parameter.rank == x.rank, "blocked parameters of another rank")

        def position(loops: Sequence[Any]) -> list[Any]:
            return [arith.divui(loop, index(block)) if i == axis else loop for i, loop in enumerate(loops)]

        return emitter.index_map(parameter, x.shape, position)
    if parameter.rank == 0 or parameter.shape == (dim(1),):
        return emitter.reshape(parameter, ())
    op.require(parameter.rank == 1, f"parameters of rank {parameter.rank}")
    emitter.check_equal(parameter.shape[0], x.shape[axis], "quantisation axis")
    return emitter.reshape(parameter, tuple(x.shape[i] if i == axis else dim(1) for i in range(x.rank)))


def quantize(x: Scalar, scale: Scalar, zero: Scalar | None, dtype: DType) -> Scalar:
    """round(x / scale) + zero, to the nearest even, within the range of the element type."""
    return level(x.cast(FLOAT) / scale.cast(FLOAT), zero, dtype)


def level(quotient: Scalar, zero: Scalar | None, dtype: DType) -> Scalar:
    """round(quotient) + zero, to the nearest even, within the range of an integer type."""
    number = quotient.apply("roundeven")
    if zero is not None:
        number = number + zero.cast(FLOAT)
    return clamp(number, float(lowest(dtype)), float(highest(dtype))).cast(dtype)


@onnx_op(
    "QuantizeLinear",
    how="linalg.generic",
    dtypes=FLOATS | {"int32"},
    limits="to integers of 2 to 32 bits and small floats",
)
def convert_quantize(emitter: Emitter, op: OnnxOp) -> Tensor:
    """round(x / scale) + zero point, within the range of the element type; to floats, x / scale is only rounded."""
    saturate = bool(op.attr("saturate", 1))
    x, scale, zero = op.input(0), op.input(1), op.optional(2)
    wanted = op.attr("output_dtype", 0)
    dtype = zero.dtype if zero is not None else BY_ONNX[wanted] if wanted else UINT8
    op.require(not wanted or BY_ONNX[wanted] is dtype, "output_dtype and the zero point's type differ")
    precision = BY_ONNX[op.attr("precision", 0) or (scale.dtype.onnx if scale.dtype.name in FLOATS else FLOAT.onnx)]
    op.require(x.dtype.name in FLOATS | {"int32"} and dtype.name in QUANTIZED, f"{x.dtype} to {dtype}")
    op.require(precision.name in FLOATS - {"double"}, f"a precision of {precision}")
    axis = _axis(op, x)
    block = op.attr("block_size", 0)
    operands = [x, *(spread(emitter, op, x, p, axis, block) for p in (scale, zero) if p is not None)]

    def body(v: Scalar, s: Scalar, z: Scalar | None = None) -> Scalar:
        quotient = rounded(rounded(v, precision) / rounded(s, precision), precision)
        if dtype.kind != "float":
            return level(quotient, z, dtype)
        # The zero point of a float type is 0 by definition; ONNX adds that of 4 bits all the same.
        if z is not None and dtype.name == "float4e2m1":
            quotient = quotient + z.cast(FLOAT)
        return quotient.cast(dtype, saturate=saturate)

    return emitter.elementwise(body, operands, dtype, x.shape)


@onnx_op("DequantizeLinear", how="linalg.generic", dtypes=QUANTIZED, limits="to floats")
def convert_dequantize(emitter: Emitter, op: OnnxOp) -> Tensor:
    """(x - zero point) * scale."""
    x, scale, zero = op.input(0), op.input(1), op.optional(2)
    wanted = op.attr("output_dtype", 0)
    dtype = BY_ONNX[wanted] if wanted else scale.dtype if scale.dtype.name in FLOATS else FLOAT
    op.require(x.dtype.name in QUANTIZED and dtype.name in FLOATS, f"{x.dtype} to {dtype}")
    axis, block = _axis(op, x), op.attr("block_size", 0)
    operands = [x, *(spread(emitter, op, x, p, axis, block) for p in (scale, zero) if p is not None)]
    exact = FLOAT if x.dtype.kind == "float" else INT32

    def body(v: Scalar, s: Scalar, z: Scalar | None = None) -> Scalar:
        number = v.cast(exact) if z is None else v.cast(exact) - z.cast(exact)
        return number.cast(FLOAT) * s.cast(FLOAT)

    return emitter.elementwise(body, operands, dtype, x.shape)


def _axis(op: OnnxOp, x: Tensor) -> int:
    axis = op.attr("axis", 1)
    return normalize_axis(op, axis, x.rank) if -x.rank <= axis < x.rank else 0


@onnx_op("DynamicQuantizeLinear", how="linalg.generic", dtypes=frozenset({"float"}))
def convert_dynamic_quantize(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """Quantisation to uint8 with a scale and zero point from the input's range, zero included."""
    x = op.input(0)
    op.require(x.dtype.name == "float", f"element type {x.dtype} is not defined for it")
    scale, zero = dynamic_parameters(emitter, x)
    y = emitter.elementwise(lambda v, s, z: quantize(v, s, z, UINT8), [x, scale, zero], UINT8)
    return [y, scale, zero]


def dynamic_parameters(emitter: Emitter, x: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and uint8 zero point of a float tensor, from its range with zero in it."""
    axes = list(range(x.rank))
    low = emitter.elementwise(lambda v: v.minimum(0.0), [emitter.reduce(x, axes, "min")], FLOAT)
    high = emitter.elementwise(lambda v: v.maximum(0.0), [emitter.reduce(x, axes, "max")], FLOAT)
    scale = emitter.elementwise(lambda a, b: (b - a) / 255.0, [low, high], FLOAT)
    zero = emitter.elementwise(
        lambda a, s: clamp((-(a / s)), 0.0, 255.0).apply("roundeven").cast(UINT8), [low, scale], UINT8
    )
    return scale, zero
