"""What the layer-norm and RMS-norm patterns share: means of squares, reciprocal roots, and trailing axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hip_compiler.core.frontend.attributes import dtype_of, shape_of
from hip_compiler.core.passes.simplify.rewriter import (
    Rewriter,
    defining,
    integer,
    integers,
    operand,
    rank,
    scalar,
)

STASH_IN_FLOAT32 = frozenset({"float", "float16", "bfloat16"})
"""Element types for which the fused operators compute in float32; float64 would lose digits."""


@dataclass(frozen=True)
class MeanOfSquares:
    """`sqrt(mean(value * value, axes) + epsilon)`.

    Attributes:
        value: what is squared; casts between float types left out.
        axes: axes of the mean, not negative, in order.
    """

    value: Any
    axes: tuple[int, ...]
    epsilon: float


def skip_casts(value: Any) -> Any:
    """The value before casts among the float types that the fused operators take."""
    while True:
        op = defining(value, "Cast")
        if op is None:
            return value
        source, target = dtype_of(op.operands[0].type), dtype_of(value.type)
        if source is None or target is None or not {source.name, target.name} <= STASH_IN_FLOAT32:
            return value
        value = op.operands[0]


def mean(value: Any, rewriter: Rewriter) -> tuple[Any, tuple[int, ...]] | None:
    """Operand and axes (not negative, in order) of a `ReduceMean` that keeps its dimensions."""
    op = defining(value, "ReduceMean")
    if op is None or integer(op, "keepdims", 1) != 1:
        return None
    source = op.operands[0]
    dims = rank(source)
    axes = integers(op, "axes")
    if axes is None and operand(op, 1) is not None:
        array = rewriter.constant(op.operands[1])
        axes = None if array is None else tuple(int(axis) for axis in array.reshape(-1))
    if dims is None or not axes:
        return None
    return source, tuple(sorted(axis % dims for axis in axes))


def root_of_mean_of_squares(value: Any, rewriter: Rewriter) -> MeanOfSquares | None:
    """Match `Sqrt(ReduceMean(x * x) + epsilon)` and its spellings."""
    value = skip_casts(value)
    op = defining(value, "Sqrt", "Pow")
    if op is None or (op.name == "onnx.Pow" and scalar(op.operands[1], rewriter, value) != 0.5):
        return None
    add = defining(skip_casts(op.operands[0]), "Add")
    if add is None:
        return None
    for number in (0, 1):
        epsilon = scalar(add.operands[number], rewriter, add.operands[1 - number])
        averaged = mean(skip_casts(add.operands[1 - number]), rewriter)
        if epsilon is not None and averaged is not None:
            squared = square(skip_casts(averaged[0]), rewriter)
            return None if squared is None else MeanOfSquares(skip_casts(squared), averaged[1], epsilon)
    return None


def square(value: Any, rewriter: Rewriter) -> Any | None:
    """What a value is the square of: `Pow(x, 2)` or `Mul(x, x)`."""
    op = defining(value, "Pow", "Mul")
    if op is None:
        return None
    if op.name == "onnx.Mul":
        return op.operands[0] if op.operands[0] == op.operands[1] else None
    return op.operands[0] if scalar(op.operands[1], rewriter, op.operands[0]) == 2.0 else None


def quotient(op: Any, rewriter: Rewriter) -> list[tuple[Any, Any]]:
    """Readings of an operation as numerator and denominator: `Div(a, b)`, or `Mul(a, 1 / b)` either way round."""
    if op.name == "onnx.Div":
        return [(op.operands[0], op.operands[1])]
    readings = []
    for number in (0, 1):
        inverse = defining(skip_casts(op.operands[number]), "Reciprocal", "Div")
        if inverse is None:
            continue
        if inverse.name == "onnx.Reciprocal":
            readings.append((op.operands[1 - number], inverse.operands[0]))
        elif scalar(inverse.operands[0], rewriter, inverse.operands[1]) == 1.0:
            readings.append((op.operands[1 - number], inverse.operands[1]))
    return readings


def trailing_axis(value: Any, axes: tuple[int, ...]) -> int | None:
    """First of the axes, when they are the last ones of a value of known rank; else None."""
    dims = rank(value)
    if dims is None or not axes or axes != tuple(range(axes[0], dims)):
        return None
    return axes[0]


def parameter(value: Any, extents: tuple[int, ...], rewriter: Rewriter, like: Any) -> Any | None:
    """A scale or bias in exactly the shape of the normalised axes, else None; a constant loses leading ones."""
    shape = shape_of(value.type)
    if shape == extents:
        return value
    array = rewriter.constant(value)
    if array is None or array.ndim < len(extents) or array.shape[array.ndim - len(extents) :] != extents:
        return None
    if any(extent != 1 for extent in array.shape[: array.ndim - len(extents)]):
        return None
    return rewriter.create_constant(np.ascontiguousarray(array).reshape(extents), "parameter", like=like)


def normalized_extents(value: Any, axis: int) -> tuple[int, ...] | None:
    """Extents of a value from an axis on, when all of them are known."""
    shape = shape_of(value.type)
    if shape is None:
        return None
    extents = tuple(extent for extent in shape[axis:] if extent is not None)
    return extents if len(extents) == len(shape) - axis else None
