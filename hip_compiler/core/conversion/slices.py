"""Slices whose bounds, axes or steps are data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.extents import index
from hip_compiler.core.conversion.onnx_op import OnnxOp
from hip_compiler.core.conversion.run_time_axes import equal, negated, picked_by_axis
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.core.mlir import arith
from hip_compiler.shapes import Dim, dim

_FAR = 2**62
"""No axis is longer; larger bounds and steps mean the same, and sums of them do not overflow."""


def slice_by_data(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The Slice operator from opset 10; axes that no list names keep their extent."""
    x = op.input(0)
    starts, ends = emitter.run_time_extents(op.input(1)), emitter.run_time_extents(op.input(2))
    axes, steps = op.optional(3), op.optional(4)
    named = [dim(axis) for axis in range(len(starts))] if axes is None else list(emitter.run_time_extents(axes))
    strides = [dim(1)] * len(starts) if steps is None else list(emitter.run_time_extents(steps))
    op.require(len(starts) == len(ends) == len(named) == len(strides), "starts, ends, axes and steps of one length")
    begin, size, step = [dim(0)] * x.rank, list(x.shape), [dim(1)] * x.rank
    known = [axis.value for axis in named]
    if None not in known:
        for number, first, last, stride in zip(known, starts, ends, strides, strict=True):
            op.require(stride.value != 0, "a step of 0")
            op.require(number is not None and -x.rank <= number < x.rank, f"axis {number} is out of range")
            at = (number or 0) % x.rank
            bounds = emitter.index_value(first), emitter.index_value(last)
            begin[at], size[at] = _window(emitter, *bounds, stride, x.shape[at])
            step[at] = stride
    else:
        zeros, ones = [index(0)] * x.rank, [index(1)] * x.rank
        lists = [[emitter.index_value(value) for value in values] for values in (starts, ends, strides)]
        firsts = picked_by_axis(emitter, named, lists[0], x.rank, zeros)
        lasts = picked_by_axis(emitter, named, lists[1], x.rank, [index(_FAR)] * x.rank)
        jumps = picked_by_axis(emitter, named, lists[2], x.rank, ones)
        for at in range(x.rank):
            step[at] = dim(1) if steps is None else emitter.fresh_symbol(jumps[at])
            begin[at], size[at] = _window(emitter, firsts[at], lasts[at], step[at], x.shape[at])
    fixed = [stride.value for stride in step]
    if all(stride is not None and stride > 0 for stride in fixed):
        return emitter.slice(x, begin, size, [stride or 1 for stride in fixed])
    return emitter.index_map(x, tuple(size), stepped(emitter, begin, step))


def stepped(emitter: Emitter, begin: Sequence[Dim], step: Sequence[Dim]) -> Callable[[Sequence[Any]], list[Any]]:
    """Positions `begin + loop * step`, as a function of the loops."""
    # Values that a body uses are made outside of it.
    firsts, strides = ([emitter.index_value(value) for value in values] for values in (begin, step))

    def position(loops: Sequence[Any]) -> list[Any]:
        return [
            arith.addi(first, arith.muli(loop, stride))
            for first, loop, stride in zip(firsts, loops, strides, strict=True)
        ]

    return position


def _window(emitter: Emitter, start: Any, end: Any, stride: Dim, extent: Dim) -> tuple[Dim, Dim]:
    """First position and number of elements of one axis; the bounds are `index` values."""
    step = emitter.index_value(stride)
    if stride.value is None:
        emitter.check(negated(equal(step, index(0))), "a slice with a step of 0")
    length = emitter.index_value(extent)
    forward = arith.cmpi(arith.CmpIPredicate.sgt, step, index(0))
    low = arith.select(forward, index(0), index(-1))
    high = arith.select(forward, length, arith.subi(length, index(1)))
    # Backwards only the end may lie before the first element.
    first, last = _clamped(start, length, index(0), high), _clamped(end, length, low, high)
    span = arith.select(forward, arith.subi(last, first), arith.subi(first, last))
    bounded = arith.maxsi(arith.minsi(step, index(_FAR)), index(-_FAR))
    pace = arith.maxsi(arith.maxsi(bounded, arith.subi(index(0), bounded)), index(1))
    count = arith.addi(arith.divsi(arith.subi(span, index(1)), pace), index(1))
    some = arith.cmpi(arith.CmpIPredicate.sgt, span, index(0))
    return emitter.fresh_symbol(first), emitter.fresh_symbol(arith.select(some, count, index(0)))


def _clamped(bound: Any, length: Any, low: Any, high: Any) -> Any:
    negative = arith.cmpi(arith.CmpIPredicate.slt, bound, index(0))
    absolute = arith.select(negative, arith.addi(bound, length), bound)
    return arith.minsi(arith.maxsi(absolute, low), high)
