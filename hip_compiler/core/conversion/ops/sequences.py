"""Sequences and optionals: gone from the program where the compiler can tell what they hold, else two tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hip_compiler.core.conversion import packed
from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.forms import Agreement, agreed, form_of
from hip_compiler.core.conversion.loops import LoopResult, Step, loop
from hip_compiler.core.conversion.onnx_op import OnnxOp, Subgraph, onnx_op
from hip_compiler.core.conversion.ops.shape import check_parts, joined, normalize_axis
from hip_compiler.core.conversion.packed import pack
from hip_compiler.core.conversion.regions import region_holder
from hip_compiler.core.conversion.tensors import Absent, Maybe, Packed, Tensor, TensorList, constant, symbolic
from hip_compiler.core.mlir import arith, ir, tensor
from hip_compiler.dtypes import BY_NAME, BY_ONNX, DType
from hip_compiler.shapes import Dim, dim

INT64, BOOL = BY_NAME["int64"], BY_NAME["bool"]
GONE = "resolved at compile time, or on two tensors: elements and layout"
RANKS = "the number of dimensions of its tensors is known"


def _source(op: OnnxOp, index: int = 0) -> TensorList | Packed:
    source = op.input(index)
    if not isinstance(source, (TensorList, Packed)):
        kind = "an optional" if isinstance(source, Maybe) else "a tensor"
        op.require(False, f"input {index} is {kind}, not a sequence")
    assert isinstance(source, (TensorList, Packed))
    return source


def _resolved(source: TensorList | Packed, position: Tensor | None) -> TensorList | None:
    """The sequence, where its tensors and the position are known at compile time."""
    if isinstance(source, TensorList) and (position is None or position.constant is not None):
        return source
    return None


def _packed(emitter: Emitter, source: TensorList | Packed) -> Packed:
    return source if isinstance(source, Packed) else pack(emitter, source.elements, source.dtype)


def _position(op: OnnxOp, index: int, length: int, *, past_end: int = 0) -> int | None:
    """A known position, counted from the front; None where the input is absent."""
    given = op.constant(index)
    if given is None:
        return None
    at = int(given.reshape(()))
    op.require(-length <= at < length + past_end, f"position {at} of a sequence of {length}")
    return at + length if at < 0 else at


@onnx_op("SequenceConstruct", how=GONE, texts=True)
def convert_construct(emitter: Emitter, op: OnnxOp) -> Tensor:
    """A sequence of the inputs."""
    return TensorList([op.input(i) for i in range(len(op.inputs))])


@onnx_op("SequenceEmpty", how=GONE)
def convert_empty(emitter: Emitter, op: OnnxOp) -> Tensor:
    """A sequence of no tensors."""
    return TensorList([], BY_ONNX[op.attr("dtype", BY_NAME["float"].onnx)])


@onnx_op("SequenceInsert", how=GONE, sequences=True, texts=True)
def convert_insert(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The sequence with one more tensor, at its end unless a position is given."""
    source, added, given = _source(op), op.input(1), op.optional(2)
    op.require(added.dtype is source.dtype, f"a tensor of {added.dtype} into a sequence of {source.dtype}")
    fixed = _resolved(source, given)
    if fixed is not None:
        at = _position(op, 2, len(fixed.elements), past_end=1)
        cut = len(fixed.elements) if at is None else at
        return TensorList([*fixed.elements[:cut], added, *fixed.elements[cut:]])
    sequence = _packed(emitter, source)
    if given is None:
        return packed.append(emitter, sequence, added)
    return packed.insert(emitter, sequence, added, packed.position(emitter, given, sequence.length, past_end=1))


@onnx_op("SequenceErase", how=GONE, sequences=True, texts=True)
def convert_erase(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The sequence without one tensor, the last unless a position is given."""
    source, given = _source(op), op.optional(1)
    fixed = _resolved(source, given)
    if fixed is not None:
        op.require(len(fixed.elements) > 0, "an empty sequence")
        at = _position(op, 1, len(fixed.elements))
        cut = len(fixed.elements) - 1 if at is None else at
        return TensorList([*fixed.elements[:cut], *fixed.elements[cut + 1 :]], fixed.dtype)
    sequence = _packed(emitter, source)
    where = constant(np.asarray(-1), INT64) if given is None else given
    return packed.erase(emitter, sequence, packed.position(emitter, where, sequence.length))


@onnx_op("SequenceAt", how=GONE, limits=RANKS, sequences=True, texts=True)
def convert_at(emitter: Emitter, op: OnnxOp) -> Tensor:
    """One tensor of a sequence."""
    source, given = _source(op), op.input(1)
    fixed = _resolved(source, given)
    if fixed is not None:
        return fixed.elements[_position(op, 1, len(fixed.elements)) or 0]
    sequence = _packed(emitter, source)
    return packed.element(emitter, sequence, packed.position(emitter, given, sequence.length))


@onnx_op("SequenceLength", how=GONE, sequences=True, texts=True)
def convert_length(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The number of tensors in a sequence."""
    source = _source(op)
    length = source.length if isinstance(source, Packed) else dim(len(source.elements))
    return symbolic(np.array(length, dtype=object), INT64)


@onnx_op(
    "ConcatFromSequence",
    how="copies into one buffer; a view along the first axis",
    limits=RANKS,
    sequences=True,
    texts=True,
)
def convert_concat(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The tensors of a sequence side by side along an axis, which may be a new one."""
    source, new = _source(op), bool(op.attr("new_axis", 0))
    if isinstance(source, Packed):
        op.require(source.known is not None, f"{RANKS} at run time only")
        return _concat_packed(emitter, source, _concat_axis(op, len(source.known or ()), new), new=new)
    elements = list(source.elements)
    op.require(len(elements) > 0, "an empty sequence")
    axis = _concat_axis(op, elements[0].rank, new)
    if new:
        elements = [emitter.reshape(x, (*x.shape[:axis], dim(1), *x.shape[axis:])) for x in elements]
    return joined(emitter, op, elements, axis)


def _concat_axis(op: OnnxOp, rank: int, new: bool) -> int:
    axis, rank = op.attr("axis"), rank + new
    op.require(-rank <= axis < rank, f"axis {axis} of {rank} dimensions")
    return int(axis % rank)


def _concat_packed(emitter: Emitter, source: Packed, axis: int, *, new: bool) -> Tensor:
    shape = packed.first_shape(emitter, source, None if new else axis)
    if new:
        stacked = emitter.reshape(source.elements, (source.length, *shape))
        order = list(range(1, stacked.rank))
        return emitter.transpose(stacked, [*order[:axis], 0, *order[axis:]])
    if axis == 0:
        return emitter.reshape(source.elements, tuple(shape))

    def iterate(number: Dim, states: list[Tensor]) -> Step:
        whole, start = states
        (begin,) = emitter.run_time_extents(start)
        part = packed.element(emitter, source, number)
        same = tuple(part.shape[axis] if i == axis else extent for i, extent in enumerate(shape))
        # `first_shape` has compared the other extents.
        part = emitter.slice(part, [dim(0)] * part.rank, same, [1] * part.rank)
        filled = Tensor(whole.shape, whole.dtype, emitter.insert(part, emitter.value(whole), axis, begin))
        return Step([filled, symbolic(np.array(begin + part.shape[axis], dtype=object), INT64)])

    begin = [
        Tensor(tuple(shape), source.dtype, emitter.empty(tuple(shape), source.dtype)),
        constant(np.asarray(0, np.int64), INT64),
    ]
    return loop(emitter, begin, iterate, trip=source.length).states[0]


@onnx_op("SplitToSequence", how="views, or one buffer where only run time knows how many parts there are", texts=True)
def convert_split(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Consecutive parts of a tensor along an axis; without sizes, one of each position."""
    x, given = op.input(0), op.optional(1)
    axis = normalize_axis(op, op.attr("axis", 0), x.rank)
    extent, keep = x.shape[axis], bool(op.attr("keepdims", 1)) or given is not None
    if given is not None and given.rank == 1:
        if given.size is None:
            table = emitter.value(given)
            return packed.split(emitter, x, axis, given.shape[0], lambda number: _read(emitter, table, number))
        sizes = emitter.run_time_extents(given)
        check_parts(emitter, op, sizes, extent)
        return _parts(emitter, x, axis, sizes, keep=True)
    size = dim(1) if given is None else emitter.run_time_extents(given)[0]
    if size.value is not None and extent.value is not None:
        op.require(size.value > 0, f"parts of {size}")
        starts = range(0, extent.value, size.value)
        return _parts(emitter, x, axis, [dim(min(size.value, extent.value - start)) for start in starts], keep=keep)
    positive = arith.cmpi(arith.CmpIPredicate.sgt, emitter.index_value(size), emitter.index_value(dim(0)))
    emitter.check(positive, "SplitToSequence: the size of a part is not positive")
    count = (extent + size - 1) // size
    return packed.split(emitter, x, axis, count, lambda number: size.minimum(extent - number * size), keep=keep)


def _read(emitter: Emitter, table: Any, number: Dim) -> Dim:
    """An element of a vector of integers."""
    found = tensor.extract(table, [emitter.index_value(number)])
    return emitter.fresh_symbol(arith.index_cast(ir.IndexType.get(), found), signed=True)


def _parts(emitter: Emitter, x: Tensor, axis: int, sizes: Sequence[Dim], *, keep: bool) -> TensorList:
    parts, start = [], dim(0)
    for size in sizes:
        starts = [start if i == axis else dim(0) for i in range(x.rank)]
        shape = tuple(size if i == axis else x.shape[i] for i in range(x.rank))
        part = emitter.slice(x, starts, shape, [1] * x.rank)
        parts.append(part if keep else emitter.reshape(part, (*shape[:axis], *shape[axis + 1 :])))
        start = start + size
    return TensorList(parts, x.dtype)


@onnx_op("SequenceMap", since=17, how="the subgraph for every tensor; scf.for where their number is of run time",
         limits=RANKS, sequences=True, texts=True)  # fmt: skip
def convert_map(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """A subgraph applied to every tensor of a sequence; tensors among the other inputs go to each."""
    body: Subgraph = op.attr("body")
    _source(op)
    sources = [op.input(i) for i in range(len(op.inputs))]
    if any(isinstance(source, Packed) for source in sources):
        return _map_packed(
            emitter, op, body, [_packed(emitter, s) if isinstance(s, TensorList) else s for s in sources]
        )
    lists = [source.elements for source in sources if isinstance(source, TensorList)]
    length = len(lists[0])
    op.require(all(len(elements) == length for elements in lists), "sequences of different lengths")
    rows = [
        body.convert([source.elements[i] if isinstance(source, TensorList) else source for source in sources])
        for i in range(length)
    ]
    return [TensorList([row[output] for row in rows]) for output in range(op.outputs)]


def _map_packed(emitter: Emitter, op: OnnxOp, body: Subgraph, sources: list[Tensor]) -> list[Tensor]:
    lengths = [source.length for source in sources if isinstance(source, Packed)]
    for length in lengths:
        emitter.check_equal(lengths[0], length, "SequenceMap: sequences of different lengths")

    def row(number: Dim) -> list[Tensor]:
        return body.convert([packed.element(emitter, s, number) if isinstance(s, Packed) else s for s in sources])

    def attempt(agreement: Agreement) -> LoopResult:
        def iterate(number: Dim, parts: list[Tensor]) -> Step:
            made = [
                packed.append(emitter, _packed(emitter, sequence), added)
                for sequence, added in zip(agreement.values(parts), row(number), strict=True)
                if isinstance(sequence, (TensorList, Packed))
            ]
            return Step(agreement.parts(emitter, made))

        result = loop(emitter, agreement.parts(emitter, empty), iterate, trip=lengths[0])
        return replace(result, states=agreement.values(result.states))

    empty = [TensorList([], dtype) for dtype in _result_dtypes(emitter, row)][: op.outputs]
    return agreed(attempt, [form_of(sequence) for sequence in empty]).states


def _result_dtypes(emitter: Emitter, row: Callable[[Dim], list[Tensor]]) -> list[DType]:
    """Element types of what a subgraph gives, from a conversion that is thrown away."""
    holder = region_holder(1)
    try:
        block = holder.regions[0].blocks.append(ir.IndexType.get())
        with ir.InsertionPoint(block), emitter.scope():
            return [result.dtype for result in row(emitter.fresh_symbol(block.arguments[0]))]
    finally:
        holder.erase()


@onnx_op("Optional", since=15, how=GONE, sequences=True, texts=True)
def convert_optional(emitter: Emitter, op: OnnxOp) -> Tensor:
    """An optional that holds the input, or nothing."""
    op.ignore("type")
    return op.optional(0) or Absent()


@onnx_op("OptionalHasElement", since=15, how=GONE, sequences=True, texts=True)
def convert_has_element(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Whether an optional holds something."""
    source = op.optional(0)
    if not isinstance(source, Maybe):
        return constant(np.asarray(source is not None), BOOL)
    if source.present is not None:
        return source.present
    length = emitter.extent_scalar(source.held.length, INT64)
    return emitter.elementwise(lambda n: n != 0, [length], BOOL)


@onnx_op("OptionalGetElement", since=15, how=GONE, limits=RANKS, sequences=True, texts=True)
def convert_get_element(emitter: Emitter, op: OnnxOp) -> Tensor:
    """What an optional holds."""
    source = op.optional(0)
    op.require(source is not None, "the optional is empty")
    assert source is not None
    return packed.required(emitter, source) if isinstance(source, Maybe) else source
