"""Fourier transforms, weights of the mel scale, and determinants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.extents import index
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS
from hip_compiler.core.conversion.ops.shape import normalize_axis
from hip_compiler.core.conversion.run_time_axes import names_axis
from hip_compiler.core.conversion.scalars import Scalar, literal, where
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.core.mlir import arith
from hip_compiler.dtypes import BY_NAME, BY_ONNX
from hip_compiler.shapes import Dim, dim

FLOAT, DOUBLE, INT64 = BY_NAME["float"], BY_NAME["double"], BY_NAME["int64"]
_MEL = 2595 / math.log(10)
"""mel = _MEL * ln(1 + hertz / 700)"""


@onnx_op("DFT", since=17, how="hip.dft", dtypes=FLOATS)
def convert_dft(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Discrete Fourier transform along one axis."""
    x, length = op.input(0), op.optional(1)
    at = op.optional(2) if op.version >= 20 else None
    if at is not None and at.constant is None:
        return _along_data(emitter, op, x, at)
    if op.version < 20:
        axis = normalize_axis(op, op.attr("axis", 1), x.rank)
    else:
        axis = normalize_axis(op, -2 if at is None or at.constant is None else int(at.constant.reshape(())), x.rank)
    extent, parts = _lengths(emitter, op, x.shape[axis])
    kept = tuple(extent if i == axis else size for i, size in enumerate(x.shape[:-1]))
    length = None if length is None else emitter.cast(length, INT64)
    inputs = {"x": x, "length": length, "at": None}
    return emitter.hip("hip.dft", inputs, [x.dtype], [(*kept, parts)], axis=axis, **_direction(op))[0]


def _along_data(emitter: Emitter, op: OnnxOp, x: Tensor, at: Tensor) -> Tensor:
    """The transform along an axis that is data."""
    axis, length = emitter.run_time_extents(at)[0], op.optional(1)
    named = [names_axis(emitter, axis, i, x.rank) for i in range(x.rank - 1)]
    given = index(1)
    for flag, extent in zip(named, x.shape, strict=False):
        given = arith.select(flag, emitter.index_value(extent), given)
    extent, parts = _lengths(emitter, op, emitter.fresh_symbol(given))
    value = emitter.index_value(extent)
    kept = [
        emitter.fresh_symbol(arith.select(flag, value, emitter.index_value(size)), signed=True)
        for flag, size in zip(named, x.shape, strict=False)
    ]
    inputs = {"x": x, "length": None if length is None else emitter.cast(length, INT64), "at": at}
    return emitter.hip("hip.dft", inputs, [x.dtype], [(*kept, parts)], axis=0, **_direction(op))[0]


def _direction(op: OnnxOp) -> dict[str, Any]:
    return {"inverse": bool(op.attr("inverse", 0)), "onesided": bool(op.attr("onesided", 0))}


def _lengths(emitter: Emitter, op: OnnxOp, given: Dim) -> tuple[Dim, Dim]:
    """Extents of the result along the axis, of extent `given`, and along the last one."""
    direction, length = _direction(op), op.optional(1)
    to_real = direction["inverse"] and direction["onesided"]
    count = (given - 1) * 2 if to_real else given
    if length is not None:
        count = emitter.run_time_extents(length)[0]
    half = direction["onesided"] and not direction["inverse"]
    return count // 2 + 1 if half else count, dim(1 if to_real else 2)


@onnx_op("STFT", since=17, how="linalg.generic, hip.dft", dtypes=FLOATS, limits="a signal of rank 3")
def convert_stft(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Discrete Fourier transforms of frames, of a signal [batch, length, 1 or 2]."""
    signal, window, given = op.input(0), op.optional(2), op.optional(3)
    op.require(signal.rank == 3, f"a signal of rank {signal.rank}")
    batch, length, parts = signal.shape
    step = emitter.run_time_extents(op.input(1))[0]
    size = emitter.run_time_extents(given)[0] if given is not None else length if window is None else window.shape[0]
    _at_least(emitter, op, step, dim(1), "a step of less than 1 between frames")
    _at_least(emitter, op, length, size, "a frame longer than the signal")
    stride = emitter.index_value(step)

    def element(at: Sequence[Any]) -> Sequence[Any]:
        return [at[0], arith.addi(arith.muli(at[1], stride), at[2]), at[3]]

    shape = (batch, (length - size) // step + 1, size, parts)
    frames = emitter.index_map(signal, shape, element)
    if window is not None:
        emitter.check_equal(window.shape[0], size, "STFT, window and frame length")
        weights = emitter.reshape(emitter.cast(window, signal.dtype), (size, dim(1)))
        frames = emitter.elementwise(lambda x, weight: x * weight, [frames, weights], signal.dtype, shape)
    onesided = bool(op.attr("onesided", 1))
    inputs = {"x": frames, "length": None, "at": None}
    return emitter.hip("hip.dft", inputs, [signal.dtype], axis=2, inverse=False, onesided=onesided)[0]


def _at_least(emitter: Emitter, op: OnnxOp, extent: Dim, least: Dim, otherwise: str) -> None:
    """Refuse an extent below another: now where both are known, at run time where not."""
    if extent.value is not None and least.value is not None:
        op.require(extent.value >= least.value, otherwise)
        return
    values = emitter.index_value(extent), emitter.index_value(least)
    emitter.check(arith.cmpi(arith.CmpIPredicate.sge, *values), otherwise)


@onnx_op("MelWeightMatrix", since=17, how="linalg.generic")
def convert_mel_weight_matrix(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Weights of triangular filters, spaced evenly on the mel scale, for the lines of a spectrum."""
    mels, length = (emitter.run_time_extents(op.input(i))[0] for i in (0, 1))
    rate, low, high = (emitter.cast(emitter.reshape(op.input(i), ()), DOUBLE) for i in (2, 3, 4))
    dtype = BY_ONNX[op.attr("output_datatype", FLOAT.onnx)]
    lines = emitter.iota((length // 2 + 1, dim(1)), INT64, lambda at: at[0])
    filters = emitter.iota((dim(1), mels), INT64, lambda at: at[1])
    counts = [emitter.extent_scalar(extent, DOUBLE) for extent in (mels, length)]

    def weight(line: Scalar, number: Scalar, *scalars: Scalar) -> Scalar:
        filter_count, points, sample_rate, lowest, highest = scalars

        def mel(hertz: Scalar) -> Scalar:
            return (hertz / 700.0).apply("log1p") * _MEL

        def edge(offset: int) -> Scalar:
            step = (mel(highest) - mel(lowest)) / (filter_count + 2.0)
            hertz = (((number + offset).cast(DOUBLE) * step + mel(lowest)) / _MEL).apply("expm1") * 700.0
            return ((points + 1.0) * hertz / sample_rate).apply("floor").cast(INT64)

        left, center, right = (edge(offset) for offset in (0, 1, 2))
        rising = (line - left).cast(DOUBLE) / (center - left).cast(DOUBLE)
        falling = (right - line).cast(DOUBLE) / (right - center).cast(DOUBLE)
        none, one = literal(0, DOUBLE), literal(1, DOUBLE)
        result = where((line >= left) & (line < center), rising, none)
        result = where((line > center) & (line < right), falling, result)
        return where(line == center, one, result).cast(dtype)

    return emitter.elementwise(weight, [lines, filters, *counts, rate, low, high], dtype)


@onnx_op("Det", how="hip.det", dtypes=FLOATS)
def convert_det(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Determinants of square matrices."""
    x = op.input(0)
    op.require(x.rank >= 2, f"rank {x.rank}")
    emitter.check_equal(x.shape[-1], x.shape[-2], "Det, rows and columns")
    return emitter.hip("hip.det", {"x": x}, [x.dtype])[0]
