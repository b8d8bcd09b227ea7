"""Attention of ONNX, MultiHeadAttention and Attention of com.microsoft: appends to caches, then hip.attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.group_query_attention import append
from hip_compiler.core.conversion.ops.matmul import multiply
from hip_compiler.core.conversion.ops.rotary import HALVES, MICROSOFT
from hip_compiler.core.conversion.scalars import Scalar, literal, where
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import Dim, dim

INT32 = BY_NAME["int32"]
BOOL = BY_NAME["bool"]
FLOAT = BY_NAME["float"]
DOUBLE = BY_NAME["double"]
NOTHING = -1000.0
"""What is added to a score so that nothing is left of its weight."""
_FUSED = frozenset({"float", "float16"})
"""Element types of ONNX's Attention that the kernel takes. The function body rounds bfloat16 after every step, and that
is what ONNX's own test data hold."""


@onnx_op(
    "Attention",
    since=23,
    how="hip.kv_append, hip.attention; function body for outputs of scores",
    limits="the number and the size of heads are known at compile time; keys and values of one element type",
)
def convert_attention(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None] | None:
    """Attention over [batch, head, position, size] or [batch, position, heads * size]. Outputs: y, present k and v."""
    q, k, v, mask = op.input(0), op.input(1), op.input(2), op.optional(3)
    past_k, past_v, filled = op.optional(4), op.optional(5), op.optional(6)
    right, left = op.attr("right_window_size", -1), op.attr("left_window_size", -1)
    causal = bool(op.attr("is_causal", 0)) or right == 0
    if (
        op.wants(3)
        or not (q.dtype is k.dtype is v.dtype and q.dtype.name in _FUSED)
        or op.attr("softmax_precision", 1) == DOUBLE.onnx
        or (right > 0 and not causal)
        or (mask is not None and filled is None and _is_shorter(mask, k, past_k))
    ):
        return None
    op.ignore("qk_matmul_output_mode")
    if mask is not None and mask.dtype is not BOOL and mask.dtype.name not in HALVES:
        mask = emitter.cast(mask, FLOAT)  # numbers of any type are added to the scores
    heads, shared = (_heads(op, x, name) for x, name in ((q, "q_num_heads"), (k, "kv_num_heads")))
    size, v_size = _size(op, q, heads), _size(op, v, shared)
    op.require((past_k is None) == (past_v is None), "a past of keys without one of values, or the reverse")
    lengths = None if filled is None else emitter.cast(filled, INT32)
    past = None
    if filled is not None:
        new = emitter.extent_scalar(q.shape[-2], INT32)
        past = emitter.elementwise(lambda a, b: a - b, [lengths, new], INT32)  # type: ignore[list-item]
    elif past_k is not None:
        past = emitter.extent_scalar(past_k.shape[2], INT32)
    present_k = present_v = None
    if past_k is not None or op.wants(1) or op.wants(2):
        capacity = k.shape[-2] + (dim(0) if past_k is None else past_k.shape[2])
        present_k = append(emitter, k, past_k, None, (k.shape[0], dim(shared), capacity, dim(size)), 0)
        present_v = append(emitter, v, past_v, None, (k.shape[0], dim(shared), capacity, dim(v_size)), 0)
    inputs = {"q": q, "k": present_k or k, "v": present_v or v, "bias": mask, "past_lengths": past, "lengths": lengths}
    attributes: dict[str, Any] = {
        "scale": op.attr("scale", 0.0) or 1 / math.sqrt(size),
        "causal": causal,
        "window": left + 1 if left >= 0 else 0,
        "softcap": op.attr("softcap", 0.0),
    }
    y = attend(emitter, inputs, heads=heads, shared=shared, size=size, v_size=v_size, **attributes)
    return [y, present_k, present_v][: op.outputs]


def attend(
    emitter: Emitter,
    inputs: dict[str, Tensor | None],
    *,
    heads: int,
    shared: int,
    size: int,
    v_size: int,
    **attributes: Any,
) -> Tensor:
    """`hip.attention`."""
    q = inputs["q"]
    assert q is not None
    sizes: dict[str, Any] = {"q_heads": heads, "kv_heads": shared, "size": size, "v_size": v_size}
    return emitter.hip("hip.attention", inputs, [q.dtype], **sizes, **attributes)[0]


def _is_shorter(mask: Tensor, k: Tensor, past: Tensor | None) -> bool:
    """A mask that does not cover all keys, which hides the rest."""
    keys = k.shape[-2] + (dim(0) if past is None else past.shape[2])
    return mask.shape[-1] != keys and mask.shape[-1].value != 1


def _heads(op: OnnxOp, x: Tensor, attribute: str) -> int:
    op.require(x.rank in (3, 4), f"an operand of rank {x.rank}")
    if x.rank == 3:
        heads = op.attr(attribute, 0)
        op.require(heads > 0, f"{attribute} is needed for operands of rank 3")
        return int(heads)
    op.ignore(attribute)
    extent = x.shape[1].value
    op.require(extent is not None, "the number of heads must be known at compile time")
    assert extent is not None
    return extent


def _size(op: OnnxOp, x: Tensor, heads: int) -> int:
    columns, parts = x.shape[-1].value, heads if x.rank == 3 else 1
    op.require(columns is not None, "the size of heads must be known at compile time")
    assert columns is not None
    op.require(columns % parts == 0, f"{columns} columns for {parts} heads")
    return columns // parts


@onnx_op(
    "MultiHeadAttention",
    domain=MICROSOFT,
    how="hip.kv_append, hip.attention",
    dtypes=HALVES,
    limits="no cache of its own indices, no scores as an output; unidirectional with as many queries as keys",
)
def convert_multi_head_attention(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """Attention after separate or packed projections, with their bias. Outputs: y, present k and v."""
    heads = op.attr("num_heads")
    for position, what in ((8, "past_sequence_length"), (9, "cache_indirection")):
        op.require(op.optional(position) is None, f"input {what}")
    op.require(not op.wants(3), "the scores as an output")
    q, k, v = _projections(emitter, op)
    q, k, v = _with_bias(emitter, op, [q, k, v], op.optional(3))
    size, v_size = (_size(op, x, heads) for x in (q, v))
    past_k, past_v = op.optional(6), op.optional(7)
    op.require((past_k is None) == (past_v is None), "a past of keys without one of values, or the reverse")
    present_k = present_v = past = None
    if past_k is not None or op.wants(1) or op.wants(2):
        capacity = k.shape[-2] + (dim(0) if past_k is None else past_k.shape[2])
        present_k = append(emitter, k, past_k, None, (q.shape[0], dim(heads), capacity, dim(size)), 0)
        present_v = append(emitter, v, past_v, None, (q.shape[0], dim(heads), capacity, dim(v_size)), 0)
        k, v = present_k, present_v
    if past_k is not None:
        past = emitter.extent_scalar(past_k.shape[2], INT32)
    keys = k.shape[-2]
    bias, lengths = _masks(emitter, op, op.optional(4), op.optional(5), q, keys)
    inputs = {"q": q, "k": k, "v": v, "bias": bias, "past_lengths": past, "lengths": lengths}
    causal = bool(op.attr("unidirectional", 0)) and (past is not None or q.shape[1].value != 1)
    if causal and past is None:
        # Which keys a query of another sequence sees is nowhere said; ONNX Runtime shows a single one all of them.
        emitter.check_equal(q.shape[1], keys, "MultiHeadAttention, unidirectional: queries and keys")
    attributes: dict[str, Any] = {"scale": op.attr("scale", 0.0) or 1 / math.sqrt(size), "causal": causal}
    y = attend(emitter, inputs, heads=heads, shared=heads, size=size, v_size=v_size, **attributes)
    return [y, present_k, present_v][: op.outputs]


def _projections(emitter: Emitter, op: OnnxOp) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v: separate, or rank-5 tensors [batch, position, head, 3 or 2, size] that hold several."""
    q, k, v = op.input(0), op.optional(1), op.optional(2)
    if q.rank == 5:
        op.require(k is None and v is None, "keys beside a packed query")
        return _slab(emitter, q, 0), _slab(emitter, q, 1), _slab(emitter, q, 2)
    op.require(q.rank == 3, f"a query of rank {q.rank}")
    op.require(k is not None, "a query alone")
    assert k is not None
    if k.rank == 5:
        op.require(v is None, "values beside packed keys")
        return q, _slab(emitter, k, 0), _slab(emitter, k, 1)
    op.require(v is not None and k.rank in (3, 4) and v.rank == k.rank, f"keys of rank {k.rank}")
    assert v is not None
    return q, k, v


def _slab(emitter: Emitter, packed: Tensor, number: int) -> Tensor:
    batch, length, heads, _, size = packed.shape
    starts = [dim(number if axis == 3 else 0) for axis in range(5)]
    slab = emitter.slice(packed, starts, [batch, length, heads, dim(1), size], [1] * 5)
    return emitter.reshape(slab, (batch, length, heads * size))


def _with_bias(emitter: Emitter, op: OnnxOp, parts: list[Tensor], bias: Tensor | None) -> list[Tensor]:
    """Projections plus their parts of the bias [columns of q, of k, of v]; keys of a cache have theirs already."""
    if bias is None:
        return parts
    op.require(all(part.rank == 3 for part in parts), "a bias together with keys of rank 4")
    start, found = dim(0), []
    for part in parts:
        columns = part.shape[-1]
        own = emitter.slice(bias, [start], [columns], [1])
        found.append(emitter.elementwise(lambda x, b: x + b, [part, own], part.dtype, part.shape))
        start = start + columns
    return found


def _masks(
    emitter: Emitter, op: OnnxOp, mask: Tensor | None, bias: Tensor | None, q: Tensor, keys: Dim
) -> tuple[Tensor | None, Tensor | None]:
    """Bias and number of keys from a padding mask and a bias.

    [batch] counts keys, [2 * batch] has their ends and then their starts, higher ranks say which to hide.
    """
    hidden, batch = op.attr("mask_filter_value", -10000.0), q.shape[0]
    if mask is None:
        return bias, None
    if mask.rank == 1:
        counts = mask.shape[0] == batch
        op.require(counts or mask.shape[0] == batch * 2, f"a mask of {mask.shape[0]} numbers for a batch of {batch}")
        if counts and hidden <= NOTHING:
            return bias, emitter.cast(mask, INT32)
        mask = _between(emitter, mask, batch, keys, starts=not counts)
    op.require(mask.rank in (2, 3), f"a mask of rank {mask.rank}")
    ones = (dim(1),) * (4 - mask.rank)
    spread = emitter.reshape(mask, (mask.shape[0], *ones, *mask.shape[1:]))

    def body(keep, *added):  # type: ignore[no-untyped-def]
        zero, low = literal(0.0, q.dtype), literal(hidden, q.dtype)
        value = where(keep.cast(BOOL), zero, low)
        return value + added[0] if added else value

    operands = [spread] if bias is None else [spread, bias]
    return emitter.elementwise(body, operands, q.dtype), None


def _between(emitter: Emitter, mask: Tensor, batch: Dim, keys: Dim, *, starts: bool) -> Tensor:
    """[batch, keys], true before a batch entry's end and, with `starts`, not before its start."""
    rows = (batch, dim(1))
    parts = [emitter.slice(mask, [first], [batch], [1]) for first in (dim(0), batch)[: 1 + starts]]
    bounds = [emitter.reshape(emitter.cast(part, INT32), rows) for part in parts]
    positions = emitter.iota((keys,), INT32, lambda loops: loops[0])

    def body(position: Scalar, end: Scalar, start: Scalar | None = None) -> Scalar:
        inside = position < end
        return inside if start is None else inside & (position >= start)

    return emitter.elementwise(body, [positions, *bounds], BOOL, (batch, keys))


@onnx_op(
    "Attention",
    domain=MICROSOFT,
    how="hip.matmul, hip.kv_append, hip.attention",
    dtypes=HALVES,
    limits="no rotary embedding inside, no shared cache",
)
def convert_attention_microsoft(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """The projections of q, k and v, then attention. Outputs: y, present [2, batch, head, position, size]."""
    x, heads = op.input(0), op.attr("num_heads")
    op.require(x.dtype.name in HALVES and x.rank == 3, f"element type {x.dtype}, rank {x.rank}")
    op.require(op.attr("do_rotary", 0) == 0, "rotary embedding inside")
    op.require(op.attr("past_present_share_buffer", 0) == 0 and op.optional(6) is None, "a shared cache")
    op.ignore("rotary_embedding_dim")
    packed = multiply(emitter, x, op.input(1), bias=op.optional(2))
    columns = packed.shape[2].value
    op.require(columns is not None, "the number of columns must be known at compile time")
    assert columns is not None
    sizes = list(op.attr("qkv_hidden_sizes", ()) or [columns // 3] * 3)
    op.require(len(sizes) == 3 and sum(sizes) == columns and sizes[0] == sizes[1], f"hidden sizes {sizes} of {columns}")
    op.require(all(width % heads == 0 for width in sizes), f"hidden sizes {sizes} for {heads} heads")
    size, v_size, past_all = sizes[0] // heads, sizes[2] // heads, op.optional(4)
    k = v = packed
    firsts = {"k_first": sizes[0], "v_first": sizes[0] + sizes[1]}
    past = present = None
    if past_all is not None or op.wants(1):
        op.require(size == v_size, "a cache of keys and values of different sizes")
        caches: list[Tensor | None] = [None, None]
        capacity = x.shape[1]
        if past_all is not None:
            op.require(past_all.rank == 5, f"a past of rank {past_all.rank}")
            caches = [_half(emitter, past_all, number) for number in (0, 1)]
            capacity = capacity + past_all.shape[3]
            past = emitter.extent_scalar(past_all.shape[3], INT32)
        shape = (x.shape[0], dim(heads), capacity, dim(size))
        k = append(emitter, packed, caches[0], None, shape, firsts["k_first"])
        v = append(emitter, packed, caches[1], None, shape, firsts["v_first"])
        firsts = {}
        if op.wants(1):
            halves = [emitter.reshape(cache, (dim(1), *shape)) for cache in (k, v)]
            present = emitter.concat(halves, 0, (dim(2), *shape))
    keys = x.shape[1] if past_all is None else x.shape[1] + past_all.shape[3]
    bias, lengths = _masks(emitter, op, op.optional(3), op.optional(5), x, keys)
    inputs = {"q": packed, "k": k, "v": v, "bias": bias, "past_lengths": past, "lengths": lengths}
    attributes: dict[str, Any] = {
        "scale": op.attr("scale", 0.0) or 1 / math.sqrt(size),
        "causal": bool(op.attr("unidirectional", 0)),
        **firsts,
    }
    y = attend(emitter, inputs, heads=heads, shared=heads, size=size, v_size=v_size, **attributes)
    return [y, present][: op.outputs]


def _half(emitter: Emitter, past: Tensor, number: int) -> Tensor:
    starts = [dim(number if axis == 0 else 0) for axis in range(5)]
    half = emitter.slice(past, starts, [dim(1), *past.shape[1:]], [1] * 5)
    return emitter.reshape(half, past.shape[1:])
