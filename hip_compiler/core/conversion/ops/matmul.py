"""Matrix products."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS, NUMBERS
from hip_compiler.core.conversion.scalars import Scalar
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim, product


@onnx_op("MatMul", how="hip.matmul", dtypes=NUMBERS, limits="rank 1 or more")
def convert_matmul(emitter: Emitter, op: OnnxOp) -> Tensor:
    """NumPy matmul; vectors take an extent of 1 for the time of the product."""
    a, b = op.input(0), op.input(1)
    op.require(a.rank > 0 and b.rank > 0, "a scalar operand")
    return multiply(emitter, a, b)


def multiply(
    emitter: Emitter,
    a: Tensor,
    b: Tensor,
    *,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    **attributes: Any,
) -> Tensor:
    """`hip.matmul` of operands of any rank from 1.

    A matrix on the right multiplies all rows of the left at once: leading axes of the left are merged, so that
    the product has as many rows as there are.
    """
    rows = a if a.rank > 1 else emitter.reshape(a, (dim(1), *a.shape))
    columns = b if b.rank > 1 else emitter.reshape(b, (*b.shape, dim(1)))
    lead = rows.shape[:-1]
    merged = columns.rank == 2 and rows.rank > 2 and not attributes.get("trans_a")
    if merged:
        rows = emitter.reshape(rows, (product(lead), rows.shape[-1]))
    emitter.check_equal(
        rows.shape[-2 if attributes.get("trans_a") else -1],
        columns.shape[-1 if attributes.get("trans_b") else -2],
        "MatMul, inner extents",
    )
    inputs: dict[str, Tensor | None] = {"a": rows, "b": columns, "bias": bias, "residual": None}
    if residual is not None:
        merged_rows = (*rows.shape[:-1], residual.shape[-1])
        inputs["residual"] = emitter.reshape(residual, merged_rows) if merged or a.rank == 1 else residual
    [result] = emitter.hip("hip.matmul", inputs, [a.dtype], **attributes)
    if merged:
        result = emitter.reshape(result, (*lead, result.shape[-1]))
    shape = result.shape
    if b.rank == 1:
        shape = shape[:-1]
    if a.rank == 1:
        shape = shape[: len(shape) - (1 if b.rank == 1 else 2)] + (shape[-1:] if b.rank > 1 else ())
    return emitter.reshape(result, shape)


@onnx_op("Linear", domain="hip", how="hip.matmul", dtypes=FLOATS)
def convert_linear(emitter: Emitter, op: OnnxOp) -> Tensor:
    """A product with bias row, activation and residual sum, as onnx-fuse-epilogues makes it."""
    a, b, bias, residual = op.input(0), op.input(1), op.optional(2), op.optional(3)
    shape = (*a.shape[:-1], b.shape[-1])
    epilogue: dict[str, Any] = {name: op.attr(name) for name in ("activation", "activation_alpha", "activation_beta")}
    rides = residual is not None and residual.shape == shape
    result = multiply(emitter, a, b, bias=bias, residual=residual if rides else None, **epilogue)
    if residual is None or rides:
        return result
    return emitter.elementwise(lambda x, y: x + y, [result, residual], a.dtype)


@onnx_op("Gemm", how="hip.matmul", dtypes=NUMBERS, limits="rank 2")
def convert_gemm(emitter: Emitter, op: OnnxOp) -> Tensor:
    """alpha * A' * B' + beta * C; a row vector C rides along as the product's bias."""
    a, b, c = op.input(0), op.input(1), op.optional(2)
    op.require(a.dtype.name in NUMBERS and a.rank == 2 and b.rank == 2, f"element type {a.dtype}, rank {a.rank}")
    alpha, beta = op.attr("alpha", 1.0), op.attr("beta", 1.0)
    flags: dict[str, Any] = {
        "trans_a": bool(op.attr("transA", 0)),
        "trans_b": bool(op.attr("transB", 0)),
    }
    if a.dtype.kind != "float" and not (alpha == beta == 1):
        return _scaled_integers(emitter, multiply(emitter, a, b, **flags), c, alpha, beta)
    flags["alpha"] = alpha
    if c is None:
        return multiply(emitter, a, b, **flags)
    columns = b.shape[0 if flags["trans_b"] else 1]
    emitter.check_equal(a.shape[0 if flags["trans_a"] else 1], b.shape[1 if flags["trans_b"] else 0], "Gemm")
    if c.shape in ((columns,), (dim(1), columns)) and beta == 1.0:
        bias = emitter.reshape(c, (columns,))
        return emitter.hip("hip.matmul", {"a": a, "b": b, "bias": bias}, [a.dtype], **flags)[0]
    scaled = multiply(emitter, a, b, **flags)
    return emitter.elementwise(lambda x, y: x + y * beta, [scaled, c], a.dtype, scaled.shape)


def _scaled_integers(emitter: Emitter, product: Tensor, c: Tensor | None, alpha: float, beta: float) -> Tensor:
    """alpha * product + beta * c of integers: in their own arithmetic where the factors are whole, else in double."""
    wide = product.dtype if alpha.is_integer() and beta.is_integer() else BY_NAME["double"]

    def body(v: Scalar, addend: Scalar | None = None) -> Scalar:
        scaled = v.cast(wide) * alpha
        return scaled if addend is None else scaled + addend.cast(wide) * beta

    return emitter.elementwise(body, [product, *([] if c is None else [c])], product.dtype, product.shape)
