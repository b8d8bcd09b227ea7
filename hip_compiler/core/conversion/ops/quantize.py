"""Linear quantisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.extents import index
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS, clamp
from hip_compiler.core.conversion.ops.shape import normalize_axis
from hip_compiler.core.conversion.reductions import highest, lowest
from hip_compiler.core.conversion.scalars import Scalar
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.core.mlir import arith
from hip_compiler.dtypes import BY_NAME, BY_ONNX, DType
from hip_compiler.shapes import dim

FLOAT = BY_NAME["float"]
UINT8 = BY_NAME["uint8"]
INT32 = BY_NAME["int32"]
INTEGERS = frozenset({"int8", "uint8", "int16", "uint16", "int32", "int4", "uint4", "int2", "uint2"})


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
    level = (x.cast(FLOAT) / scale.cast(FLOAT)).apply("roundeven")
    if zero is not None:
        level = level + zero.cast(FLOAT)
    return clamp(level, float(lowest(dtype)), float(highest(dtype))).cast(dtype)


@onnx_op("QuantizeLinear", how="linalg.generic")
def convert_quantize(emitter: Emitter, op: OnnxOp) -> Tensor:
    """round(x / scale) + zero point, within the range of the element type."""
    op.ignore("saturate", "precision")
    x, scale, zero = op.input(0), op.input(1), op.optional(2)
    wanted = op.attr("output_dtype", 0)
    dtype = zero.dtype if zero is not None else BY_ONNX[wanted] if wanted else UINT8
    op.require(x.dtype.name in FLOATS | {"int32"} and dtype.name in INTEGERS, f"{x.dtype} to {dtype}")
    axis = _axis(op, x)
    block = op.attr("block_size", 0)
    operands = [x, *(spread(emitter, op, x, p, axis, block) for p in (scale, zero) if p is not None)]

    def body(v: Scalar, s: Scalar, z: Scalar | None = None) -> Scalar:
        return quantize(v, s, z, dtype)

    return emitter.elementwise(body, operands, dtype, x.shape)


@onnx_op("DequantizeLinear", how="linalg.generic")
def convert_dequantize(emitter: Emitter, op: OnnxOp) -> Tensor:
    """(x - zero point) * scale."""
    x, scale, zero = op.input(0), op.input(1), op.optional(2)
    wanted = op.attr("output_dtype", 0)
    dtype = BY_ONNX[wanted] if wanted else scale.dtype
    op.require(x.dtype.name in INTEGERS and dtype.name in FLOATS, f"{x.dtype} to {dtype}")
    axis, block = _axis(op, x), op.attr("block_size", 0)
    operands = [x, *(spread(emitter, op, x, p, axis, block) for p in (scale, zero) if p is not None)]

    def body(v: Scalar, s: Scalar, z: Scalar | None = None) -> Scalar:
        level = v.cast(INT32) if z is None else v.cast(INT32) - z.cast(INT32)
        return level.cast(FLOAT) * s.cast(FLOAT)

    return emitter.elementwise(body, operands, dtype, x.shape)


def _axis(op: OnnxOp, x: Tensor) -> int:
    axis = op.attr("axis", 1)
    return normalize_axis(op, axis, x.rank) if -x.rank <= axis < x.rank else 0


@onnx_op("DynamicQuantizeLinear", how="linalg.generic")
def convert_dynamic_quantize(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """Quantisation to uint8 with a scale and zero point from the input's range, zero included."""
    x = op.input(0)
    op.require(x.dtype.name == "float", f"element type {x.dtype} is not defined for it")
    axes = list(range(x.rank))
    low = emitter.elementwise(lambda v: v.minimum(0.0), [emitter.reduce(x, axes, "min")], FLOAT)
    high = emitter.elementwise(lambda v: v.maximum(0.0), [emitter.reduce(x, axes, "max")], FLOAT)
    scale = emitter.elementwise(lambda a, b: (b - a) / 255.0, [low, high], FLOAT)
    zero = emitter.elementwise(
        lambda a, s: clamp((-(a / s)), 0.0, 255.0).apply("roundeven").cast(UINT8), [low, scale], UINT8
    )
    y = emitter.elementwise(lambda v, s, z: quantize(v, s, z, UINT8), [x, scale, zero], UINT8)
    return [y, scale, zero]
