"""Lists of axes that are data: which axes they name, and the shapes that follow, as index arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.extents import index
from hip_compiler.core.conversion.scalars import Scalar
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.core.mlir import arith, tensor
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import Dim, Shape, dim, product

_BOOL = BY_NAME["bool"]
_INT64 = BY_NAME["int64"]


def axis_flags(emitter: Emitter, axes: Tensor, rank: int) -> list[Any]:
    """Which axes of a tensor a list names, as an `i1` each; the run fails for one that is out of range."""
    listed = emitter.reshape(emitter.cast(axes, _INT64), (product(axes.shape), dim(1)))
    positions = constant(np.arange(max(rank, 1), dtype=np.int64).reshape(1, -1), _INT64)

    def named(axis: Scalar, position: Scalar) -> Scalar:
        return (axis == position) | (axis + float(rank) == position)

    def inside(axis: Scalar) -> Scalar:
        return (axis >= -rank) & (axis < rank)

    emitter.check_all(emitter.elementwise(inside, [listed], _BOOL), f"an axis is out of range for rank {rank}")
    found = emitter.reduce(emitter.elementwise(named, [listed, positions], _BOOL), (0,), "max")
    return [_is_set(emitter, found, axis) for axis in range(rank)]


def _is_set(emitter: Emitter, flags: Tensor, *position: int) -> Any:
    element = tensor.extract(emitter.value(flags), [index(number) for number in position])
    return arith.cmpi(arith.CmpIPredicate.ne, arith.index_cast(index(0).type, element), index(0))


def negated(flag: Any) -> Any:
    """The opposite of an `i1`."""
    return arith.xori(flag, arith.cmpi(arith.CmpIPredicate.eq, index(0), index(0)))


def equal(a: Any, b: Any) -> Any:
    """Whether two `index` values are equal."""
    return arith.cmpi(arith.CmpIPredicate.eq, a, b)


def left_extents(emitter: Emitter, flags: Sequence[Any], extents: Sequence[Any], rank: int) -> Shape:
    """The extents whose flag is not set, in order; there must be `rank` of them."""
    found = [index(1) for _ in range(rank)]
    number = index(0)
    for flag, extent in zip(flags, extents, strict=True):
        for position in range(rank):
            here = equal(number, index(position))
            mine = arith.andi(here, negated(flag))
            found[position] = arith.select(mine, extent, found[position])
        number = arith.addi(number, arith.select(flag, index(0), index(1)))
    right = equal(number, index(rank))
    emitter.check(right, "an axis is given twice, and the rank of the result follows from the number of axes")
    return tuple(emitter.fresh_symbol(value) for value in found)


def inserted_extents(emitter: Emitter, flags: Sequence[Any], shape: Shape) -> Shape:
    """A shape with an extent of 1 at every flagged axis of the result."""
    taken, extents = index(0), []
    for flag in flags:
        value = index(1)
        for position, extent in enumerate(shape):
            value = arith.select(equal(taken, index(position)), emitter.index_value(extent), value)
        extents.append(emitter.fresh_symbol(arith.select(flag, index(1), value)))
        taken = arith.addi(taken, arith.select(flag, index(0), index(1)))
    emitter.check(equal(taken, index(len(shape))), "an axis is given twice")
    return tuple(extents)


def names_axis(emitter: Emitter, listed: Dim, axis: int, rank: int) -> Any:
    """Whether an axis that is data, which may count from the end, is a certain one; an `i1`."""
    value = emitter.index_value(listed)
    return arith.ori(equal(value, index(axis)), equal(value, index(axis - rank)))


def picked_by_axis(
    emitter: Emitter, axes: Sequence[Dim], values: Sequence[Any], rank: int, otherwise: Sequence[Any]
) -> list[Any]:
    """The value that a list of axes, which is data, gives each axis; the run fails for an axis out of range.

    Args:
        values: an SSA value for every listed axis.
        otherwise: an SSA value for every axis, where it is not listed.
    """
    found = list(otherwise)
    for listed, value in zip(axes, values, strict=True):
        named = [names_axis(emitter, listed, axis, rank) for axis in range(rank)]
        found = [arith.select(flag, value, other) for flag, other in zip(named, found, strict=True)]
        known = named[0] if named else negated(equal(index(0), index(0)))
        for flag in named[1:]:
            known = arith.ori(known, flag)
        emitter.check(known, f"an axis is out of range for rank {rank}")
    return found
