"""Products and convolutions of com.microsoft with what is fused into them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.conv import convert_conv
from hip_compiler.core.conversion.ops.elementwise import FLOATS
from hip_compiler.core.conversion.ops.matmul import multiply
from hip_compiler.core.conversion.tensors import Tensor

MICROSOFT = "com.microsoft"

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


@onnx_op("FusedMatMul", domain=MICROSOFT, how="hip.matmul", dtypes=FLOATS, limits="no transBatchA, no transBatchB")
def convert_fused_matmul(emitter: Emitter, op: OnnxOp) -> Tensor:
    """alpha * A' * B', either operand transposed in its last two axes."""
    a, b = op.input(0), op.input(1)
    for name, source in (("transBatchA", a), ("transBatchB", b)):
        op.require(op.attr(name, 0) == 0, f"{name}: operands with the batch axes moved inwards")
        op.require(source.rank > 0, "a scalar operand")
    flags: dict[str, Any] = {
        name: bool(op.attr(given, 0)) and source.rank > 1
        for name, given, source in (("trans_a", "transA", a), ("trans_b", "transB", b))
    }
    return multiply(emitter, a, b, alpha=op.attr("alpha", 1.0), **flags)


@onnx_op(
    "FusedConv",
    domain=MICROSOFT,
    how="hip.conv",
    dtypes=FLOATS,
    limits="of the activations beside a residual sum only Relu; those of Conv",
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
    return _activate(emitter, op, result, name, parameters)


def _activate(emitter: Emitter, op: OnnxOp, x: Tensor, name: str, parameters: list[float]) -> Tensor:
    """An activation of FusedConv after its residual sum; Relu is the only one that graph optimisers put there."""
    op.require(name == "relu", f"activation {name} together with a residual sum")
    return emitter.elementwise(lambda v: v.maximum(0.0), [x], x.dtype)
