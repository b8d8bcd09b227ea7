"""Reductions over axes: a row each, as a generic loop between two elementwise functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import BOOLS, FLOATS, NUMBERS, select
from hip_compiler.core.conversion.ops.shape import normalize_axis
from hip_compiler.core.conversion.scalars import Scalar, compute_dtype
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim, product

_DOUBLE = BY_NAME["double"]


def _same(x: Scalar) -> Scalar:
    return x


@dataclass(frozen=True)
class Row:
    """A reduction.

    Attributes:
        kind: key of `REDUCTIONS`.
        before: applied to every element.
        after: applied to every result.
        mean: the result is divided by the number of reduced elements.
    """

    kind: str
    dtypes: frozenset[str]
    before: Callable[[Scalar], Scalar] = _same
    after: Callable[[Scalar], Scalar] = _same
    mean: bool = False


def _root(x: Scalar) -> Scalar:
    return x.apply("sqrt") if x.is_float else x.cast(_DOUBLE).apply("sqrt").cast(x.dtype)


def _logarithm(x: Scalar) -> Scalar:
    return x.apply("log")


ROWS: dict[str, Row] = {
    "ReduceSum": Row("sum", NUMBERS),
    "ReduceMean": Row("sum", NUMBERS, mean=True),
    "ReduceProd": Row("product", NUMBERS),
    "ReduceMax": Row("max", NUMBERS | BOOLS),
    "ReduceMin": Row("min", NUMBERS | BOOLS),
    "ReduceL1": Row("sum", NUMBERS, before=abs),
    "ReduceL2": Row("sum", NUMBERS, before=lambda x: x * x, after=_root),
    "ReduceSumSquare": Row("sum", NUMBERS, before=lambda x: x * x),
    "ReduceLogSum": Row("sum", FLOATS, after=_logarithm),
}


def reduced_axes(op: OnnxOp, rank: int) -> tuple[int, ...] | None:
    """Axes of a reduction; None: the operator does nothing (no axes, and `noop_with_empty_axes`)."""
    axes = op.ints("axes", 1)
    noop = op.attr("noop_with_empty_axes", 0)
    if axes:
        return tuple(sorted({normalize_axis(op, axis, rank) for axis in axes}))
    return None if noop else tuple(range(rank))


def keep_axes(emitter: Emitter, op: OnnxOp, source: Tensor, reduced: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The reduced axes put back as extents of 1, when the operator asks for it."""
    if not op.attr("keepdims", 1):
        return reduced
    return emitter.reshape(reduced, tuple(dim(1) if i in axes else e for i, e in enumerate(source.shape)))


def _convert(emitter: Emitter, op: OnnxOp, row: Row) -> Tensor:
    x = op.input(0)
    op.require(x.dtype.name in row.dtypes, f"element type {x.dtype} is not defined for it")
    axes = reduced_axes(op, x.rank)
    if axes is None:
        op.ignore("keepdims")
        return emitter.elementwise(lambda v: row.after(row.before(v)), [x], x.dtype)
    prepared = x if row.before is _same else emitter.elementwise(row.before, [x], compute_dtype(x.dtype))
    total = emitter.reduce(prepared, axes, row.kind, None if x.dtype.kind != "bool" else x.dtype)
    if row.mean:
        count = emitter.extent_scalar(product([x.shape[axis] for axis in axes]), total.dtype)
        total = emitter.elementwise(lambda v, n: v / n, [total, count], total.dtype)
    if row.after is not _same:
        total = emitter.elementwise(row.after, [total], total.dtype)
    return keep_axes(emitter, op, x, emitter.cast(total, x.dtype), axes)


def _register(name: str, row: Row) -> None:
    @onnx_op(name, how="linalg.generic")
    def convert(emitter: Emitter, op: OnnxOp) -> Tensor:
        return _convert(emitter, op, row)


for _name, _row in ROWS.items():
    _register(_name, _row)


@onnx_op("ReduceLogSumExp", how="linalg.generic")
def convert_log_sum_exp(emitter: Emitter, op: OnnxOp) -> Tensor:
    """log(sum(exp(x))), with the maximum taken out so that nothing overflows."""
    x = op.input(0)
    op.require(x.dtype.name in FLOATS, f"element type {x.dtype} is not defined for it")
    axes = reduced_axes(op, x.rank)
    if axes is None:
        op.ignore("keepdims")
        return x
    kept = tuple(dim(1) if i in axes else e for i, e in enumerate(x.shape))
    largest = emitter.reshape(emitter.reduce(x, axes, "max"), kept)
    finite = emitter.elementwise(_finite_or_zero, [largest], largest.dtype)
    powers = emitter.elementwise(lambda v, m: (v.cast(m.dtype) - m).apply("exp"), [x, finite], largest.dtype)
    total = emitter.reshape(emitter.reduce(powers, axes, "sum"), kept)
    result = emitter.elementwise(lambda s, m: s.apply("log") + m, [total, finite], x.dtype)
    if op.attr("keepdims", 1):
        return result
    return emitter.reshape(result, tuple(e for i, e in enumerate(x.shape) if i not in axes))


def _finite_or_zero(x: Scalar) -> Scalar:
    return select(abs(x) < float("inf"), x, 0.0, x)


@onnx_op("GlobalAveragePool", "GlobalMaxPool", how="linalg.generic")
def convert_global_pool(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Mean or maximum over the spatial axes."""
    x = op.input(0)
    op.require(x.dtype.name in FLOATS and x.rank >= 3, f"element type {x.dtype}, rank {x.rank}")
    axes = tuple(range(2, x.rank))
    shape = (*x.shape[:2], *(dim(1) for _ in axes))
    if op.op == "GlobalMaxPool":
        return emitter.reshape(emitter.cast(emitter.reduce(x, axes, "max"), x.dtype), shape)
    total = emitter.reduce(x, axes, "sum")
    count = emitter.extent_scalar(product(x.shape[2:]), total.dtype)
    return emitter.reshape(emitter.elementwise(lambda v, n: v / n, [total, count], x.dtype), shape)
