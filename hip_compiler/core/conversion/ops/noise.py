"""Random numbers. Without a seed, one is derived from the node's name: a compiled model repeats its numbers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS, select
from hip_compiler.core.conversion.scalars import Scalar, where
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.dtypes import BY_NAME, BY_ONNX, DType
from hip_compiler.shapes import dim

BOOL = BY_NAME["bool"]
FLOAT = BY_NAME["float"]


def _seed(op: OnnxOp) -> int:
    given = op.attr("seed")
    # The bits of the float: seeds such as 0.5 and 0.25 differ.
    return zlib.crc32(op.name.encode()) if given is None else int(np.float32(given).view(np.uint32))


def _result(op: OnnxOp, default: DType) -> DType:
    number = op.attr("dtype")
    return default if number is None else BY_ONNX[number]


@onnx_op("RandomUniform", "RandomUniformLike", how="hip.random_uniform")
@onnx_op("RandomNormal", "RandomNormalLike", how="hip.random_normal")
def convert_random(emitter: Emitter, op: OnnxOp) -> Tensor:
    """A tensor of random numbers."""
    if op.op.endswith("Like"):
        shape, dtype = op.input(0).shape, _result(op, op.input(0).dtype)
    else:
        shape, dtype = tuple(dim(extent) for extent in op.attr("shape")), _result(op, BY_ONNX[1])
    op.require(dtype.name in FLOATS, f"element type {dtype} is not defined for it")
    if op.op.startswith("RandomUniform"):
        bounds = {"low": op.attr("low", 0.0), "high": op.attr("high", 1.0)}
        return emitter.hip("hip.random_uniform", {}, [dtype], [shape], seed=_seed(op), **bounds)[0]
    moments = {"mean": op.attr("mean", 0.0), "scale": op.attr("scale", 1.0)}
    return emitter.hip("hip.random_normal", {}, [dtype], [shape], seed=_seed(op), **moments)[0]


@onnx_op("Bernoulli", since=15, how="hip.bernoulli")
def convert_bernoulli(emitter: Emitter, op: OnnxOp) -> Tensor:
    """One with the probability that the input gives."""
    x = op.input(0)
    return emitter.hip("hip.bernoulli", {"x": x}, [_result(op, x.dtype)], [x.shape], seed=_seed(op))[0]


@onnx_op("Multinomial", since=7, how="hip.multinomial")
def convert_multinomial(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Classes drawn from rows of logarithms."""
    x = op.input(0)
    shape = (x.shape[0], dim(op.attr("sample_size", 1)))
    return emitter.hip("hip.multinomial", {"x": x}, [_result(op, BY_ONNX[6])], [shape], seed=_seed(op))[0]


@onnx_op("Dropout", how="forwarded, or hip.random_uniform", limits="before opset 12 no training mode")
def convert_dropout(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """Does nothing in inference; in training mode elements are dropped at random, and the rest is scaled up."""
    op.ignore("is_test")
    x, training = op.input(0), op.optional(2)
    op.require(op.attr("training_mode", 0) == 0 and op.attr("is_test", 1) == 1, "training mode before opset 12")
    if training is None or (training.constant is not None and not training.constant.any()):
        op.ignore("ratio", "seed")
        op.ignore_inputs(1)
        kept = constant(np.ones((), np.bool_), BOOL)
        return [x, emitter.expand(kept, x.shape)][: op.outputs] if op.wants(1) else [x]
    given = op.optional(1)
    ratio = constant(np.asarray(0.5, np.float32), FLOAT) if given is None else emitter.reshape(given, ())
    mode = emitter.reshape(training, ())
    bounds = {"low": 0.0, "high": 1.0}
    drawn = emitter.hip("hip.random_uniform", {}, [FLOAT], [x.shape], seed=_seed(op), **bounds)[0]

    def keeps(number: Scalar, share: Scalar, trains: Scalar) -> Scalar:
        return (number >= share.cast(number.dtype)) | ~trains

    mask = emitter.elementwise(keeps, [drawn, ratio, mode], BOOL, x.shape)

    def scaled(v: Scalar, kept: Scalar, share: Scalar, trains: Scalar) -> Scalar:
        factor = 1.0 / (1.0 - share.cast(v.dtype))
        return where(trains, select(kept, v * factor, 0.0, v), v)

    y = emitter.elementwise(scaled, [x, mask, ratio, mode], x.dtype, x.shape)
    return [y, mask][: op.outputs]
