"""MatMulNBits: products with weights of 2, 4 or 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.matmul import multiply
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.core.passes.pack_quantized import unpack_fields
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim

FLOATS = frozenset({"float", "float16", "bfloat16"})
UINT8 = BY_NAME["uint8"]


@onnx_op(
    "MatMulNBits",
    domain="com.microsoft",
    how="hip.matmul_nbits",
    dtypes=FLOATS,
    limits="weights packed in uint8, not prepacked",
)
def convert_matmul_nbits(emitter: Emitter, op: OnnxOp) -> Tensor:
    """a x dequantised weights + bias; a row of weights takes ceil(K / block) whole blocks, whatever K is."""
    a, weights, scales = op.input(0), op.input(1), op.input(2)
    zeros, groups, bias = op.optional(3), op.optional(4), op.optional(5)
    n, k, bits, block = op.attr("N"), op.attr("K"), op.attr("bits", 4), op.attr("block_size", 128)
    level = op.attr("accuracy_level", 0)
    op.require(0 <= level <= 4, f"accuracy_level = {level}")
    op.require(op.attr("weight_prepacked", 0) == 0, "weights in a device's own layout")
    op.require(weights.dtype is UINT8, f"weights of element type {weights.dtype}")
    blocks = -(-k // block)
    op.require(weights.size in (None, n * blocks * block * bits // 8), f"{weights.size} bytes of weights for {n} x {k}")
    op.require(scales.size in (None, n * blocks), f"{scales.size} scales for {n} x {blocks} blocks")
    if zeros is not None:
        packed = zeros.dtype is UINT8
        op.require(packed or zeros.dtype.name in FLOATS, f"zero points of element type {zeros.dtype}")
        wanted = n * (-(-blocks * bits // 8) if packed else blocks)
        op.require(zeros.size in (None, wanted), f"{zeros.size} zero points, expected {wanted}")
    emitter.check_equal(a.shape[-1], dim(k), "MatMulNBits, inner extents")
    if groups is not None and not _in_order(op, k, block):
        return multiply(emitter, a, _dequantised(op, a, n=n, k=k, bits=bits, block=block), bias=bias)
    attributes: dict[str, Any] = {"n": n, "k": k, "bits": bits, "block": block, "accuracy_level": level}
    inputs = {"a": a, "weights": weights, "scales": scales, "zeros": zeros, "bias": bias}
    return emitter.hip("hip.matmul_nbits", inputs, [a.dtype], **attributes)[0]


def _groups(op: OnnxOp) -> np.ndarray:
    groups = op.constant(4)
    assert groups is not None
    return groups.reshape(-1)


def _in_order(op: OnnxOp, k: int, block: int) -> bool:
    """Whether g_idx says no more than that blocks follow each other."""
    groups = _groups(op)
    op.require(groups.size >= k, f"{groups.size} group indices for K = {k}")
    return bool(np.array_equal(groups[:k], np.arange(k) // block))


def _dequantised(op: OnnxOp, a: Tensor, *, n: int, k: int, bits: int, block: int) -> Tensor:
    """The weights in the element type of a, [K, N]: with groups out of order no block has one scale."""
    weights, scales, zeros, groups = op.constant(1), op.constant(2), op.constant(3), _groups(op)[:k]
    assert weights is not None and scales is not None
    blocks = -(-k // block)
    op.require(bool(((groups >= 0) & (groups < blocks)).all()), "group indices outside the scales")
    levels = unpack_fields(weights.reshape(n, -1), bits)[:, :k].astype(np.float32)
    offsets = np.full((n, blocks), 1 << (bits - 1), np.float32)
    if zeros is not None and zeros.dtype == np.uint8:
        offsets = unpack_fields(zeros.reshape(n, -1), bits)[:, :blocks].astype(np.float32)
    elif zeros is not None:
        offsets = zeros.reshape(n, blocks).astype(np.float32)
    matrix = (levels - offsets[:, groups]) * scales.reshape(n, blocks).astype(np.float32)[:, groups]
    return constant(np.ascontiguousarray(matrix.T).astype(a.dtype.numpy), a.dtype)
