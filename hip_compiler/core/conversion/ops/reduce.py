"""Reductions over axes: a row each, as a generic loop between two elementwise functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.in_doubles import DOUBLE, within
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import BOOLS, FLOATS, NUMBERS, select
from hip_compiler.core.conversion.reduced_axes import reduced_axes
from hip_compiler.core.conversion.scalars import Scalar, compute_dtype, literal
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.shapes import dim, product

WIDE_INTEGERS = frozenset({"int32", "int64", "uint32", "uint64"})


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
    return x.apply("sqrt") if x.is_float else x.cast(DOUBLE).apply("sqrt").cast(x.dtype)


ROWS: dict[str, Row] = {
    "ReduceSum": Row("sum", NUMBERS),
    "ReduceMean": Row("sum", NUMBERS, mean=True),
    "ReduceProd": Row("product", NUMBERS),
    "ReduceMax": Row("max", NUMBERS | BOOLS),
    "ReduceMin": Row("min", NUMBERS | BOOLS),
    "ReduceL1": Row("sum", NUMBERS, before=abs),
    "ReduceL2": Row("sum", NUMBERS, before=lambda x: x * x, after=_root),
    "ReduceSumSquare": Row("sum", NUMBERS, before=lambda x: x * x),
}
_LOG_SUM = Row("sum", FLOATS, after=lambda x: x.apply("log"))


def _convert(emitter: Emitter, op: OnnxOp, row: Row) -> Tensor:
    x = op.input(0)
    axes = reduced_axes(emitter, op, x.shape)
    if axes is None:
        return emitter.elementwise(lambda v: row.after(row.before(v)), [x], x.dtype)
    prepared = x if row.before is _same else emitter.elementwise(row.before, [x], compute_dtype(x.dtype))
    total = axes.reduce(emitter, prepared, row.kind)
    if row.mean:
        count = emitter.extent_scalar(axes.count, total.dtype)
        total = emitter.elementwise(lambda v, n: v / n, [total, count], total.dtype)
    if row.after is not _same:
        total = emitter.elementwise(row.after, [total], total.dtype)
    return emitter.reshape(emitter.cast(total, x.dtype), axes.result)


def _register(name: str, row: Row) -> None:
    @onnx_op(name, how="linalg.generic", dtypes=row.dtypes)
    def convert(emitter: Emitter, op: OnnxOp) -> Tensor:
        return _convert(emitter, op, row)


for _name, _row in ROWS.items():
    _register(_name, _row)


def _log_sum_exp(emitter: Emitter, op: OnnxOp) -> Tensor:
    """log(sum(exp(x))), with the maximum taken out so that nothing overflows."""
    x = op.input(0)
    axes = reduced_axes(emitter, op, x.shape)
    if axes is None:
        return x
    largest = emitter.reshape(axes.reduce(emitter, x, "max"), axes.kept)
    finite = emitter.elementwise(_finite_or_zero, [largest], largest.dtype)

    def power(v: Scalar, m: Scalar) -> Scalar:
        return (v.cast(m.dtype) - m).apply("exp")

    powers = emitter.elementwise(power, [x, finite], largest.dtype, x.shape)
    total = emitter.reshape(axes.reduce(emitter, powers, "sum"), axes.kept)
    result = emitter.elementwise(lambda s, m: s.apply("log") + m, [total, finite], x.dtype)
    return emitter.reshape(result, axes.result)


def _finite_or_zero(x: Scalar) -> Scalar:
    return select(abs(x) < float("inf"), x, 0.0, x)


onnx_op("ReduceLogSum", since=28, how="linalg.generic", dtypes=FLOATS)(partial(_convert, row=_LOG_SUM))
onnx_op("ReduceLogSumExp", since=28, how="linalg.generic", dtypes=FLOATS)(_log_sum_exp)


@onnx_op("ReduceLogSum", "ReduceLogSumExp", until=27, how="linalg.generic", dtypes=FLOATS | WIDE_INTEGERS)
def convert_logarithm(emitter: Emitter, op: OnnxOp) -> Tensor:
    """When they were for integers, too: the logarithm of the doubles, cut, and within the range of the type."""
    x = op.input(0)
    convert = _log_sum_exp if op.op == "ReduceLogSumExp" else partial(_convert, row=_LOG_SUM)
    if x.dtype.kind == "float":
        return convert(emitter, op)
    logarithm = convert(emitter, replace(op, inputs=[emitter.cast(x, DOUBLE), *op.inputs[1:]]))
    return emitter.elementwise(lambda v: within(v, x.dtype), [logarithm], x.dtype)


@onnx_op("GlobalLpPool", how="linalg.generic", dtypes=FLOATS)
def convert_global_lp_pool(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The p-norm over the spatial axes."""
    x = op.input(0)
    op.require(x.rank >= 3, f"rank {x.rank}")
    order = float(op.attr("p", 2))
    op.require(order > 0, f"a norm of order {order:g}")
    wide = compute_dtype(x.dtype)

    def power(v: Scalar) -> Scalar:
        size = abs(v)
        return size if order == 1 else size * size if order == 2 else size.apply("powf", literal(order, wide))

    def root(v: Scalar) -> Scalar:
        if order == 1:
            return v
        return v.apply("sqrt") if order == 2 else v.apply("powf", literal(1 / order, wide))

    total = emitter.reduce(emitter.elementwise(power, [x], wide), tuple(range(2, x.rank)), "sum")
    result = emitter.elementwise(root, [total], x.dtype)
    return emitter.reshape(result, (*x.shape[:2], *(dim(1) for _ in range(2, x.rank))))


@onnx_op("GlobalAveragePool", "GlobalMaxPool", how="linalg.generic", dtypes=FLOATS)
def convert_global_pool(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Mean or maximum over the spatial axes."""
    x = op.input(0)
    op.require(x.rank >= 3, f"rank {x.rank}")
    axes = tuple(range(2, x.rank))
    shape = (*x.shape[:2], *(dim(1) for _ in axes))
    if op.op == "GlobalMaxPool":
        return emitter.reshape(emitter.cast(emitter.reduce(x, axes, "max"), x.dtype), shape)
    total = emitter.reduce(x, axes, "sum")
    count = emitter.extent_scalar(product(x.shape[2:]), total.dtype)
    return emitter.reshape(emitter.elementwise(lambda v, n: v / n, [total, count], x.dtype), shape)
