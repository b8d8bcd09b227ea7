"""GroupQueryAttention: rotary embedding, an append to the cache, and attention over what the cache then holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.rotary import HALVES, MICROSOFT, rotate
from hip_compiler.core.conversion.scalars import Scalar, where
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.core.mlir import arith
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import Dim, dim

INT32 = BY_NAME["int32"]
INT64 = BY_NAME["int64"]


@dataclass(frozen=True)
class Projections:
    """New queries, keys and values, [batch, position, columns] each, with the column where each begins."""

    q: Tensor
    k: Tensor
    v: Tensor
    size: int
    q_first: int
    k_first: int
    v_first: int

    @property
    def updates(self) -> tuple[tuple[Tensor, int], tuple[Tensor, int]]:
        """New keys and values, with the column where each begins."""
        return (self.k, self.k_first), (self.v, self.v_first)


@dataclass(frozen=True)
class Cache:
    """Keys and values that attention sees, where the new ones begin and how many count, and the caches afterwards."""

    k: Tensor
    v: Tensor
    past: Tensor
    valid: Tensor
    present_k: Tensor
    present_v: Tensor


@onnx_op(
    "GroupQueryAttention",
    domain=MICROSOFT,
    how="hip.rotary, hip.kv_append, hip.attention",
    dtypes=HALVES,
    limits="causal; no quantised cache, no cache that wraps around, no scores as an output",
)
def convert_group_query_attention(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """Causal attention whose query heads share heads of keys and values, over a cache. Outputs: y, present k and v."""
    _refuse_variants(op)
    heads, shared = op.attr("num_heads"), op.attr("kv_num_heads")
    new = _projections(op, heads, shared)
    new = _normalised(emitter, op, new, heads, shared)
    q, k, q_first, k_first = new.q, new.k, new.q_first, new.k_first
    length = q.shape[1]
    past_k, past_v = op.optional(3), op.optional(4)
    op.require((past_k is None) == (past_v is None), "a past of keys without one of values, or the reverse")
    seqlens, total = op.input(5), op.input(6)
    valid = emitter.elementwise(lambda last: last + 1, [emitter.reshape(seqlens, q.shape[:1])], INT32)
    everything = emitter.run_time_extents(total)[0]
    past = _past_lengths(emitter, valid, length, everything)
    windowed, rotates = bool(op.attr("sliding_window_cache", 0)), bool(op.attr("do_rotary", 0))
    window = op.attr("local_window_size", -1)
    op.require(window == -1 or window > 0, f"local_window_size = {window}")
    capacity = everything if past_k is None else everything.maximum(past_k.shape[2])
    heads_of = (q.shape[0], dim(shared), dim(new.size))
    scoring: dict[str, Any] = {
        "scale": op.attr("scale", 0.0) or 1 / math.sqrt(new.size),
        "window": max(window, 0),
        "softcap": op.attr("softcap", 0.0),
        "smooth": bool(op.attr("smooth_softmax", 0) == 1),
    }
    if not windowed and emitter.context.calls("hipc_cached_attention"):
        shape = (q.shape[0], dim(shared), capacity, dim(new.size))
        return _in_one(emitter, op, new, (past, valid), shape, scoring)[: op.outputs]
    if rotates:
        cos, sin, given = op.input(7), op.input(8), op.optional(9)
        positions = _positions(emitter, past, (q.shape[0], length)) if given is None else given
        rotary: dict[str, Any] = {"size": new.size, "interleaved": bool(op.attr("rotary_interleaved", 0))}
        q = rotate(emitter, q, cos, sin, positions, heads=heads, first=q_first, **rotary)
        k = rotate(emitter, k, cos, sin, positions, heads=shared, first=k_first, **rotary)
        q_first = k_first = 0
    else:
        op.ignore("rotary_interleaved")
    keys, values = replace(new, k=k, k_first=k_first).updates
    if windowed:
        cache = _windowed(emitter, op, (keys, values), (past_k, past_v), past, valid, window, heads_of)
    else:
        shape = (q.shape[0], dim(shared), capacity, dim(new.size))
        present_k = append(emitter, keys[0], past_k, past, shape, keys[1])
        present_v = append(emitter, values[0], past_v, past, shape, values[1])
        cache = Cache(present_k, present_v, past, valid, present_k, present_v)
    attributes: dict[str, Any] = {
        "q_heads": heads,
        "kv_heads": shared,
        "size": new.size,
        "v_size": new.size,
        "q_first": q_first,
        "causal": True,
        **scoring,
    }
    inputs = {
        "q": q,
        "k": cache.k,
        "v": cache.v,
        "bias": op.optional(10),
        "past_lengths": cache.past,
        "lengths": cache.valid,
        "sink": op.optional(11),
    }
    [y] = emitter.hip("hip.attention", inputs, [q.dtype], **attributes)
    return [y, cache.present_k, cache.present_v][: op.outputs]


def _windowed(
    emitter: Emitter,
    op: OnnxOp,
    new: Sequence[tuple[Tensor, int]],
    pasts: Sequence[Tensor | None],
    past: Tensor,
    valid: Tensor,
    window: int,
    extents: tuple[Dim, Dim, Dim],
) -> Cache:
    """A cache that keeps the last positions only, in order from row 0 on.

    Attention sees what it held and all new positions, side by side; what it holds afterwards is cut out of that. How
    many positions stay follows from the length so far, T, and the capacity C (operator description of com.microsoft):
    T while it fits, else T less the fewest multiples of C - window + 1 that make it fit.
    """
    op.require(window > 0, "a cache that keeps a window, without a window")
    op.require(op.optional(10) is None, "a bias beside a cache that keeps a window")
    op.require(all(cache is not None for cache in pasts), "a cache that keeps a window, without a past")
    [(k, k_first), (v, v_first)] = new
    past_k, past_v = pasts
    assert past_k is not None and past_v is not None
    capacity = emitter.extent_scalar(past_k.shape[2], INT32)

    def resident(total: Scalar, room: Scalar) -> Scalar:
        # A capacity below the window is refused by the kernel, after this.
        step = (room - (window - 1)).maximum(1)
        return where(total <= room, total, total - (total - room + step - 1) / step * step)

    held = emitter.elementwise(resident, [past, capacity], INT32, past.shape)
    kept = emitter.elementwise(resident, [valid, capacity], INT32, past.shape)
    filled = emitter.elementwise(lambda a, b, c: a + b - c, [held, valid, past], INT32)
    batch, heads, size = extents
    shape = (batch, heads, past_k.shape[2] + k.shape[1], size)
    staged_k, staged_v = (
        append(emitter, k, past_k, held, shape, k_first),
        append(emitter, v, past_v, held, shape, v_first),
    )
    presents = [
        emitter.hip(
            "hip.kv_window",
            {"staged": staged, "filled": filled, "kept": kept},
            [staged.dtype],
            [(batch, heads, cache.shape[2], size)],
            window=window,
        )[0]
        for staged, cache in ((staged_k, past_k), (staged_v, past_v))
    ]
    return Cache(staged_k, staged_v, held, filled, presents[0], presents[1])


def _in_one(
    emitter: Emitter,
    op: OnnxOp,
    new: Projections,
    lengths: tuple[Tensor, Tensor],
    cache: Sequence[Dim],
    scoring: dict[str, Any],
) -> list[Tensor]:
    """All of it as `hip.cached_attention`, for runtimes where every launch counts; `lengths`: before and after."""
    rotates = bool(op.attr("do_rotary", 0))
    inputs = {
        "q": new.q,
        "k": new.k,
        "v": new.v,
        "cos": op.input(7) if rotates else None,
        "sin": op.input(8) if rotates else None,
        "positions": op.optional(9) if rotates else None,
        "past_k": op.optional(3),
        "past_v": op.optional(4),
        "past_lengths": lengths[0],
        "lengths": lengths[1],
        "bias": op.optional(10),
        "sink": op.optional(11),
    }
    interleaved = bool(op.attr("rotary_interleaved", 0))
    attributes: dict[str, Any] = {
        "q_heads": op.attr("num_heads"),
        "kv_heads": op.attr("kv_num_heads"),
        "size": new.size,
        "q_first": new.q_first,
        "k_first": new.k_first,
        "v_first": new.v_first,
        "interleaved": interleaved,
        **scoring,
    }
    y = (*new.q.shape[:2], dim(attributes["q_heads"] * new.size))
    shapes = [y, tuple(cache), tuple(cache)]
    return emitter.hip("hip.cached_attention", inputs, [new.q.dtype] * 3, shapes, **attributes)


def _refuse_variants(op: OnnxOp) -> None:
    """Variants that change the result and have no kernel."""
    op.require(op.input(0).dtype.name in HALVES, f"element type {op.input(0).dtype} is not defined for it")
    op.require(op.attr("causal", 1) == 1, "attention that is not causal")
    for name in ("k_quant_type", "v_quant_type"):
        op.require(op.attr(name, "NONE") == "NONE", f"a quantised cache ({name} = {op.attr(name)})")
    op.require(op.attr("kv_cache_bit_width", 0) == 0, "a quantised cache (kv_cache_bit_width)")
    op.require(op.attr("qk_output", 0) == 0 and not op.wants(3), "the scores as an output")
    for position, what in ((12, "k_scale"), (13, "v_scale")):
        op.require(op.optional(position) is None, f"input {what}")
    op.require(op.optional(16) is None, "input query_seqlens")


def _projections(op: OnnxOp, heads: int, shared: int) -> Projections:
    """Separate inputs, or one packed as all query heads, then all key heads, then all value heads."""
    q, k, v = op.input(0), op.optional(1), op.optional(2)
    op.require(q.rank == 3, f"a query of rank {q.rank}")
    op.require((k is None) == (v is None), "a key without a value, or the reverse")
    columns = q.shape[2].value
    op.require(columns is not None, "the number of columns must be known at compile time")
    assert columns is not None
    parts = heads + (2 * shared if k is None else 0)
    op.require(columns % parts == 0, f"{columns} columns for {parts} heads")
    size = columns // parts
    if k is None or v is None:
        return Projections(q, q, q, size, 0, heads * size, (heads + shared) * size)
    for source in (k, v):
        op.require(source.rank == 3 and source.shape[2].value == shared * size, "keys or values of another head size")
    return Projections(q, k, v, size, 0, 0, 0)


def _normalised(emitter: Emitter, op: OnnxOp, new: Projections, heads: int, shared: int) -> Projections:
    """Heads of q and k, divided by their root mean squares and scaled, where the operator has the scales."""
    scales = op.optional(14), op.optional(15)
    op.require((scales[0] is None) == (scales[1] is None), "a q_norm_weight without a k_norm_weight, or the reverse")
    both = op.attr("qk_norm_epsilon", 1e-6)
    epsilons = op.attr("q_norm_epsilon", both), op.attr("k_norm_epsilon", both)
    if scales[0] is None:
        return new
    found = []
    for source, first, count, scale, epsilon in zip(
        (new.q, new.k), (new.q_first, new.k_first), (heads, shared), scales, epsilons, strict=True
    ):
        assert scale is not None
        batch, length, columns = source.shape
        width = dim(count * new.size)
        if columns != width:
            bounds = [dim(0), dim(0), dim(first)], [batch, length, width]
            source = emitter.slice(source, *bounds, [1, 1, 1])
        apart = emitter.reshape(source, (batch, length, dim(count), dim(new.size)))
        inputs = {"x": apart, "scale": emitter.cast(scale, source.dtype)}
        [normed] = emitter.hip("hip.rms_norm", inputs, [source.dtype], axis=3, epsilon=epsilon)
        found.append(emitter.reshape(normed, (batch, length, width)))
    return replace(new, q=found[0], k=found[1], q_first=0, k_first=0)


def _past_lengths(emitter: Emitter, valid: Tensor, length: Dim, everything: Dim) -> Tensor:
    """Positions in the cache before this run: none for a first prompt, even where its rows are padded on the right."""
    first = arith.cmpi(arith.CmpIPredicate.eq, emitter.index_value(length), emitter.index_value(everything))

    def body(count: Scalar, new: Scalar) -> Scalar:
        return where(Scalar(first, BY_NAME["bool"]), count - count, count - new)

    return emitter.elementwise(body, [valid, emitter.extent_scalar(length, INT32)], INT32, valid.shape)


def _positions(emitter: Emitter, past: Tensor, shape: tuple[Dim, Dim]) -> Tensor:
    """past + 0, 1, 2, ... for every batch entry; [batch, position]."""
    steps = emitter.iota((dim(1), shape[1]), INT64, lambda loops: loops[1])
    starts = emitter.reshape(past, (past.shape[0], dim(1)))
    return emitter.elementwise(lambda a, b: a.cast(INT64) + b, [starts, steps], INT64, shape)


def append(
    emitter: Emitter, update: Tensor, past: Tensor | None, lengths: Tensor | None, shape: Sequence[Dim], first: int
) -> Tensor:
    """`hip.kv_append` into a cache of a shape [batch, head, capacity, size]."""
    heads, size = shape[1].value, shape[3].value
    assert heads is not None and size is not None
    inputs = {"update": update, "past": past, "lengths": lengths}
    attributes: dict[str, Any] = {"heads": heads, "size": size, "first": first}
    return emitter.hip("hip.kv_append", inputs, [update.dtype], [tuple(shape)], **attributes)[0]
