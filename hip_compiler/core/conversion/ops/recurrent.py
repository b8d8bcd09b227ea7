"""Recurrent networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import NotSupportedError, OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import FLOATS
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.core.dialects.hip.rnn import activation_attributes

_OPERANDS = ("x", "w", "r", "b", "sequence_lens", "initial_h", "initial_c", "p")


@onnx_op("LSTM", "GRU", "RNN", since=7, how="hip.lstm, hip.gru, hip.rnn", dtypes=FLOATS)
def convert_recurrent(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """A recurrent layer over a batch of sequences; every output is computed."""
    op.ignore("hidden_size")
    x = op.input(0)
    kind = op.op.lower()
    direction = op.attr("direction", "forward")
    try:
        numbers, alphas, betas = activation_attributes(
            kind,
            2 if direction == "bidirectional" else 1,
            op.attr("activations", ()),
            op.attr("activation_alpha", ()),
            op.attr("activation_beta", ()),
        )
    except ValueError as error:
        raise NotSupportedError(str(error)) from None
    attributes: dict[str, Any] = {
        "activations": numbers,
        "activation_alpha": alphas,
        "activation_beta": betas,
        "clip": op.attr("clip", 0.0),
        "direction": direction,
        "layout": op.attr("layout", 0),
    }
    if kind == "gru":
        attributes["linear_before_reset"] = bool(op.attr("linear_before_reset", 0))
    if kind == "lstm":
        attributes["input_forget"] = bool(op.attr("input_forget", 0))
    names = _OPERANDS if kind == "lstm" else _OPERANDS[:6]
    op.require(len(op.inputs) <= len(names), f"{len(op.inputs)} inputs")
    inputs = {name: op.optional(i) for i, name in enumerate(names)}
    results = emitter.hip(f"hip.{kind}", inputs, [x.dtype] * (3 if kind == "lstm" else 2), **attributes)
    return results[: op.outputs]
