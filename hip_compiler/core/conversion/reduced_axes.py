"""The axes of a reduction: numbers known at compile time, or data that decides when the model runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.extents import index
from hip_compiler.core.conversion.onnx_op import NotSupportedError, OnnxOp
from hip_compiler.core.conversion.run_time_axes import axis_flags, left_extents
from hip_compiler.core.conversion.scalars import compute_dtype
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.core.mlir import arith
from hip_compiler.shapes import Dim, Shape, dim, product


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
        result = left_extents(emitter, flags, extents, len(shape) - (axes.size or 0))
    return ReducedAxes(None, tuple(kept), result, emitter.fresh_symbol(count))
