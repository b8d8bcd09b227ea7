"""Activations of com.microsoft, with the bias that comes before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS, erf_gelu, tanh_gelu
from hip_compiler.core.conversion.scalars import Scalar
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.shapes import dim

MICROSOFT = "com.microsoft"

_GELUS: dict[str, Callable[[Scalar], Scalar]] = {"Gelu": erf_gelu, "BiasGelu": erf_gelu, "FastGelu": tanh_gelu}


@onnx_op("Gelu", "BiasGelu", "FastGelu", domain=MICROSOFT, how="linalg.generic", dtypes=FLOATS)
def convert_gelu(emitter: Emitter, op: OnnxOp) -> Tensor:
    """gelu(x + bias): exact for Gelu and BiasGelu, by tanh for FastGelu; the bias is optional but for BiasGelu."""
    x, bias, function = op.input(0), op.optional(1), _GELUS[op.op]
    op.require(bias is None or op.op != "Gelu", "a bias")
    if op.op == "BiasGelu":
        bias = op.input(1)
    if bias is None:
        return emitter.elementwise(function, [x], x.dtype)
    return emitter.elementwise(lambda v, b: function(v + b), [x, bias], x.dtype, x.shape)


@onnx_op("BiasSplitGelu", domain=MICROSOFT, how="linalg.generic", dtypes=FLOATS)
def convert_bias_split_gelu(emitter: Emitter, op: OnnxOp) -> Tensor:
    """With x + bias cut into halves along the last axis: left * gelu(right)."""
    x, bias = op.input(0), op.input(1)
    half = x.shape[-1] // 2
    (left, right), (left_bias, right_bias) = (_halves(emitter, source) for source in (x, bias))
    shape = (*x.shape[:-1], half)

    def body(a: Scalar, b: Scalar, c: Scalar, d: Scalar) -> Scalar:
        return (a + c) * erf_gelu(b + d)

    return emitter.elementwise(body, [left, right, left_bias, right_bias], x.dtype, shape)


def _halves(emitter: Emitter, source: Tensor) -> Sequence[Tensor]:
    half = source.shape[-1] // 2
    sizes = [*source.shape[:-1], half]
    zeros = [dim(0)] * (source.rank - 1)
    return [emitter.slice(source, [*zeros, start], sizes, [1] * source.rank) for start in (dim(0), half)]
