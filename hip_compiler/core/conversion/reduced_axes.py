"""The axes of a reduction: numbers known at compile time, or data that decides when the model runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.extents import index
from hip_compiler.core.conversion.onnx_op import NotSupportedError, OnnxOp
from hip_compiler.core.conversion.scalars import Scalar, compute_dtype
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.core.mlir import arith, tensor
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import Dim, Shape, dim, product

_BOOL = BY_NAME["bool"]
_INT64 = BY_NAME["int64"]


@dataclass(frozen=True)
class ReducedAxes:
    """What a reduction does to a shape.

    Attributes:
        axes: the axes, when they are known at compile time.
        kept: the shape with extents of 1 in place of the reduced ones.
        result: shape of the operator's result: `kept`, or the shape without the reduced axes.
        count: number of elements that become one.
    """

    axes: tuple[int, ...] | None
    kept: Shape
    result: Shape
    count: Dim

    def reduce(self, emitter: Emitter, source: Tensor, kind: str) -> Tensor:
        """Combine elements along the axes, in the element type that arithmetic on the source uses.

        Args:
            kind: a key of `REDUCTIONS`.
        """
        if self.axes is not None:
            return emitter.reduce(source, self.axes, kind)
        wide = emitter.cast(source, compute_dtype(source.dtype))
        return emitter.hip("hip.reduce", {"x": wide}, [wide.dtype], [self.kept], kind=kind)[0]


def reduced_axes(emitter: Emitter, op: OnnxOp, shape: Shape) -> ReducedAxes | None:
    """Axes of a reduction operator; None: it does nothing (no axes, and `noop_with_empty_axes`).

    Raises:
        NotSupportedError: an axis out of range, or a result whose rank depends on data.
    """
    noop, keep = bool(op.attr("noop_with_empty_axes", 0)), bool(op.attr("keepdims", 1))
    given = op.optional(1)
    if given is not None and given.constant is None and given.size != 0:
        return _decided_at_run_time(emitter, given, shape, noop=noop, keep=keep)
    axes = op.ints("axes", 1)
    if not axes:
        return None if noop else known_axes(shape, range(len(shape)), keep=keep)
    for axis in axes:
        op.require(-len(shape) <= axis < len(shape), f"axis {axis} is out of range for rank {len(shape)}")
    return known_axes(shape, [axis % len(shape) for axis in axes], keep=keep)


def known_axes(shape: Shape, axes: Sequence[int], *, keep: bool) -> ReducedAxes:
    """Axes counted from the front, known at compile time."""
    kept = tuple(dim(1) if axis in axes else extent for axis, extent in enumerate(shape))
    left = tuple(extent for axis, extent in enumerate(shape) if axis not in axes)
    return ReducedAxes(
        tuple(sorted(set(axes))), kept, kept if keep else left, product(shape[axis] for axis in set(axes))
    )


def _decided_at_run_time(emitter: Emitter, axes: Tensor, shape: Shape, *, noop: bool, keep: bool) -> ReducedAxes:
    if axes.size is None and not keep:
        raise NotSupportedError("a number of axes that is not known at compile time, with keepdims=0")
    flags = axis_flags(emitter, axes, len(shape))
    if not noop and axes.size is None:
        none = arith.cmpi(arith.CmpIPredicate.eq, emitter.index_value(product(axes.shape)), index(0))
        flags = [arith.ori(flag, none) for flag in flags]
    extents = [emitter.index_value(extent) for extent in shape]
    count = index(1)
    kept = []
    for flag, extent, value in zip(flags, shape, extents, strict=True):
        count = arith.muli(count, arith.select(flag, value, index(1)))
        one = extent.value == 1
        kept.append(dim(1) if one else emitter.fresh_symbol(arith.select(flag, index(1), value)))
    result = tuple(kept)
    if not keep:
        result = _left(emitter, flags, extents, len(shape) - (axes.size or 0))
    return ReducedAxes(None, tuple(kept), result, emitter.fresh_symbol(count))


def axis_flags(emitter: Emitter, axes: Tensor, rank: int) -> list[Any]:
    """Which axes of a tensor a list names, as an `i1` each; the run fails for one that is out of range."""
    listed = emitter.reshape(emitter.cast(axes, _INT64), (product(axes.shape), dim(1)))
    positions = constant(np.arange(max(rank, 1), dtype=np.int64).reshape(1, -1), _INT64)

    def named(axis: Scalar, position: Scalar) -> Scalar:
        return (axis == position) | (axis + float(rank) == position)

    def outside(axis: Scalar) -> Scalar:
        return (axis < -rank) | (axis >= rank)

    wrong = emitter.reduce(emitter.elementwise(outside, [listed], _BOOL), (0, 1), "max")
    emitter.check(arith.xori(_is_set(emitter, wrong), _true()), f"an axis is out of range for rank {rank}")
    found = emitter.reduce(emitter.elementwise(named, [listed, positions], _BOOL), (0,), "max")
    return [_is_set(emitter, found, axis) for axis in range(rank)]


def _is_set(emitter: Emitter, flags: Tensor, *position: int) -> Any:
    element = tensor.extract(emitter.value(flags), [index(number) for number in position])
    return arith.cmpi(arith.CmpIPredicate.ne, arith.index_cast(index(0).type, element), index(0))


def _true() -> Any:
    return arith.cmpi(arith.CmpIPredicate.eq, index(0), index(0))


def _left(emitter: Emitter, flags: Sequence[Any], extents: Sequence[Any], rank: int) -> Shape:
    """The extents whose flag is not set, in order; there must be `rank` of them."""
    found = [index(1) for _ in range(rank)]
    number = index(0)
    for flag, extent in zip(flags, extents, strict=True):
        for position in range(rank):
            here = arith.cmpi(arith.CmpIPredicate.eq, number, index(position))
            mine = arith.andi(here, arith.xori(flag, _true()))
            found[position] = arith.select(mine, extent, found[position])
        number = arith.addi(number, arith.select(flag, index(0), index(1)))
    right = arith.cmpi(arith.CmpIPredicate.eq, number, index(max(rank, 0)))
    emitter.check(right, "an axis is given twice, and the rank of the result follows from the number of axes")
    return tuple(emitter.fresh_symbol(value) for value in found)
