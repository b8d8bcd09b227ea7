"""Einsum: diagonals and sums of single operands, then products of pairs as matrix products or broadcasts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import NUMBERS
from hip_compiler.core.conversion.scalars import compute_dtype
from hip_compiler.core.conversion.subscripts import Labels, read_equation
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.shapes import Dim, dim, product


@dataclass(frozen=True)
class _Labelled:
    """A tensor with a label per axis, no label twice."""

    tensor: Tensor
    labels: Labels

    def extent(self, label: str) -> Dim:
        return self.tensor.shape[self.labels.index(label)]

    def extents(self, labels: Sequence[str]) -> tuple[Dim, ...]:
        return tuple(self.extent(label) for label in labels)


@onnx_op("Einsum", since=12, how="hip.matmul and linalg.generic", dtypes=NUMBERS)
def convert_einsum(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Sums of products over labelled axes."""
    inputs = [op.input(i) for i in range(len(op.inputs))]
    dtype = inputs[0].dtype
    op.require(dtype.name in NUMBERS, f"element type {dtype} is not defined for it")
    subscripts = read_equation(op.attr("equation"), [x.rank for x in inputs])
    if len(inputs) != 2:
        # Intermediate results are not rounded to half precision.
        inputs = [emitter.cast(x, compute_dtype(dtype)) for x in inputs]
    operands = [_diagonal(emitter, x, labels) for x, labels in zip(inputs, subscripts.operands, strict=True)]
    operands = _without_broadcast_ones(emitter, operands)
    operands = [
        _summed(emitter, operand, {*subscripts.result, *_labels_of(operands[:i]), *_labels_of(operands[i + 1 :])})
        for i, operand in enumerate(operands)
    ]
    total = operands[0]
    for number, operand in enumerate(operands[1:], 2):
        total = _product(emitter, total, operand, {*subscripts.result, *_labels_of(operands[number:])})
    order = [total.labels.index(label) for label in subscripts.result]
    return emitter.cast(emitter.transpose(total.tensor, order), dtype)


def _labels_of(operands: Sequence[_Labelled]) -> set[str]:
    return {label for operand in operands for label in operand.labels}


def _diagonal(emitter: Emitter, x: Tensor, labels: Labels) -> _Labelled:
    """Axes of one label become one: their diagonal."""
    distinct = tuple(dict.fromkeys(labels))
    if len(distinct) == len(labels):
        return _Labelled(x, labels)
    for axis, label in enumerate(labels):
        emitter.check_equal(x.shape[labels.index(label)], x.shape[axis], f"Einsum, axes labelled {label}")
    shape = tuple(x.shape[labels.index(label)] for label in distinct)
    places = [distinct.index(label) for label in labels]
    return _Labelled(emitter.index_map(x, shape, lambda loops: [loops[place] for place in places]), distinct)


def _without_broadcast_ones(emitter: Emitter, operands: Sequence[_Labelled]) -> list[_Labelled]:
    """Extents of 1 that stand beside longer ones of the same label are dropped: they broadcast."""
    longer = {label for x in operands for label in x.labels if x.extent(label).value != 1}
    found = []
    for x in operands:
        kept = tuple(label for label in x.labels if x.extent(label).value != 1 or label not in longer)
        found.append(_Labelled(emitter.reshape(x.tensor, x.extents(kept)), kept))
    return found


def _summed(emitter: Emitter, x: _Labelled, needed: Collection[str]) -> _Labelled:
    """Labels that nothing else needs are summed over."""
    axes = [axis for axis, label in enumerate(x.labels) if label not in needed]
    if not axes:
        return x
    total = emitter.cast(emitter.reduce(x.tensor, axes, "sum"), x.tensor.dtype)
    return _Labelled(total, tuple(label for label in x.labels if label in needed))


def _product(emitter: Emitter, a: _Labelled, b: _Labelled, needed: Collection[str]) -> _Labelled:
    """Product of two operands, summed over the common labels that nothing else needs."""
    common = [label for label in a.labels if label in b.labels]
    for label in common:
        emitter.check_equal(a.extent(label), b.extent(label), f"Einsum, axes labelled {label}")
    batch = [label for label in common if label in needed]
    inner = [label for label in common if label not in needed]
    rows = [label for label in a.labels if label not in common]
    columns = [label for label in b.labels if label not in common]
    labels = (*batch, *rows, *columns)
    shape = (*a.extents(batch), *a.extents(rows), *b.extents(columns))
    if not inner:
        ones = (dim(1),) * len(rows)
        left = emitter.reshape(
            _ordered(emitter, a, [*batch, *rows]), shape[: len(batch) + len(rows)] + (dim(1),) * len(columns)
        )
        right = emitter.reshape(
            _ordered(emitter, b, [*batch, *columns]), (*a.extents(batch), *ones, *b.extents(columns))
        )
        return _Labelled(emitter.elementwise(lambda v, w: v * w, [left, right], left.dtype, shape), labels)
    lead = (product(a.extents(batch)),) if batch else ()
    m, k, n = product(a.extents(rows)), product(a.extents(inner)), product(b.extents(columns))
    # Operands that lie the other way round are read that way, which saves a copy.
    trans_a = bool(rows) and list(a.labels) == [*batch, *inner, *rows]
    trans_b = bool(columns) and list(b.labels) == [*batch, *columns, *inner]
    left = _ordered(emitter, a, [*batch, *inner, *rows] if trans_a else [*batch, *rows, *inner])
    right = _ordered(emitter, b, [*batch, *columns, *inner] if trans_b else [*batch, *inner, *columns])
    inputs = {
        "a": emitter.reshape(left, (*lead, k, m) if trans_a else (*lead, m, k)),
        "b": emitter.reshape(right, (*lead, n, k) if trans_b else (*lead, k, n)),
        "bias": None,
        "residual": None,
    }
    [result] = emitter.hip("hip.matmul", inputs, [left.dtype], [(*lead, m, n)], trans_a=trans_a, trans_b=trans_b)
    return _Labelled(emitter.reshape(result, shape), labels)


def _ordered(emitter: Emitter, x: _Labelled, labels: Sequence[str]) -> Tensor:
    return emitter.transpose(x.tensor, [x.labels.index(label) for label in labels])
