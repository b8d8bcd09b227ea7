"""Operators of com.microsoft that compute on quantised tensors: their numbers as floats, then quantised again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.conv import convert_pool
from hip_compiler.core.conversion.ops.elementwise import sigmoid
from hip_compiler.core.conversion.ops.integer import BYTES, FLOAT, MICROSOFT, only
from hip_compiler.core.conversion.ops.quantize import quantize
from hip_compiler.core.conversion.ops.reduce import convert_global_pool
from hip_compiler.core.conversion.ops.shape import normalize_axis
from hip_compiler.core.conversion.scalars import Scalar, where
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import DType

Parameters = tuple[Tensor, Tensor | None]
"""Scale and zero point."""


def _parameters(emitter: Emitter, op: OnnxOp, position: int) -> Parameters:
    """The scale at a position of the inputs, and the zero point after it; one number each."""
    scale, zero = op.input(position), op.optional(position + 1)
    op.require(scale.size == 1 and (zero is None or zero.size == 1), "parameters that are no scalars")
    return emitter.reshape(scale, ()), None if zero is None else emitter.reshape(zero, ())


def _number(x: Scalar, scale: Scalar, zero: Scalar | None) -> Scalar:
    return (x.cast(FLOAT) - zero.cast(FLOAT) if zero is not None else x.cast(FLOAT)) * scale.cast(FLOAT)


def _dequantized(emitter: Emitter, x: Tensor, parameters: Parameters) -> Tensor:
    operands = [x, *(p for p in parameters if p is not None)]
    return emitter.elementwise(lambda v, s, z=None: _number(v, s, z), operands, FLOAT, x.shape)


def _quantized(emitter: Emitter, x: Tensor, parameters: Parameters, dtype: DType) -> Tensor:
    operands = [x, *(p for p in parameters if p is not None)]
    return emitter.elementwise(lambda v, s, z=None: quantize(v, s, z, dtype), operands, dtype, x.shape)


def _apply(
    emitter: Emitter, op: OnnxOp, function: Callable[..., Scalar], positions: Sequence[int], result: int
) -> Tensor:
    """A scalar function of quantised operands (each followed by its parameters), in one loop."""
    sources = [(op.input(position), _parameters(emitter, op, position + 1)) for position in positions]
    out = _parameters(emitter, op, result)
    dtype = sources[0][0].dtype
    op.require(all(x.dtype.name in BYTES for x, _ in sources), f"element type {dtype} is not defined for it")
    groups = [(x, *parameters) for x, parameters in sources] + [out]
    flat = [tensor for group in groups for tensor in group if tensor is not None]

    def body(*arguments: Scalar) -> Scalar:
        rest = list(arguments)
        split = [[None if tensor is None else rest.pop(0) for tensor in group] for group in groups]
        numbers = [_number(x, scale, zero) for x, scale, zero in split[:-1]]  # type: ignore[arg-type]
        scale, zero = split[-1]
        assert scale is not None
        return quantize(function(*numbers), scale, zero, dtype)

    return emitter.elementwise(body, flat, dtype)


@onnx_op("QLinearAdd", domain=MICROSOFT, how="linalg.generic", dtypes=BYTES)
def convert_add(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Sum of quantised operands."""
    return _apply(emitter, op, lambda a, b: a + b, (0, 3), 6)


@onnx_op("QLinearMul", domain=MICROSOFT, how="linalg.generic", dtypes=BYTES)
def convert_mul(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Product of quantised operands."""
    return _apply(emitter, op, lambda a, b: a * b, (0, 3), 6)


@onnx_op("QLinearSigmoid", domain=MICROSOFT, how="linalg.generic", dtypes=BYTES)
def convert_sigmoid(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Logistic function of a quantised operand."""
    return _apply(emitter, op, sigmoid, (0,), 3)


@onnx_op("QLinearLeakyRelu", domain=MICROSOFT, how="linalg.generic", dtypes=BYTES)
def convert_leaky_relu(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Leaky rectifier of a quantised operand."""
    alpha = op.attr("alpha", 0.01)
    return _apply(emitter, op, lambda x: where(x < 0, x * alpha, x), (0,), 3)


@onnx_op(
    "QLinearAveragePool",
    "QLinearGlobalAveragePool",
    domain=MICROSOFT,
    how="hip.pool, linalg.generic",
    dtypes=BYTES,
    limits="one scale for the input and one for the output",
)
def convert_average(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Mean over windows, or over all spatial axes, of a quantised tensor; channels first or last."""
    x, last = op.input(0), bool(op.attr("channels_last", 0))
    numbers = _dequantized(emitter, x, _parameters(emitter, op, 1))
    if last:
        numbers = emitter.transpose(numbers, [0, x.rank - 1, *range(1, x.rank - 1)])
    plain = replace(op, op=op.op.removeprefix("QLinear"), domain="", version=11, inputs=[numbers])
    made = (convert_pool if plain.op == "AveragePool" else convert_global_pool)(emitter, plain)
    mean = only(made)
    if last:
        mean = emitter.transpose(mean, [0, *range(2, x.rank), 1])
    return _quantized(emitter, mean, _parameters(emitter, op, 3), x.dtype)


@onnx_op("QLinearConcat", domain=MICROSOFT, how="copies into one buffer", limits="element types of a byte")
def convert_concat(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Quantised tensors side by side, each brought to the output's scale."""
    out = _parameters(emitter, op, 0)
    op.require(len(op.inputs) % 3 == 2, f"{len(op.inputs)} inputs")
    parts = []
    for position in range(2, len(op.inputs), 3):
        x = op.input(position)
        op.require(x.dtype.name in BYTES, f"element type {x.dtype} is not defined for it")
        numbers = _dequantized(emitter, x, _parameters(emitter, op, position + 1))
        parts.append(_quantized(emitter, numbers, out, x.dtype))
    axis = normalize_axis(op, op.attr("axis"), parts[0].rank)
    shape = list(parts[0].shape)
    for part in parts[1:]:
        for other in range(len(shape)):
            if other != axis:
                emitter.check_equal(shape[other], part.shape[other], f"QLinearConcat, axis {other}")
        shape[axis] = shape[axis] + part.shape[axis]
    return parts[0] if len(parts) == 1 else emitter.concat(parts, axis, tuple(shape))
