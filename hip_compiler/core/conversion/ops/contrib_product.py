"""Products and convolutions of com.microsoft with what is fused into them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.conv import convert_conv
from hip_compiler.core.conversion.ops.elementwise import FLOATS, SMALL, clamp, hard_sigmoid, select, sigmoid, tanh_gelu
from hip_compiler.core.conversion.ops.matmul import multiply
from hip_compiler.core.conversion.scalars import Scalar
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME, BY_ONNX, DType

MICROSOFT = "com.microsoft"
FLOAT = BY_NAME["float"]

_ACTIVATIONS = {
    "": ("none", ()),
    "Relu": ("relu", ()),
    "Tanh": ("tanh", ()),
    "Sigmoid": ("sigmoid", ()),
    "LeakyRelu": ("leaky_relu", (0.01,)),
    "Clip": ("clip", (float("-inf"), float("inf"))),
    "HardSigmoid": ("hard_sigmoid", (0.2, 0.5)),
}
"""Name at `hip.conv` and default parameters of the activations that FusedConv names."""
_AFTER_RESIDUAL: dict[str, Callable[[Scalar, list[float]], Scalar]] = {
    "relu": lambda x, _: x.maximum(0.0),
    "tanh": lambda x, _: x.apply("tanh"),
    "sigmoid": lambda x, _: sigmoid(x),
    "leaky_relu": lambda x, p: select(x < 0, x * p[0], x, x),
    "clip": lambda x, p: clamp(x, p[0], p[1]),
    "hard_sigmoid": lambda x, p: hard_sigmoid(x, p[0], p[1]),
}
"""The same as scalar functions of their parameters."""


@onnx_op("FusedMatMul", domain=MICROSOFT, how="hip.matmul", dtypes=FLOATS)
def convert_fused_matmul(emitter: Emitter, op: OnnxOp) -> Tensor:
    """alpha * A' * B', either operand transposed in its last two axes, or with its first axis behind the batch."""
    a, b = (_batch_first(emitter, op, op.input(i), f"transBatch{'AB'[i]}") for i in range(2))
    flags: dict[str, Any] = {
        name: bool(op.attr(given, 0)) and source.rank > 1
        for name, given, source in (("trans_a", "transA", a), ("trans_b", "transB", b))
    }
    return multiply(emitter, a, b, alpha=op.attr("alpha", 1.0), **flags)


GEMM_FLOATS = frozenset({"float8e4m3fn", "float8e5m2", "float16", "bfloat16", "float"})
_EPILOGUES: dict[str, Callable[[Scalar], Scalar]] = {
    "": lambda x: x, "NONE": lambda x: x, "RELU": lambda x: x.maximum(0.0), "GELU": tanh_gelu,
}  # fmt: skip
"""Activations of GemmFloat8; cuBLASLt, which defines the operator, has gelu by tanh alone."""


def _batch_first(emitter: Emitter, op: OnnxOp, x: Tensor, attribute: str) -> Tensor:
    """An operand [rows, batch..., columns] as [batch..., rows, columns], where the attribute says so."""
    op.require(x.rank > 0, "a scalar operand")
    if not op.attr(attribute, 0) or x.rank < 3:
        return x
    return emitter.transpose(x, [*range(1, x.rank - 1), 0, x.rank - 1])


@onnx_op(
    "GemmFloat8",
    domain=MICROSOFT,
    how="hip.matmul",
    dtypes=GEMM_FLOATS,
    limits="rank 2; scales of floats of 8 bits only",
)
def convert_gemm_float8(emitter: Emitter, op: OnnxOp) -> Tensor:
    """activation(alpha * scaleA * scaleB * A' * B' + beta * C) * scaleY, summed and scaled in f32.

    ONNX Runtime has it on CUDA alone, where it is cuBLASLt's product: the scales belong to floats of 8 bits.
    """
    a, b, c, dtype = op.input(0), op.input(1), op.optional(2), BY_ONNX[op.attr("dtype", FLOAT.onnx)]
    beta, activation = op.attr("beta", 0.0), op.attr("activation", "")
    op.require(b.dtype.name in GEMM_FLOATS and dtype.name in GEMM_FLOATS, f"{b.dtype} to {dtype}")
    op.require(a.rank == 2 and b.rank == 2, f"operands of ranks {a.rank} and {b.rank}")
    op.require(activation in _EPILOGUES, f"activation {activation}")
    scale_a, scale_b, scale_y = (_scale(emitter, op, 3 + i, kind) for i, kind in enumerate((a.dtype, b.dtype, dtype)))
    flags: dict[str, Any] = {"trans_a": bool(op.attr("transA", 0)), "trans_b": bool(op.attr("transB", 0))}
    flags["alpha"] = op.attr("alpha", 1.0)
    total = multiply(emitter, emitter.cast(a, FLOAT), emitter.cast(b, FLOAT), **flags)
    present = [source for source in (scale_a, scale_b, c if beta else None, scale_y) if source is not None]

    def body(number: Scalar, *rest: Scalar) -> Scalar:
        parts = iter(rest)
        for scale in (scale_a, scale_b):
            number = number if scale is None else number * next(parts)
        if c is not None and beta:
            number = number + next(parts).cast(FLOAT) * beta
        number = _EPILOGUES[activation](number)
        return number if scale_y is None else number * next(parts)

    return emitter.elementwise(body, [total, *present], dtype, total.shape)


def _scale(emitter: Emitter, op: OnnxOp, index: int, dtype: DType) -> Tensor | None:
    """The scale of a tensor of an element type, as a scalar; None where there is none, or it is one."""
    scale = op.optional(index)
    if scale is None or (scale.constant is not None and bool((scale.constant == 1).all())):
        return None
    op.require(dtype.name in SMALL, f"a scale of {dtype}")
    op.require(scale.dtype is FLOAT and scale.size == 1, "a scale that is no scalar of float")
    return emitter.reshape(scale, ())


@onnx_op(
    "FusedConv",
    domain=MICROSOFT,
    how="hip.conv",
    dtypes=FLOATS,
    limits="those of Conv",
)
def convert_fused_conv(emitter: Emitter, op: OnnxOp) -> Tensor:
    """activation(conv(x, w) + bias + z)."""
    activation, given = op.attr("activation", ""), list(op.attr("activation_params", ()))
    op.require(activation in _ACTIVATIONS, f"activation {activation}")
    name, defaults = _ACTIVATIONS[activation]
    op.require(len(given) in (0, len(defaults)), f"{len(given)} parameters of {activation}")
    parameters = [*(given or defaults), 0.0, 0.0]
    z = op.optional(3)
    attributes: dict[str, Any] = {
        key: value for key, value in op.attributes.items() if key not in ("activation", "activation_params")
    }
    attributes |= {"activation": "none", "activation_alpha": 0.0, "activation_beta": 0.0}
    if z is None:
        attributes |= {"activation": name, "activation_alpha": parameters[0], "activation_beta": parameters[1]}
    plain = replace(op, domain="hip", attributes=attributes, read=set())
    result = convert_conv(emitter, plain)
    assert isinstance(result, Tensor)
    op.ignore(*(plain.read & set(op.attributes)))
    if z is None or name == "none":
        return result
    # The residual of hip.conv is added after its activation; this one comes before.
    function = _AFTER_RESIDUAL[name]
    return emitter.elementwise(lambda v: function(v, parameters), [result], result.dtype)
