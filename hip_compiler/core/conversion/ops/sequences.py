"""Sequences and optionals, where the compiler can tell what they hold: they are gone from the program it makes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, Subgraph, onnx_op
from hip_compiler.core.conversion.ops.shape import joined, normalize_axis
from hip_compiler.core.conversion.tensors import Absent, Tensor, TensorList, constant
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import Dim, dim

INT64, BOOL = BY_NAME["int64"], BY_NAME["bool"]
GONE = "resolved at compile time"
KNOWN = "length and positions known at compile time; no sequence is an input or output of the model"


def _elements(op: OnnxOp, index: int = 0) -> tuple[Tensor, ...]:
    source = op.input(index)
    op.require(isinstance(source, TensorList), f"input {index} is a tensor, not a sequence")
    assert isinstance(source, TensorList)
    return source.elements


def _position(op: OnnxOp, index: int, length: int, *, past_end: int = 0) -> int | None:
    """A position, counted from the front; None where the input is absent."""
    given = op.constant(index)
    if given is None:
        return None
    at = int(given.reshape(()))
    op.require(-length <= at < length + past_end, f"position {at} of a sequence of {length}")
    return at + length if at < 0 else at


@onnx_op("SequenceConstruct", how=GONE, limits=KNOWN)
def convert_construct(emitter: Emitter, op: OnnxOp) -> Tensor:
    """A sequence of the inputs."""
    return TensorList([op.input(i) for i in range(len(op.inputs))])


@onnx_op("SequenceEmpty", how=GONE, limits=KNOWN)
def convert_empty(emitter: Emitter, op: OnnxOp) -> Tensor:
    """A sequence of no tensors."""
    op.ignore("dtype")
    return TensorList([])


@onnx_op("SequenceInsert", how=GONE, limits=KNOWN, sequences=True)
def convert_insert(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The sequence with one more tensor, at its end unless a position is given."""
    elements = _elements(op)
    at = _position(op, 2, len(elements), past_end=1)
    cut = len(elements) if at is None else at
    return TensorList([*elements[:cut], op.input(1), *elements[cut:]])


@onnx_op("SequenceErase", how=GONE, limits=KNOWN, sequences=True)
def convert_erase(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The sequence without one tensor, the last unless a position is given."""
    elements = _elements(op)
    op.require(len(elements) > 0, "an empty sequence")
    at = _position(op, 1, len(elements))
    cut = len(elements) - 1 if at is None else at
    return TensorList([*elements[:cut], *elements[cut + 1 :]])


@onnx_op("SequenceAt", how=GONE, limits=KNOWN, sequences=True)
def convert_at(emitter: Emitter, op: OnnxOp) -> Tensor:
    """One tensor of a sequence."""
    elements = _elements(op)
    at = _position(op, 1, len(elements))
    op.require(at is not None, "required input 1 is absent")
    return elements[at or 0]


@onnx_op("SequenceLength", how=GONE, limits=KNOWN, sequences=True)
def convert_length(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The number of tensors in a sequence."""
    return constant(np.asarray(len(_elements(op)), np.int64), INT64)


@onnx_op("ConcatFromSequence", how="copies into one buffer", limits=KNOWN, sequences=True)
def convert_concat(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The tensors of a sequence side by side along an axis, which may be a new one."""
    elements, axis = list(_elements(op)), op.attr("axis")
    op.require(len(elements) > 0, "an empty sequence")
    if op.attr("new_axis", 0):
        rank = elements[0].rank
        op.require(-rank - 1 <= axis <= rank, f"axis {axis} of {rank + 1} dimensions")
        axis %= rank + 1
        elements = [emitter.reshape(x, (*x.shape[:axis], dim(1), *x.shape[axis:])) for x in elements]
    return joined(emitter, op, elements, axis)


@onnx_op("SplitToSequence", how="views", limits=f"{KNOWN}; parts of one size need a known extent")
def convert_split(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Consecutive parts of a tensor along an axis; without sizes, one of each position."""
    x, given = op.input(0), op.optional(1)
    axis = normalize_axis(op, op.attr("axis", 0), x.rank)
    extent, keep = x.shape[axis], op.attr("keepdims", 1) or given is not None
    if given is not None and given.rank == 1:
        sizes: Sequence[Dim] = emitter.run_time_extents(given)
        emitter.check_equal(sum(sizes, dim(0)), extent, "SplitToSequence")
    else:
        each, length = op.constant(1), extent.value
        op.require(length is not None, f"the number of parts depends on the extent {extent}, which is not known")
        size = 1 if each is None else int(each.reshape(()))
        op.require(size > 0, f"parts of {size}")
        sizes = [dim(min(size, (length or 0) - start)) for start in range(0, length or 0, size)]
    parts, start = [], dim(0)
    for size_here in sizes:
        starts = [start if i == axis else dim(0) for i in range(x.rank)]
        shape = tuple(size_here if i == axis else x.shape[i] for i in range(x.rank))
        part = emitter.slice(x, starts, shape, [1] * x.rank)
        parts.append(part if keep else emitter.reshape(part, (*shape[:axis], *shape[axis + 1 :])))
        start = start + size_here
    return TensorList(parts)


@onnx_op("SequenceMap", since=17, how=GONE, limits=KNOWN, sequences=True)
def convert_map(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """A subgraph applied to every tensor of a sequence; tensors among the other inputs go to each."""
    body: Subgraph = op.attr("body")
    sources = [op.input(i) for i in range(len(op.inputs))]
    length = len(_elements(op))
    lists = [source.elements for source in sources if isinstance(source, TensorList)]
    op.require(all(len(elements) == length for elements in lists), "sequences of different lengths")
    rows = [
        body.convert([source.elements[i] if isinstance(source, TensorList) else source for source in sources])
        for i in range(length)
    ]
    return [TensorList([row[output] for row in rows]) for output in range(op.outputs)]


@onnx_op("Optional", since=15, how=GONE, limits="no optional is an input or output of the model", sequences=True)
def convert_optional(emitter: Emitter, op: OnnxOp) -> Tensor:
    """An optional that holds the input, or nothing."""
    op.ignore("type")
    return op.optional(0) or Absent()


@onnx_op("OptionalHasElement", since=15, how=GONE, limits="no optional is an input of the model", sequences=True)
def convert_has_element(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Whether an optional holds something."""
    return constant(np.asarray(op.optional(0) is not None), BOOL)


@onnx_op("OptionalGetElement", since=15, how=GONE, limits="no optional is an input of the model", sequences=True)
def convert_get_element(emitter: Emitter, op: OnnxOp) -> Tensor:
    """What an optional holds."""
    held = op.optional(0)
    op.require(held is not None, "the optional is empty")
    assert held is not None
    return held
