"""FusedLinear, which `onnx-fuse-linear` makes of the products of a decoder."""

from __future__ import annotations

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.rotary import HALVES
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.core.passes.fuse_linear import OPERANDS
from hip_compiler.shapes import dim, product


@onnx_op("FusedLinear", domain="hip", how="hip.linear", dtypes=HALVES)
def convert_fused_linear(emitter: Emitter, op: OnnxOp) -> Tensor:
    """A product with its norm, gate and residual sum; leading axes of x are merged."""
    inputs = {name: op.optional(number) for number, name in enumerate(OPERANDS)}
    attributes = {name: op.attr(name) for name in ("n", "k", "bits", "block", "epsilon", "activation")}
    x, residual = op.input(0), inputs["residual"]
    shape = (*x.shape[:-1], dim(attributes["n"]))
    emitter.check_equal(x.shape[-1], dim(attributes["k"]), "MatMul, inner extents")
    rows = product(x.shape[:-1])
    inputs["x"] = emitter.reshape(x, (rows, x.shape[-1]))
    rides = residual is not None and residual.shape == shape and residual.dtype is x.dtype
    for name in ("norm", "bias"):
        other = inputs[name]
        op.require(other is None or other.dtype is x.dtype, f"a {name} of another element type than the operand")
    inputs["residual"] = emitter.reshape(residual, (rows, shape[-1])) if residual is not None and rides else None
    result = emitter.reshape(emitter.hip("hip.linear", inputs, [x.dtype], **attributes)[0], shape)
    if residual is None or rides:
        return result
    return emitter.elementwise(lambda a, b: a + b, [result, residual], x.dtype)
