"""Rotary position embedding, of com.microsoft and of ONNX."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME

MICROSOFT = "com.microsoft"
INT64 = BY_NAME["int64"]
HALVES = frozenset({"float", "float16", "bfloat16"})
"""Element types of the attention kernels."""


@onnx_op("RotaryEmbedding", domain=MICROSOFT, how="hip.rotary", dtypes=HALVES, limits="no packed batching, no scale")
def convert_rotary_microsoft(emitter: Emitter, op: OnnxOp) -> Tensor:
    """x [batch, position, heads * size] or [batch, head, position, size]; positions per element, or one to start at."""
    x, positions, cos, sin = (op.input(i) for i in range(4))
    op.require(op.attr("is_packed_batching", 0) == 0, "packed batching")
    op.require(op.attr("scale", 1.0) == 1.0, "a scale other than 1")
    width = op.attr("rotary_embedding_dim", 0)
    heads = op.attr("num_heads", 0)
    interleaved = bool(op.attr("interleaved", 0))
    op.require(x.dtype.name in HALVES, f"element type {x.dtype} is not defined for it")
    if x.rank == 4:
        return rotate(
            emitter, x, cos, sin, positions, heads=_known(op, x, 1), size=_known(op, x, 3), interleaved=interleaved
        )
    op.require(x.rank == 3, f"rank {x.rank}")
    columns = _known(op, x, 2)
    op.require(not width or heads > 0, "rotary_embedding_dim without num_heads")
    size = columns // heads if width else 2 * _known(op, cos, 1)
    op.require(size > 0 and columns % size == 0, f"{columns} columns for heads of size {size}")
    return rotate(emitter, x, cos, sin, positions, heads=columns // size, size=size, interleaved=interleaved)


@onnx_op("RotaryEmbedding", since=23, how="hip.rotary")
def convert_rotary(emitter: Emitter, op: OnnxOp) -> Tensor | None:
    """As above; without positions the tables hold a row for every position of every batch entry."""
    x, cos, sin, positions = op.input(0), op.input(1), op.input(2), op.optional(3)
    if x.dtype.name not in HALVES:
        return None
    interleaved, width, heads = (
        bool(op.attr("interleaved", 0)),
        op.attr("rotary_embedding_dim", 0),
        op.attr("num_heads", 0),
    )
    if x.rank == 3:
        op.require(heads > 0, "num_heads is needed for an input of rank 3")
        size = _known(op, x, 2) // heads
    else:
        op.require(x.rank == 4, f"rank {x.rank}")
        heads, size = _known(op, x, 1), _known(op, x, 3)
    op.require(
        _known(op, cos, cos.rank - 1) == (width or size) // 2, "tables of another width than the rotated columns"
    )
    return rotate(emitter, x, cos, sin, positions, heads=heads, size=size, interleaved=interleaved)


def rotate(
    emitter: Emitter,
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None,
    *,
    heads: int,
    size: int,
    first: int = 0,
    interleaved: bool = False,
) -> Tensor:
    """`hip.rotary`: twice as many columns as the tables are wide are rotated."""
    attributes: dict[str, Any] = {"heads": heads, "size": size, "first": first, "interleaved": interleaved}
    if positions is not None:
        positions = emitter.cast(positions, INT64)
    inputs = {"x": x, "cos": cos, "sin": sin, "positions": positions}
    return emitter.hip("hip.rotary", inputs, [x.dtype], **attributes)[0]


def _known(op: OnnxOp, source: Tensor, axis: int) -> int:
    extent = source.shape[axis].value
    op.require(extent is not None, f"extent {source.shape[axis]} must be known at compile time")
    assert extent is not None
    return extent
