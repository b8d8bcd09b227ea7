"""Contents known at compile time: small integer tensors computed on extents, so that shape arithmetic costs nothing.

Exporters compute shapes with chains such as Shape, Gather, Concat, Reshape. The rules here follow such chains on
arrays of `Dim`, which NumPy treats as objects; what they yield needs no operation at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hip_compiler.core.conversion.onnx_op import OnnxOp
from hip_compiler.core.conversion.tensors import Tensor, constant, symbolic
from hip_compiler.dtypes import BY_NAME, BY_NUMPY, BY_ONNX, DType
from hip_compiler.shapes import Dim, dim, not_negative

INT64 = BY_NAME["int64"]
MAX_ELEMENTS = 1024
"""Contents of more elements are left to run time."""

Rule = Callable[..., np.ndarray | None]
"""Arrays of the inputs, then the operator; None when the rule does not decide."""


def evaluate(op: OnnxOp) -> Tensor | None:
    """The result of an operator whose inputs' contents are all known, if a rule covers it."""
    rule = RULES.get(op.op) if not op.domain else None
    sources = [source for source in op.inputs if source is not None]
    if rule is None or not sources or any(source.contents is None for source in sources):
        return None
    if any(source.dtype.kind not in ("int", "bool") for source in sources):
        return None
    arrays = [None if source is None else source.contents for source in op.inputs]
    try:
        result = rule(op, *arrays)
    except (IndexError, ValueError):
        # Contents that contradict the operator: its converter says so.
        return None
    if isinstance(result, Dim):
        result = objects(result).reshape(())  # what NumPy makes of one element of an object array
    if result is None or result.size > MAX_ELEMENTS:
        return None
    return _tensor(result, _result_dtype(op, sources[0].dtype))


def _tensor(array: np.ndarray, dtype: DType) -> Tensor:
    if array.dtype == object:
        return symbolic(array, dtype)
    return constant(np.asarray(array, dtype=dtype.numpy), dtype)


def _result_dtype(op: OnnxOp, first: DType) -> DType:
    if op.op == "Cast":
        return BY_ONNX[op.attr("to")]
    if op.op == "ConstantOfShape":
        return BY_NUMPY[np.asarray(op.attr("value")).dtype]
    return BY_NAME["bool"] if op.op in ("Equal", "Not") else first


def objects(*extents: Dim) -> np.ndarray:
    """Extents as an array, [number of extents]."""
    array = np.empty(len(extents), dtype=object)
    array[:] = extents
    return array


def _gather(op: OnnxOp, data: np.ndarray, indices: np.ndarray) -> np.ndarray | None:
    if indices.dtype == object:
        return None
    return np.take(data, indices, axis=op.attr("axis", 0))


def _concat(op: OnnxOp, *parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts, axis=op.attr("axis"))


def _slice(op: OnnxOp, data: np.ndarray, *inputs: np.ndarray | None) -> np.ndarray | None:
    if any(array is not None and array.dtype == object for array in inputs):
        return None
    given = [None if array is None else [int(v) for v in array.flat] for array in (*inputs, None, None)]
    starts: list[int] = given[0] or [] if op.version >= 10 else op.attr("starts")
    ends: list[int] = given[1] or [] if op.version >= 10 else op.attr("ends")
    axes = (given[2] if op.version >= 10 else op.attr("axes")) or range(len(starts))
    steps = given[3] or [1] * len(starts)
    window = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        window[axis] = cut(start, end, step, data.shape[axis])
    return data[tuple(window)]


def cut(start: int, end: int, step: int, extent: int) -> slice:
    """A slice of ONNX as one of Python: ONNX clamps bounds before it steps; Python, backwards, in other places."""
    start = start + extent if start < 0 else start
    end = end + extent if end < 0 else end
    if step > 0:
        return slice(min(max(start, 0), extent), min(max(end, 0), extent), step)
    start, end = min(max(start, 0), extent - 1), min(max(end, -1), extent - 1)
    return slice(start, None if end < 0 else end, step) if extent else slice(0, 0)


def _axes(op: OnnxOp, rest: Sequence[np.ndarray | None]) -> tuple[int, ...] | None:
    if rest and rest[0] is not None:
        return tuple(int(v) for v in rest[0].flat)
    axes = op.attr("axes")
    return None if axes is None else tuple(axes)


def _squeeze(op: OnnxOp, data: np.ndarray, *rest: np.ndarray | None) -> np.ndarray:
    return np.squeeze(data, axis=_axes(op, rest))


def _unsqueeze(op: OnnxOp, data: np.ndarray, *rest: np.ndarray | None) -> np.ndarray:
    return np.expand_dims(data, _axes(op, rest) or ())


def _reshape(op: OnnxOp, data: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    if target.dtype == object or op.attr("allowzero", 0):
        return None
    shape = [data.shape[i] if v == 0 else int(v) for i, v in enumerate(target.flat)]
    return data.reshape(shape)


def _transpose(op: OnnxOp, data: np.ndarray) -> np.ndarray:
    return np.transpose(data, op.attr("perm"))


def _cast(op: OnnxOp, data: np.ndarray) -> np.ndarray | None:
    to = BY_ONNX[op.attr("to")]
    op.ignore("saturate", "round_mode")
    if to.name == "bool" and data.dtype != object:
        return data.astype(np.bool_)
    if to.name not in ("int64", "int32"):
        return None
    return data if data.dtype == object else data.astype(to.numpy)


def _arithmetic(function: Callable[[Any, Any], Any]) -> Rule:
    def rule(op: OnnxOp, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(function(a, b))

    return rule


def _div(op: OnnxOp, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    if b.dtype == object or (b == 0).any():
        return None
    if a.dtype == object:
        return np.asarray(a // b) if (b > 0).all() else None
    return (np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)


def _equal(op: OnnxOp, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """Equality of numbers; an extent never equals a negative number."""
    left, right = np.broadcast_arrays(a, b)
    decided = np.empty(left.shape, dtype=bool)
    for position in np.ndindex(left.shape):
        x, y = _dim(left[position]), _dim(right[position])
        if x == y:
            decided[position] = True
        elif (x.value is not None and y.value is not None) or (
            (x.value if x.value is not None else y.value or 0) < 0 and not_negative(x if x.value is None else y)
        ):
            decided[position] = False
        else:
            return None
    return decided


def _dim(value: Any) -> Dim:
    return value if isinstance(value, Dim) else dim(int(value))


def _where(op: OnnxOp, condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    if condition.dtype == object:
        return None
    return np.where(condition, x, y)


def _expand(op: OnnxOp, data: np.ndarray, shape: np.ndarray) -> np.ndarray | None:
    if shape.dtype == object:
        return None
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(int(v) for v in shape)))


def _range(op: OnnxOp, start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> np.ndarray | None:
    if object in (start.dtype, limit.dtype, delta.dtype) or not delta.all():
        return None
    return np.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


def _reduce_prod(op: OnnxOp, data: np.ndarray, *rest: np.ndarray | None) -> np.ndarray:
    op.ignore("noop_with_empty_axes")
    product: Any = np.multiply.reduce
    return np.asarray(product(data, axis=_axes(op, rest) or None, keepdims=bool(op.attr("keepdims", 1))))


def _constant_of_shape(op: OnnxOp, shape: np.ndarray) -> np.ndarray | None:
    value = np.asarray(op.attr("value", np.zeros(1, np.float32)))
    if shape.dtype == object or value.dtype.kind != "i" or np.prod(shape) > MAX_ELEMENTS:
        return None
    return np.full(tuple(int(v) for v in shape), value.reshape(()), dtype=value.dtype)


def _not(op: OnnxOp, data: np.ndarray) -> np.ndarray:
    return ~data


def _extreme(name: str) -> Rule:
    def rule(op: OnnxOp, *arrays: np.ndarray) -> np.ndarray | None:
        if any(array.dtype == object for array in arrays):
            return None
        result = arrays[0]
        for array in arrays[1:]:
            result = getattr(np, name)(result, array)
        return np.asarray(result)

    return rule


RULES: dict[str, Rule] = {
    "Gather": _gather,
    "Concat": _concat,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Cast": _cast,
    "Identity": lambda op, data: data,
    "Add": _arithmetic(lambda a, b: a + b),
    "Sub": _arithmetic(lambda a, b: a - b),
    "Mul": _arithmetic(lambda a, b: a * b),
    "Div": _div,
    "Max": _extreme("maximum"),
    "Min": _extreme("minimum"),
    "Neg": lambda op, data: -data,
    "Equal": _equal,
    "Not": _not,
    "Where": _where,
    "Expand": _expand,
    "Range": _range,
    "ReduceProd": _reduce_prod,
    "ConstantOfShape": _constant_of_shape,
}
