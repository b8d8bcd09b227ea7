"""LinearAttention and CausalConvWithState, of ONNX and of com.microsoft; GatherBlockQuantized."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.rotary import HALVES, MICROSOFT
from hip_compiler.core.conversion.ops.shape import normalize_axis
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim

UINT8 = BY_NAME["uint8"]
_GATES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
"""Whether a rule takes a decay, and whether it takes an update rate."""

_SWAPPED = (0, 2, 1)
"""Between channels first and channels last."""


@onnx_op(
    "LinearAttention",
    since=27,
    how="hip.linear_attention",
    dtypes=HALVES,
    limits="rank 3; the size of heads is known at compile time",
)
@onnx_op(
    "LinearAttention",
    domain=MICROSOFT,
    how="hip.linear_attention",
    dtypes=HALVES,
    limits="rank 3; the size of heads is known at compile time",
)
def convert_linear_attention(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """Heads side by side in q, k and v. Outputs: y, present state."""
    q, k, v = op.input(0), op.input(1), op.input(2)
    past, decay, beta = (op.optional(i) for i in (3, 4, 5))
    rule, heads, shared = op.attr("update_rule", "gated_delta"), op.attr("q_num_heads", 0), op.attr("kv_num_heads", 0)
    op.ignore("chunk_size")
    op.require(op.attr("state_window", 0) == 0, "a window of states")
    op.require(rule in _GATES, f"update rule {rule}")
    op.require((decay is not None, beta is not None) == _GATES[rule], f"the gates of update rule {rule}")
    op.require(shared > 0 and heads > 0, f"{heads} query heads over {shared}")
    op.require(heads % shared == 0 or shared % heads == 0, f"{heads} query heads over {shared}")
    op.require(all(x.rank == 3 for x in (q, k, v)), "operands of another rank than 3")
    columns, v_columns = q.shape[2].value, v.shape[2].value
    op.require(columns is not None and v_columns is not None, "the size of heads must be known at compile time")
    assert columns is not None and v_columns is not None
    size, v_size = columns // heads, v_columns // shared
    if shared > heads:
        q, heads = _repeated(emitter, q, heads, shared // heads), shared
    inputs = {"q": q, "k": k, "v": v, "past": past, "decay": decay, "beta": beta}
    return emitter.hip(
        "hip.linear_attention",
        inputs,
        [q.dtype, q.dtype if past is None else past.dtype],
        q_heads=heads,
        kv_heads=shared,
        size=size,
        v_size=v_size,
        scale=op.attr("scale", 0.0) or 1 / math.sqrt(size),
    )[: op.outputs]


def _repeated(emitter: Emitter, x: Tensor, heads: int, times: int) -> Tensor:
    """[batch, position, head * size] with every head several times, side by side."""
    size = x.shape[2] // heads
    apart = emitter.reshape(x, (*x.shape[:2], dim(heads), dim(1), size))
    return emitter.reshape(
        emitter.expand(apart, (*x.shape[:2], dim(heads), dim(times), size)), (*x.shape[:2], size * (heads * times))
    )


@onnx_op("CausalConvWithState", since=27, how="hip.causal_conv", limits="one spatial axis")
@onnx_op("CausalConvWithState", domain=MICROSOFT, how="hip.causal_conv", dtypes=HALVES, limits="one spatial axis")
def convert_causal_conv(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None] | None:
    """Channels first, or last in x, y and the states. Outputs: y, and the last inputs as the next state."""
    x, w, bias, past = op.input(0), op.input(1), op.optional(2), op.optional(3)
    activation = op.attr("activation", "none")
    if x.dtype.name not in HALVES and not op.domain:
        return None
    op.require(activation in ("none", "silu", "swish"), f"activation {activation}")
    op.require(op.attr("ndim", 1) == 1 and x.rank == 3, "more than one spatial axis")
    last = bool(op.attr("channels_last", 0))
    for name, only in (
        ("state_window", 0), ("state_length", 0), ("state_update_capacity", 0),
        ("state_channels_last", -1), ("input_channel_offset", 0), ("input_channels", 0),
    ):  # fmt: skip
        op.require(op.attr(name, only) == only, f"{name} = {op.attr(name, only)}")
    op.require(not op.wants(2), "the updates of the state as an output")
    if last:
        x, past = emitter.transpose(x, _SWAPPED), None if past is None else emitter.transpose(past, _SWAPPED)
    inputs = {"x": x, "w": w, "bias": bias, "past": past}
    dilation, silu = op.attr("dilation", 1), activation != "none"
    results = emitter.hip("hip.causal_conv", inputs, [x.dtype] * 2, dilation=dilation, silu=silu)
    return [emitter.transpose(result, _SWAPPED) if last else result for result in results][: op.outputs]


@onnx_op(
    "GatherBlockQuantized",
    domain=MICROSOFT,
    how="hip.gather_block_quantized",
    dtypes=frozenset({"uint8", "int4", "uint4"}),
    limits="gathers along axis 0, blocks along the last axis",
)
def convert_gather_block_quantized(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Entries of a quantised table along axis 0, blocks along the last axis; an index outside gives zeros."""
    table, indices, scales, zeros = op.input(0), op.input(1), op.input(2), op.optional(3)
    packed = table.dtype.name == "uint8"
    op.require(packed or table.dtype.name in ("int4", "uint4"), f"a table of element type {table.dtype}")
    op.require(zeros is None or zeros.dtype is table.dtype, "zero points of another element type than the table")
    bits, block = op.attr("bits", 4), op.attr("block_size", 128)
    op.require(bits in (2, 4, 8) and (packed or bits == 4), f"{bits} bits in {table.dtype}")
    op.require(table.rank >= 2 and scales.rank == table.rank, f"a table of rank {table.rank}")
    op.require(normalize_axis(op, op.attr("gather_axis", 0), table.rank) == 0, "gathering along another axis than 0")
    last = normalize_axis(op, op.attr("quantize_axis", 1), table.rank) == table.rank - 1
    op.require(last, "blocks along another axis than the last")
    op.require(block >= 16 and block & (block - 1) == 0, f"blocks of {block}")
    signed = table.dtype.kind == "int"
    if not packed:
        table, zeros = _in_bytes(op, 0, even=True), None if zeros is None else _in_bytes(op, 3)
    return emitter.hip(
        "hip.gather_block_quantized",
        {"table": table, "indices": indices, "scales": scales, "zeros": zeros},
        [scales.dtype],
        bits=bits,
        block=block,
        default_zero=1 << (bits - 1) if packed else 0,
        is_signed=signed,
    )[0]


def _in_bytes(op: OnnxOp, index: int, *, even: bool = False) -> Tensor:
    """A constant of a 4-bit type with two elements of a row in one byte, the first one in the low bits."""
    array = op.constant(index)
    assert array is not None
    op.require(not even or array.shape[-1] % 2 == 0, f"rows of {array.shape[-1]} elements of 4 bits")
    levels = array.astype(np.int8).astype(np.uint8) & np.uint8(15)
    levels = np.concatenate([levels, np.zeros((*levels.shape[:-1], levels.shape[-1] % 2), np.uint8)], -1)
    return constant(levels[..., ::2] | levels[..., 1::2] << np.uint8(4), UINT8)
