"""Normalisations of com.microsoft: with a residual sum in front, without a mean, over embeddings, channels last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS, sigmoid
from hip_compiler.core.conversion.ops.norm import trailing
from hip_compiler.core.conversion.ops.shape import normalize_axis
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim

MICROSOFT = "com.microsoft"
FLOAT = BY_NAME["float"]
INT32 = BY_NAME["int32"]


def inverse_rms(emitter: Emitter, x: Tensor, axis: int, epsilon: float) -> Tensor:
    """1 / sqrt(mean(x^2) + epsilon) over the axes from `axis` on, which stay with extent 1; float32."""
    squares = emitter.elementwise(lambda v: v.cast(FLOAT) * v.cast(FLOAT), [x], FLOAT)
    total = emitter.reduce(squares, list(range(axis, x.rank)), "sum", FLOAT)
    count = dim(1)
    for extent in x.shape[axis:]:
        count = count * extent
    size = emitter.extent_scalar(count, FLOAT)
    inverse = emitter.elementwise(lambda t, n: 1.0 / (t / n + epsilon).apply("sqrt"), [total, size], FLOAT)
    return emitter.reshape(inverse, (*x.shape[:axis], *(dim(1),) * (x.rank - axis)))


@onnx_op("SimplifiedLayerNormalization", how="hip.rms_norm", dtypes=FLOATS)
@onnx_op("SimplifiedLayerNormalization", domain=MICROSOFT, how="hip.rms_norm", dtypes=FLOATS)
def convert_simplified_layer_norm(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """Division by the root mean square over the trailing axes, then scale; exporters put it in either domain.

    The result has the element type of the scale.
    """
    op.ignore("stash_type")
    x, scale = op.input(0), op.input(1)
    op.require(len(op.inputs) <= 2, "more than two inputs")
    axis, epsilon = normalize_axis(op, op.attr("axis", -1), x.rank), op.attr("epsilon", 1e-5)
    inputs = {"x": x, "scale": trailing(emitter, scale, x.shape[axis:])}
    [y] = emitter.hip("hip.rms_norm", inputs, [x.dtype], axis=axis, epsilon=epsilon)
    inverse = inverse_rms(emitter, x, axis, epsilon) if op.wants(1) else None
    return [emitter.cast(y, scale.dtype), inverse][: op.outputs]


def residual_sum(emitter: Emitter, op: OnnxOp, bias: Tensor | None) -> Tensor:
    """input + skip (+ bias); skip and bias broadcast over leading axes."""
    x, skip = op.input(0), op.input(1)
    op.require(x.dtype.name in FLOATS and skip.dtype is x.dtype, f"element types {x.dtype} and {skip.dtype}")
    if bias is None:
        return emitter.elementwise(lambda a, b: a + b, [x, skip], x.dtype, x.shape)
    return emitter.elementwise(lambda a, b, c: a + b + c, [x, skip, bias], x.dtype, x.shape)


@onnx_op(
    "SkipSimplifiedLayerNormalization",
    domain=MICROSOFT,
    how="linalg.generic, hip.rms_norm",
    dtypes=FLOATS,
    limits="no mean as an output",
)
def convert_skip_simplified(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """Residual sum, then division by the root mean square, then scale. Outputs: y, (mean), inverse, the sum."""
    op.require(not op.wants(1), "the mean, which this normalisation does not have")
    total, epsilon = residual_sum(emitter, op, op.optional(3)), op.attr("epsilon", 1e-5)
    axis = total.rank - 1
    inputs = {"x": total, "scale": trailing(emitter, op.input(2), total.shape[axis:])}
    [y] = emitter.hip("hip.rms_norm", inputs, [total.dtype], axis=axis, epsilon=epsilon)
    inverse = inverse_rms(emitter, total, axis, epsilon) if op.wants(2) else None
    return [y, None, inverse, total][: op.outputs]


@onnx_op("SkipLayerNormalization", domain=MICROSOFT, how="linalg.generic, hip.layer_norm", dtypes=FLOATS)
def convert_skip_layer_norm(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """Residual sum, then layer normalisation. Outputs: y, mean, inverse deviation, the sum."""
    total = residual_sum(emitter, op, op.optional(4))
    axis = total.rank - 1
    inputs: dict[str, Tensor | None] = {
        "x": total,
        "scale": trailing(emitter, op.input(2), total.shape[axis:]),
        "bias": None,
    }
    beta = op.optional(3)
    if beta is not None:
        inputs["bias"] = trailing(emitter, beta, total.shape[axis:])
    attributes: dict[str, Any] = {"axis": axis, "epsilon": op.attr("epsilon", 1e-5)}
    if not any(op.wants(i) for i in (1, 2)):
        [y] = emitter.hip("hip.layer_norm", inputs, [total.dtype], **attributes)
        return [y, None, None, total][: op.outputs]
    results = emitter.hip("hip.layer_norm_stats", inputs, [total.dtype, FLOAT, FLOAT], **attributes)
    return [*results, total][: op.outputs]


@onnx_op(
    "EmbedLayerNormalization",
    domain=MICROSOFT,
    how="hip.gather, hip.layer_norm",
    dtypes=frozenset({"int32", "int64"}),
    limits="input_ids of rank 2, a mask index of lengths",
)
def convert_embed_layer_norm(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """Sum of word, position and segment embeddings, then layer normalisation. Outputs: y, mask index, the sum."""
    ids, segments, mask, positions = op.input(0), op.optional(1), op.optional(7), op.optional(8)
    words, table, segment_table = op.input(2), op.input(3), op.optional(4)
    op.require(ids.rank == 2, f"input_ids of rank {ids.rank}")
    op.require((segments is None) == (segment_table is None), "segment ids without segment embeddings, or the reverse")
    op.require(op.attr("mask_index_type", 0) in (0, 1), "a mask index of another type than lengths")
    parts = [emitter.hip("hip.gather", {"data": words, "indices": ids}, [words.dtype], axis=0)[0]]
    if positions is None:
        length = ids.shape[1]
        rows = emitter.slice(table, [dim(0), dim(0)], [length, table.shape[1]], [1, 1])
        parts.append(emitter.reshape(rows, (dim(1), length, table.shape[1])))
    else:
        parts.append(emitter.hip("hip.gather", {"data": table, "indices": positions}, [table.dtype], axis=0)[0])
    if segments is not None:
        inputs = {"data": segment_table, "indices": segments}
        parts.append(emitter.hip("hip.gather", inputs, [words.dtype], axis=0)[0])

    def add(*terms):  # type: ignore[no-untyped-def]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    total = emitter.elementwise(add, parts, words.dtype)
    inputs = {
        "x": total,
        "scale": trailing(emitter, op.input(5), total.shape[2:]),
        "bias": trailing(emitter, op.input(6), total.shape[2:]),
    }
    [y] = emitter.hip("hip.layer_norm", inputs, [words.dtype], axis=2, epsilon=op.attr("epsilon", 1e-12))
    lengths = None
    if op.wants(1):
        if mask is None:
            lengths = emitter.iota((ids.shape[0],), INT32, lambda _: emitter.index_value(0))
        else:
            lengths = emitter.cast(emitter.reduce(emitter.cast(mask, INT32), [1], "sum", INT32), INT32)
    return [y, lengths, total][: op.outputs]


@onnx_op("GroupNorm", "SkipGroupNorm", domain=MICROSOFT, how="hip.group_norm", dtypes=FLOATS)
def convert_group_norm(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """Group normalisation of images, usually with channels last; SkipGroupNorm adds a skip and a bias in front."""
    x, gamma, beta = op.input(0), op.input(1), op.input(2)
    last, activation = bool(op.attr("channels_last", 1)), op.attr("activation")
    op.require(x.dtype.name in FLOATS and x.rank == 4, f"element type {x.dtype}, rank {x.rank}")
    op.require(activation in (0, 1), f"activation {activation}")
    if op.op == "SkipGroupNorm":
        terms = [x, _per_image(emitter, op, op.input(3), x, last=last)]
        if op.optional(4) is not None:
            terms.append(_per_channel(emitter, op.input(4), x, last=last))
        x = emitter.elementwise(lambda a, b, *c: a + b + c[0] if c else a + b, terms, x.dtype, x.shape)
    planar = emitter.transpose(x, (0, 3, 1, 2)) if last else x
    inputs = {"x": planar, "scale": gamma, "bias": beta}
    attributes: dict[str, Any] = {"groups": op.attr("groups"), "epsilon": op.attr("epsilon", 1e-5)}
    [y] = emitter.hip("hip.group_norm", inputs, [x.dtype], **attributes)
    if activation:
        y = emitter.elementwise(lambda v: v * sigmoid(v), [y], x.dtype)
    return [emitter.transpose(y, (0, 2, 3, 1)) if last else y, x][: op.outputs]


def _per_channel(emitter: Emitter, bias: Tensor, x: Tensor, *, last: bool) -> Tensor:
    channels = bias.shape[-1]
    return emitter.reshape(bias, (dim(1), dim(1), dim(1), channels) if last else (dim(1), channels, dim(1), dim(1)))


def _per_image(emitter: Emitter, op: OnnxOp, skip: Tensor, x: Tensor, *, last: bool) -> Tensor:
    """The skip of every element, or of every channel of an image: [N, C] and [N, 1, 1, C] broadcast."""
    op.require(skip.rank in (2, 4), f"a skip of rank {skip.rank}")
    if skip.rank == 4:
        return skip
    images, channels = skip.shape
    return emitter.reshape(skip, (images, dim(1), dim(1), channels) if last else (images, channels, dim(1), dim(1)))
