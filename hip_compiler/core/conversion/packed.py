"""What operators do to sequences whose length only run time knows (`Packed`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.extents import index
from hip_compiler.core.conversion.loops import Stack, Step, loop
from hip_compiler.core.conversion.onnx_op import NotSupportedError
from hip_compiler.core.conversion.regions import is_true
from hip_compiler.core.conversion.tensors import Maybe, Packed, Tensor, symbolic
from hip_compiler.core.dialects.hip.define import MAX_RANK
from hip_compiler.core.mlir import arith, ir, tensor
from hip_compiler.dtypes import BY_NAME, DType
from hip_compiler.shapes import Dim, Shape, dim, product

COLUMNS = 1 + MAX_RANK
INT64 = BY_NAME["int64"]

Known = tuple[int | None, ...] | None


def known_shape(source: Tensor) -> Known:
    """What is known of a tensor's shape."""
    return tuple(extent.value for extent in source.shape)


def common(a: Known, b: Known) -> Known:
    """What holds of both shapes."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def pack(emitter: Emitter, sources: Sequence[Tensor], dtype: DType) -> Packed:
    """Tensors as a sequence of run time."""
    rows, start = [], dim(0)
    extents = known_shape(sources[0]) if sources else None
    for source in sources:
        if source.dtype is not dtype:
            raise NotSupportedError(f"a sequence of {dtype} with a tensor of {source.dtype}")
        rows.append(_row(start, source.shape))
        extents = common(extents, known_shape(source))
        start = start + product(source.shape)
    elements = emitter.concat([_flat(emitter, source) for source in sources] or [_nothing(emitter, dtype)], 0, (start,))
    return Packed(elements, _table(rows), extents)


def position(emitter: Emitter, given: Tensor, length: Dim, *, past_end: int = 0) -> Dim:
    """A position, counted from the front; the run fails where it is outside of the sequence."""
    (at,) = emitter.run_time_extents(given)
    value, count = emitter.index_value(at), emitter.index_value(length)
    negative = arith.cmpi(arith.CmpIPredicate.slt, value, index(0))
    value = arith.select(negative, arith.addi(value, count), value)
    # Unsigned, so that what is still negative is too large.
    end = arith.addi(count, index(past_end))
    emitter.check(arith.cmpi(arith.CmpIPredicate.ult, value, end), "a position is outside of the sequence")
    return emitter.fresh_symbol(value)


def element(emitter: Emitter, source: Packed, at: Dim) -> Tensor:
    """The tensor at a position that is inside.

    Raises:
        NotSupportedError: its number of dimensions is not known.
    """
    if source.known is None:
        raise NotSupportedError(
            "the number of dimensions of the sequence's tensors is known at run time only; give the sequence a shape"
        )
    rank, row = len(source.known), emitter.index_value(at)
    layout = emitter.value(source.layout)

    def column(number: int) -> Any:
        return arith.index_cast(ir.IndexType.get(), tensor.extract(layout, [row, index(number)]))

    if rank > 0:
        emitter.check(
            arith.cmpi(arith.CmpIPredicate.sge, column(rank), index(0)),
            f"a tensor of a sequence lacks {rank} dimensions",
        )
    if rank < MAX_RANK:
        emitter.check(
            arith.cmpi(arith.CmpIPredicate.slt, column(rank + 1), index(0)),
            f"a tensor of a sequence has more than {rank} dimensions",
        )
    shape = []
    for axis, known in enumerate(source.known):
        extent = emitter.fresh_symbol(column(axis + 1))
        if known is not None:
            emitter.check_equal(extent, dim(known), "a tensor of a sequence")
        shape.append(extent if known is None else dim(known))
    start, size = emitter.fresh_symbol(column(0)), product(shape)
    return emitter.reshape(emitter.slice(source.elements, [start], [size], [1]), tuple(shape))


def required(emitter: Emitter, source: Maybe) -> Tensor:
    """What an optional holds; the run fails where that is nothing."""
    if source.present is None:
        holds = arith.cmpi(arith.CmpIPredicate.ne, emitter.index_value(source.held.length), index(0))
        emitter.check(holds, "the optional is empty")
        return element(emitter, source.held, dim(0))
    emitter.check(is_true(emitter, source.present), "the optional is empty")
    return source.held


def append(emitter: Emitter, source: Packed, added: Tensor) -> Packed:
    """The sequence with one more tensor at its end."""
    total, size = source.elements.shape[0], product(added.shape)
    row = _table([_row(total, added.shape)])
    return Packed(
        emitter.concat([source.elements, _flat(emitter, added)], 0, (total + size,)),
        emitter.concat([source.layout, row], 0, (source.length + 1, dim(COLUMNS))),
        common(source.known, known_shape(added)) if source.length.value != 0 else known_shape(added),
    )


def insert(emitter: Emitter, source: Packed, added: Tensor, at: Dim) -> Packed:
    """The sequence with one more tensor, before the one at a position."""
    total, size = source.elements.shape[0], product(added.shape)
    start = _start(emitter, source, at)
    before, after = _cut(emitter, source.elements, start), _cut(emitter, source.elements, start, total - start)
    rows_before = _cut(emitter, source.layout, at)
    rows_after = _moved(emitter, _cut(emitter, source.layout, at, source.length - at), size)
    row = _table([_row(start, added.shape)])
    return Packed(
        emitter.concat([before, _flat(emitter, added), after], 0, (total + size,)),
        emitter.concat([rows_before, row, rows_after], 0, (source.length + 1, dim(COLUMNS))),
        common(source.known, known_shape(added)),
    )


def erase(emitter: Emitter, source: Packed, at: Dim) -> Packed:
    """The sequence without the tensor at a position that is inside."""
    total, start, end = source.elements.shape[0], _start(emitter, source, at), _start(emitter, source, at + 1)
    before, after = _cut(emitter, source.elements, start), _cut(emitter, source.elements, end, total - end)
    rows_before = _cut(emitter, source.layout, at)
    rows_after = _moved(emitter, _cut(emitter, source.layout, at + 1, source.length - at - 1), start - end)
    return Packed(
        emitter.concat([before, after], 0, (total - (end - start),)),
        emitter.concat([rows_before, rows_after], 0, (source.length - 1, dim(COLUMNS))),
        source.known,
    )


def split(
    emitter: Emitter, source: Tensor, axis: int, count: Dim, size: Callable[[Dim], Dim], *, keep: bool = True
) -> Packed:
    """Consecutive parts of a tensor along an axis, which the run fails for unless they are all of it.

    Args:
        size: extent of the part of a number.
        keep: parts have the axis; else it is of extent 1, and gone.
    """
    total, extent = (product(source.shape),), source.shape[axis]
    inner = product(other for i, other in enumerate(source.shape) if i != axis)
    in_order = all(outer.value == 1 for outer in source.shape[:axis])

    def iterate(number: Dim, states: list[Tensor]) -> Step:
        (start,) = emitter.run_time_extents(states[0])
        here = size(number)
        room = emitter.index_value(extent - start)
        # Unsigned, so that a negative size is too large.
        fits = arith.cmpi(arith.CmpIPredicate.ule, emitter.index_value(here), room)
        emitter.check(fits, "the parts of a tensor are not all of it")
        shape = tuple(here if i == axis else other for i, other in enumerate(source.shape))
        kept = shape if keep else (*shape[:axis], *shape[axis + 1 :])
        row = emitter.reshape(_table([_row(start * inner, kept)]), (dim(COLUMNS),))
        following = [_scalar(start + here)]
        if not in_order:
            starts = [start if i == axis else dim(0) for i in range(source.rank)]
            part = _flat(emitter, emitter.slice(source, starts, shape, [1] * source.rank))
            filled = emitter.insert(part, emitter.value(states[1]), 0, start * inner)
            following.append(Tensor(total, source.dtype, filled))
        return Step(following, [row])

    begin = [_scalar(dim(0))]
    if not in_order:
        begin.append(Tensor(total, source.dtype, emitter.empty(total, source.dtype)))
    result = loop(emitter, begin, iterate, trip=count, stacks=[Stack()])
    (end,) = emitter.run_time_extents(result.states[0])
    emitter.check_equal(end, extent, "the parts of a tensor are not all of it")
    elements = _flat(emitter, source) if in_order else result.states[1]
    known = tuple(None if i == axis else e.value for i, e in enumerate(source.shape) if keep or i != axis)
    return Packed(elements, result.stacks[0], known)


def first_shape(emitter: Emitter, source: Packed, free: int | None) -> list[Dim]:
    """Shape of the first tensor; the run fails where there is none, or where another's differs.

    Args:
        free: the axis whose extent may differ; its entry here is the sum of the extents. None: there is no such axis.

    Raises:
        NotSupportedError: the number of dimensions is not known.
    """
    count = emitter.index_value(source.length)
    emitter.check(arith.cmpi(arith.CmpIPredicate.ne, count, index(0)), "a sequence of no tensors")
    shape = list(element(emitter, source, dim(0)).shape)
    table = emitter.slice(source.layout, [dim(0), dim(1)], [source.length, dim(MAX_RANK)], [1, 1])
    wanted = _table([[*shape, *[dim(-1)] * (MAX_RANK - len(shape))]])
    compared = [axis for axis in range(MAX_RANK) if axis != free]
    for first, last in _runs(compared):
        parts = [
            emitter.slice(t, [dim(0), dim(first)], [t.shape[0], dim(last - first)], [1, 1]) for t in (table, wanted)
        ]
        same = emitter.elementwise(lambda a, b: a == b, parts, BY_NAME["bool"])
        emitter.check_all(same, "tensors of a sequence differ in shape")
    if free is not None:
        column = emitter.slice(table, [dim(0), dim(free)], [source.length, dim(1)], [1, 1])
        (shape[free],) = emitter.run_time_extents(emitter.reduce(column, range(2), "sum"))
    return shape


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Consecutive numbers as (first, one past the last)."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n + 1 for n in numbers if n + 1 not in numbers]
    return list(zip(starts, ends, strict=True))


def _row(start: Dim, shape: Shape) -> list[Dim]:
    if len(shape) > MAX_RANK:
        raise NotSupportedError(f"a sequence with a tensor of {len(shape)} dimensions; it has room for {MAX_RANK}")
    return [start, *shape, *[dim(-1)] * (MAX_RANK - len(shape))]


def _table(rows: Sequence[Sequence[Dim]]) -> Tensor:
    columns = len(rows[0]) if rows else COLUMNS
    table = np.empty((len(rows), columns), dtype=object)
    for number, row in enumerate(rows):
        table[number, :] = row
    return symbolic(table, INT64)


def _scalar(number: Dim) -> Tensor:
    return symbolic(np.array(number, dtype=object), INT64)


def _flat(emitter: Emitter, source: Tensor) -> Tensor:
    return emitter.reshape(source, (product(source.shape),))


def _nothing(emitter: Emitter, dtype: DType) -> Tensor:
    return Tensor((dim(0),), dtype, emitter.empty((dim(0),), dtype))


def _cut(emitter: Emitter, source: Tensor, start: Dim, size: Dim | None = None) -> Tensor:
    """The part of the first axis before `start`; with a size, so much of it from there on."""
    rest = source.shape[1:]
    begin, extent = (dim(0), start) if size is None else (start, size)
    return emitter.slice(source, [begin, *[dim(0)] * len(rest)], [extent, *rest], [1] * source.rank)


def _start(emitter: Emitter, source: Packed, at: Dim) -> Dim:
    """Where the elements of a tensor begin; for the position after the last, where they end."""
    column = emitter.slice(source.layout, [dim(0), dim(0)], [source.length, dim(1)], [1, 1])
    total = _table([[source.elements.shape[0]]])
    starts = emitter.concat([column, total], 0, (source.length + 1, dim(1)))
    found = tensor.extract(emitter.value(starts), [emitter.index_value(at), index(0)])
    return emitter.fresh_symbol(arith.index_cast(ir.IndexType.get(), found))


def _moved(emitter: Emitter, rows: Tensor, by: Dim) -> Tensor:
    shift = _table([[by, *[dim(0)] * MAX_RANK]])
    return emitter.elementwise(lambda a, b: a + b, [rows, shift], INT64)
