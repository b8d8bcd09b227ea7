"""Operators that move elements without changing them: views, slices, concatenation, tiling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hip_compiler.core.conversion.contents import objects
from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.extents import index
from hip_compiler.core.conversion.onnx_op import NotSupportedError, OnnxOp, onnx_op
from hip_compiler.core.conversion.run_time_axes import (
    axis_flags,
    equal,
    inserted_extents,
    left_extents,
    negated,
)
from hip_compiler.core.conversion.scalars import Scalar, literal, where
from hip_compiler.core.conversion.slices import slice_by_data, stepped
from hip_compiler.core.conversion.tensors import Absent, Tensor, constant, symbolic
from hip_compiler.core.mlir import arith
from hip_compiler.dtypes import BY_NAME, BY_NUMPY
from hip_compiler.shapes import Dim, broadcast, dim, not_negative, product

INT64 = BY_NAME["int64"]
INT64_MAX = 2**63 - 1
FLOATS = frozenset({"float", "float16", "bfloat16", "double"})


def normalize_axis(op: OnnxOp, axis: int, rank: int) -> int:
    """A non-negative axis.

    Raises:
        NotSupportedError: the axis is out of range.
    """
    op.require(-rank <= axis < rank, f"axis {axis} is out of range for rank {rank}")
    return axis % rank


@onnx_op("Constant", how="constants.bin or literal")
def convert_constant(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Contents given by an attribute."""
    names = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    for name, kind in {"value": None, **names}.items():
        value = op.attr(name)
        if value is not None:
            array = np.asarray(value, dtype=kind)
            return constant(array, BY_NUMPY[array.dtype])
    raise NotSupportedError("only tensors of numbers are supported")


@onnx_op("Shape", "Size", how="extents, without an operation", texts=True)
def convert_shape(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The extents of a tensor, or their product."""
    total, extents = dim(1), op.input(0).shape
    if op.op == "Size":
        for extent in extents:
            total = total * extent
        return symbolic(objects(total).reshape(()), INT64)
    window = slice(op.attr("start", 0), op.attr("end", None)) if op.version >= 15 else slice(None)
    return symbolic(objects(*extents)[window], INT64)


@onnx_op("Identity", how="forwarded", sequences=True, broadcasts=True, texts=True)
def convert_identity(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The input itself."""
    return op.optional(0) or Absent()


@onnx_op("Reshape", how="view", texts=True)
def convert_reshape(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The same elements under another shape; the target may be computed from run-time extents."""
    x = op.input(0)
    target = emitter.run_time_extents(op.input(1))
    keep_zero = op.attr("allowzero", 0)
    if op.input(1).extents() is None:
        return emitter.reshape(x, _decided_at_run_time(emitter, x, target, keep_zero=bool(keep_zero)))
    shape, inferred = [], None
    for position, extent in enumerate(target):
        if extent.value == 0 and not keep_zero:
            op.require(position < x.rank, "a 0 in the target beyond the input's rank")
            extent = x.shape[position]
        elif extent.value == -1:
            op.require(inferred is None, "more than one -1 in the target")
            inferred, extent = position, dim(1)
        shape.append(extent)
    if inferred is not None:
        rest = product(shape)
        op.require(rest.value != 0, "a -1 beside an extent of 0 in the target")
        shape[inferred] = product(x.shape) // rest
    return emitter.reshape(x, tuple(shape))


def _decided_at_run_time(emitter: Emitter, x: Tensor, target: Sequence[Dim], *, keep_zero: bool) -> tuple[Dim, ...]:
    """Extents of a target that is data: a 0 keeps the input's extent, a -1 takes what is left."""
    extents = []
    for position, extent in enumerate(target):
        value = emitter.index_value(extent)
        if not keep_zero and position < x.rank:
            keeps = arith.cmpi(arith.CmpIPredicate.eq, value, index(0))
            value = arith.select(keeps, emitter.index_value(x.shape[position]), value)
        extents.append(value)
    given = index(1)
    for value in extents:
        given = arith.muli(given, arith.select(_is_inferred(value), index(1), value))
    left = arith.divui(emitter.index_value(product(x.shape)), arith.maxui(given, index(1)))
    chosen = [arith.select(_is_inferred(value), left, value) for value in extents]
    return tuple(emitter.fresh_symbol(value, signed=True) for value in chosen)


def _is_inferred(value: Any) -> Any:
    return arith.cmpi(arith.CmpIPredicate.eq, value, index(-1))


@onnx_op("Flatten", how="view", texts=True)
def convert_flatten(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Two axes: the product of the leading extents and the product of the rest."""
    x = op.input(0)
    axis = op.attr("axis", 1)
    op.require(-x.rank <= axis <= x.rank, f"axis {axis} is out of range for rank {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    return emitter.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))


def _data_axes(op: OnnxOp) -> Tensor | None:
    """The axes, where they are data; None where they are known or absent.

    Raises:
        NotSupportedError: their number is not known, and with it the rank of the result.
    """
    given = op.optional(1)
    if given is None or given.constant is not None or given.size == 0:
        return None
    op.require(given.size is not None, "a number of axes that is not known at compile time")
    return given


@onnx_op("Squeeze", how="view", texts=True)
def convert_squeeze(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Extents of 1 removed."""
    x = op.input(0)
    given = _data_axes(op)
    if given is not None:
        flags = axis_flags(emitter, given, x.rank)
        extents = [emitter.index_value(extent) for extent in x.shape]
        for axis, (flag, extent) in enumerate(zip(flags, extents, strict=True)):
            fits = arith.ori(negated(flag), equal(extent, index(1)))
            emitter.check(fits, f"Squeeze of axis {axis}, whose extent is not 1")
        return emitter.reshape(x, left_extents(emitter, flags, extents, x.rank - (given.size or 0)))
    axes = op.ints("axes", 1)
    if axes is None:
        # The rank is decided now, so extents that are not known count as others than 1, and a run checks that they are.
        for extent in x.shape:
            if extent.value is None:
                other = arith.cmpi(arith.CmpIPredicate.ne, emitter.index_value(extent), index(1))
                emitter.check(other, f"Squeeze without axes is compiled for an extent {extent} other than 1")
        axes = tuple(i for i, extent in enumerate(x.shape) if extent.value == 1)
    dropped = {normalize_axis(op, axis, x.rank) for axis in axes}
    for axis in dropped:
        emitter.check_equal(x.shape[axis], dim(1), f"Squeeze of axis {axis}")
    return emitter.reshape(x, tuple(extent for i, extent in enumerate(x.shape) if i not in dropped))


@onnx_op("Unsqueeze", how="view", texts=True)
def convert_unsqueeze(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Extents of 1 inserted."""
    x = op.input(0)
    given = _data_axes(op)
    if given is not None:
        flags = axis_flags(emitter, given, x.rank + (given.size or 0))
        return emitter.reshape(x, inserted_extents(emitter, flags, x.shape))
    axes = op.ints("axes", 1)
    op.require(axes is not None, "no axes")
    rank = x.rank + len(axes or ())
    new = {normalize_axis(op, axis, rank) for axis in axes or ()}
    op.require(len(new) == len(axes or ()), "an axis is given twice")
    rest = iter(x.shape)
    return emitter.reshape(x, tuple(dim(1) if i in new else next(rest) for i in range(rank)))


@onnx_op("Transpose", how="linalg.generic", texts=True)
def convert_transpose(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Axes in another order; a view where only extents of 1 move."""
    x = op.input(0)
    order = op.attr("perm", list(reversed(range(x.rank))))
    op.require(sorted(order) == list(range(x.rank)), f"perm {order} is no order of {x.rank} axes")
    return emitter.transpose(x, order)


@onnx_op("Expand", how="linalg.generic", texts=True)
def convert_expand(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Broadcast to the shape that the input's and the given one have together."""
    x = op.input(0)
    try:
        shape = broadcast([x.shape, emitter.run_time_extents(op.input(1))])
    except ValueError as error:
        raise NotSupportedError(str(error)) from None
    return emitter.expand(x, shape)


@onnx_op("Concat", how="copies into one buffer", texts=True)
def convert_concat(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Inputs side by side along an axis."""
    return joined(emitter, op, [op.input(i) for i in range(len(op.inputs))], op.attr("axis"))


def joined(emitter: Emitter, op: OnnxOp, parts: Sequence[Tensor], along: int) -> Tensor:
    """Tensors side by side along an axis, which may be counted from the end."""
    axis = normalize_axis(op, along, parts[0].rank)
    shape = list(parts[0].shape)
    for part in parts[1:]:
        op.require(part.rank == len(shape), "inputs of different ranks")
        for other in range(len(shape)):
            if other != axis:
                emitter.check_equal(shape[other], part.shape[other], f"Concat, axis {other}")
        shape[axis] = shape[axis] + part.shape[axis]
    whole = [part for part in parts if part.shape[axis].value != 0]
    if len(whole) == 1:
        return whole[0]
    return emitter.concat(whole or parts, axis, tuple(shape))


@onnx_op("Split", how="views", texts=True)
def convert_split(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """Consecutive parts along an axis."""
    x = op.input(0)
    axis = normalize_axis(op, op.attr("axis", 0), x.rank)
    extent = x.shape[axis]
    count = op.attr("num_outputs", op.outputs)
    if "split" in op.attributes:
        sizes: Sequence[Dim] = [dim(size) for size in op.attr("split")]
    elif op.optional(1) is not None:
        sizes = emitter.run_time_extents(op.input(1))
    else:
        whole = -(-extent // count)
        sizes = [whole] * (count - 1) + [extent - whole * (count - 1)]
        if extent.value is None and op.version < 18:
            emitter.check_equal(whole * count, extent, "Split into equal parts")
    op.require(len(sizes) == op.outputs, f"{len(sizes)} parts for {op.outputs} outputs")
    check_parts(emitter, op, sizes, extent)
    parts, start = [], dim(0)
    for size in sizes:
        starts = [start if i == axis else dim(0) for i in range(x.rank)]
        extents = [size if i == axis else x.shape[i] for i in range(x.rank)]
        parts.append(emitter.slice(x, starts, extents, [1] * x.rank))
        start = start + size
    return parts


def check_parts(emitter: Emitter, op: OnnxOp, sizes: Sequence[Dim], extent: Dim) -> None:
    """Sizes of consecutive parts are not negative and are all of an extent: now, or when the model runs."""
    for size in sizes:
        op.require(size.value is None or size.value >= 0, f"a part of {size}")
        if size.value is None:
            positive = arith.cmpi(arith.CmpIPredicate.sge, emitter.index_value(size), emitter.index_value(dim(0)))
            emitter.check(positive, f"{op.op}: the size of a part is negative")
    emitter.check_equal(sum(sizes, dim(0)), extent, op.op)


@onnx_op("Slice", how="view", texts=True)
def convert_slice(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Elements from start to end of axes, with a step; bounds clamp to the axis."""
    x = op.input(0)
    if op.version < 10:
        starts: Sequence[Dim] = [dim(v) for v in op.attr("starts")]
        ends: Sequence[Dim] = [dim(v) for v in op.attr("ends")]
        given: tuple[Any, Any] = (op.attr("axes"), None)
    elif any(source is not None and source.extents() is None for source in op.inputs[1:]):
        return slice_by_data(emitter, op)
    else:
        starts, ends = emitter.run_time_extents(op.input(1)), emitter.run_time_extents(op.input(2))
        given = (op.constant(3), op.constant(4))
    axes = range(len(starts)) if given[0] is None else [int(v) for v in given[0]]
    steps = [1] * len(starts) if given[1] is None else [int(v) for v in given[1]]
    begin, size, step = [dim(0)] * x.rank, list(x.shape), [1] * x.rank
    for axis, first, last, stride in zip(axes, starts, ends, steps, strict=True):
        at = normalize_axis(op, axis, x.rank)
        op.require(stride != 0, "a step of 0")
        begin[at], size[at] = _window(emitter, first, last, stride, x.shape[at])
        step[at] = stride
    if all(stride > 0 for stride in step):
        return emitter.slice(x, begin, size, step)
    strides = [dim(stride) for stride in step]
    return emitter.index_map(x, tuple(size), stepped(emitter, begin, strides))


def _window(emitter: Emitter, start: Dim, end: Dim, step: int, extent: Dim) -> tuple[Dim, Dim]:
    """First position and number of elements of one axis."""
    if step > 0:
        first = _clamp(emitter, start, extent, dim(0), extent)
        last = _clamp(emitter, end, extent, dim(0), extent)
        return first, _count(last - first, step)
    # Only the end may lie before the first element; of nothing, the start does too.
    first = _clamp(emitter, start, extent, dim(0), extent - 1).minimum(extent - 1)
    last = _clamp(emitter, end, extent, dim(-1), extent - 1)
    return first, _count(first - last, -step)


def _count(span: Dim, step: int) -> Dim:
    number = -(-span // step)
    if number.value is not None:
        return number.maximum(0)
    # A span that is a sum of extents cannot be negative; min(a, n) is one, too.
    return number if not_negative(span) else number.maximum(0)


def _clamp(emitter: Emitter, position: Dim, extent: Dim, low: Dim, high: Dim) -> Dim:
    """A slice bound, counted from the end when negative, and clamped."""
    if position.value is not None:
        if position.value >= 2**31 - 1:
            return high
        if position.value <= -(2**31 - 1):
            return low
        absolute = extent + position if position.value < 0 else position
    elif position == extent or not_negative(position):
        absolute = position
    else:
        absolute = _from_end(emitter, position, extent)
    if absolute.value is not None and high.value is not None and low.value is not None:
        return dim(max(low.value, min(absolute.value, high.value)))
    if absolute in (high, low):
        return absolute
    if position.value is not None and position.value < 0:
        return absolute if position.value == -1 and low.value == -1 else absolute.maximum(low)
    return absolute.minimum(high)


def _from_end(emitter: Emitter, position: Dim, extent: Dim) -> Dim:
    value = emitter.index_value(position)
    negative = arith.cmpi(arith.CmpIPredicate.slt, value, index(0))
    whole = arith.select(negative, arith.addi(value, emitter.index_value(extent)), value)
    return emitter.fresh_symbol(arith.maxsi(whole, index(0)))


@onnx_op("Tile", how="linalg.generic", texts=True)
def convert_tile(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The input repeated along every axis."""
    x, repeats = op.input(0), emitter.run_time_extents(op.input(1))
    op.require(len(repeats) == x.rank, "one repeat per axis")
    shape = tuple(extent * times for extent, times in zip(x.shape, repeats, strict=True))
    split: list[Dim] = []
    wide: list[Dim] = []
    for extent, times in zip(x.shape, repeats, strict=True):
        split += [dim(1), extent]
        wide += [times, extent]
    return emitter.reshape(emitter.expand(emitter.reshape(x, tuple(split)), tuple(wide)), shape)


@onnx_op("ConstantOfShape", how="linalg.generic")
def convert_constant_of_shape(emitter: Emitter, op: OnnxOp) -> Tensor:
    """A tensor filled with one value."""
    value = np.asarray(op.attr("value", np.zeros(1, np.float32))).reshape(())
    filling = constant(value, BY_NUMPY[value.dtype])
    return emitter.elementwise(lambda v: v, [filling], filling.dtype, emitter.run_time_extents(op.input(0)))


@onnx_op("Range", how="linalg.generic", dtypes=FLOATS | {"int16", "int32", "int64"})
def convert_range(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Numbers from start towards limit."""
    start, limit, delta = (op.input(i) for i in range(3))
    step = None if delta.constant is None else delta.constant.reshape(-1)
    if start.dtype.name in ("int64", "int32") and step is not None and int(step[0]) > 0:
        stride = int(step[0])
        first, last = emitter.run_time_extents(start)[0], emitter.run_time_extents(limit)[0]
        begin = emitter.index_value(first)

        def number(position: Sequence[Any]) -> Any:
            return arith.addi(arith.muli(position[0], index(stride)), begin)

        return emitter.iota((_count(last - first, stride),), start.dtype, number)
    op.require(start.dtype.name in FLOATS | {"int16", "int32", "int64"}, f"element type {start.dtype}")
    ends = [emitter.reshape(source, ()) for source in (start, limit, delta)]
    op.require(step is None or step[0] != 0, "a step of 0")
    counted = emitter.elementwise(_range_count, ends, INT64)
    count = emitter.run_time_extents(counted)[0]
    positions = emitter.iota((count,), INT64, lambda loops: loops[0])

    def element(position: Scalar, begin: Scalar, jump: Scalar) -> Scalar:
        return begin + jump * position.cast(begin.dtype)

    return emitter.elementwise(element, [positions, ends[0], ends[2]], start.dtype, (count,))


def _range_count(start: Scalar, limit: Scalar, delta: Scalar) -> Scalar:
    """max(0, ceil((limit - start) / delta)); 0 for a step of 0."""
    if start.is_float:
        number = ((limit - start) / delta).apply("ceil").cast(INT64)
    else:
        begin, end, step = (value.cast(INT64) for value in (start, limit, delta))
        span = end - begin
        # Truncated division rounds up a negative quotient; a positive one is rounded up here.
        quotient, rest = span / step, span.remainder(step)
        up = (rest != 0) & ((rest < 0) ^ ~(step < 0))
        number = where(up, quotient + 1, quotient)
    return where(delta == 0, literal(0, INT64), number.maximum(0))


@onnx_op("DepthToSpace", "SpaceToDepth", how="view and linalg.generic", limits="rank 4")
def convert_depth_space(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Blocks of channels become blocks of pixels, or the other way round."""
    x, block = op.input(0), op.attr("blocksize")
    op.require(x.rank == 4, f"rank {x.rank}")
    n, c, h, w = x.shape
    if op.op == "SpaceToDepth":
        split = emitter.reshape(x, (n, c, h // block, dim(block), w // block, dim(block)))
        order = (0, 3, 5, 1, 2, 4) if op.attr("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
        return emitter.reshape(emitter.transpose(split, order), (n, c * block * block, h // block, w // block))
    depth = c // (block * block)
    if op.attr("mode", "DCR") == "DCR":
        split, order = emitter.reshape(x, (n, dim(block), dim(block), depth, h, w)), (0, 3, 4, 1, 5, 2)
    else:
        split, order = emitter.reshape(x, (n, depth, dim(block), dim(block), h, w)), (0, 1, 4, 2, 5, 3)
    return emitter.reshape(emitter.transpose(split, order), (n, depth, h * block, w * block))


@onnx_op("Trilu", how="linalg.generic")
def convert_trilu(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The upper or lower triangle; zeros elsewhere."""
    x = op.input(0)
    op.require(x.rank >= 2, f"rank {x.rank}")
    offset = emitter.run_time_extents(op.input(1))[0] if op.optional(1) is not None else dim(0)
    upper = bool(op.attr("upper", 1))
    return emitter.band(x, offset, keep_above=upper)
