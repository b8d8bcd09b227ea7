"""AffineGrid: positions of a regular grid, moved by an affine map."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS, select
from hip_compiler.core.conversion.scalars import Scalar, compute_dtype
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME, DType
from hip_compiler.shapes import Dim, dim

INT64 = BY_NAME["int64"]


@onnx_op("AffineGrid", since=20, how="linalg.generic", dtypes=FLOATS, limits="two or three spatial axes")
def convert_affine_grid(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Every position in [-1, 1] along two or three axes, multiplied by a matrix per image."""
    theta, size = op.input(0), emitter.run_time_extents(op.input(1))
    op.require(len(size) in (4, 5) and theta.rank == 3, f"a size of {len(size)} extents")
    spatial = size[2:]
    axes = len(spatial)
    for axis, expected in enumerate((size[0], dim(axes), dim(axes + 1))):
        emitter.check_equal(theta.shape[axis], expected, f"AffineGrid, axis {axis} of theta")
    aligned = bool(op.attr("align_corners", 0))
    computed = compute_dtype(theta.dtype)
    # The last spatial axis is the first coordinate.
    positions = [_positions(emitter, spatial, axes - 1 - i, computed, aligned=aligned) for i in range(axes)]
    columns = [_column(emitter, theta, i, axes) for i in range(axes + 1)]

    def moved(*values: Scalar) -> Scalar:
        factors, coordinates = values[: axes + 1], values[axes + 1 :]
        total = factors[-1]
        for factor, coordinate in zip(factors, coordinates, strict=False):
            total = total + factor * coordinate
        return total

    shape = (size[0], *spatial, dim(axes))
    return emitter.elementwise(moved, [*columns, *positions], theta.dtype, shape)


def _column(emitter: Emitter, theta: Tensor, column: int, axes: int) -> Tensor:
    """One column of every matrix: [n, 1, ..., rows]."""
    starts, sizes = [dim(0), dim(0), dim(column)], [theta.shape[0], theta.shape[1], dim(1)]
    part = emitter.slice(theta, starts, sizes, [1, 1, 1])
    return emitter.reshape(part, (theta.shape[0], *(dim(1) for _ in range(axes)), theta.shape[1]))


def _positions(emitter: Emitter, spatial: Sequence[Dim], axis: int, dtype: DType, *, aligned: bool) -> Tensor:
    """Coordinates along one axis, in a shape that broadcasts along the others.

    The outermost ones are -1 and 1 where corners are aligned, else half a step inside.
    """
    extent = spatial[axis]
    numbers = emitter.iota((extent,), INT64, lambda loops: loops[0])

    def coordinate(number: Scalar, count: Scalar) -> Scalar:
        position = number.cast(dtype)
        if not aligned:
            return (position * 2.0 + 1.0) / count - 1.0
        return select(count > 1.0, position * 2.0 / (count - 1.0) - 1.0, 0.0, count)

    line = emitter.elementwise(coordinate, [numbers, emitter.extent_scalar(extent, dtype)], dtype)
    shape = (dim(1), *(extent if i == axis else dim(1) for i in range(len(spatial))), dim(1))
    return emitter.reshape(line, shape)
