"""Arithmetic per channel behind a convolution is a change of the convolution's weights and bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from hip_compiler.core.frontend.node import domain_of, node_name
from hip_compiler.core.passes.simplify.rewriter import Rewriter, Rule, defining, operand, single_user


def _fold(op: Any, rewriter: Rewriter) -> bool:
    """`Add`, `Sub`, `Mul` or `Div` of a convolution's result and a constant of one number per channel."""
    if domain_of(op) or len(op.operands) != 2:
        return False
    for number in (0, 1):
        conv = defining(op.operands[number], "Conv")
        if conv is None or single_user(conv.results[0]) is None:
            continue
        weights = rewriter.constant(conv.operands[1])
        values = _per_channel(rewriter.constant(op.operands[1 - number]), weights)
        if weights is None or values is None:
            continue
        affine = _affine(op.name, values, conv_first=number == 0)
        if affine is None or not all(np.isfinite(part).all() for part in affine):
            continue
        return scale_convolution(op, conv, weights, affine[0], affine[1], rewriter)
    return False


def _per_channel(array: np.ndarray | None, weights: np.ndarray | None) -> np.ndarray | None:
    """A float32 constant as one number per output channel, when broadcasting makes it that; in float64."""
    if array is None or weights is None or array.dtype != np.float32 or array.ndim > weights.ndim:
        return None
    shape = (1,) * (weights.ndim - array.ndim) + array.shape
    channels = weights.shape[0]
    if shape[0] != 1 or shape[1] not in (1, channels) or any(extent != 1 for extent in shape[2:]):
        return None
    return np.broadcast_to(array.reshape(-1).astype(np.float64), (channels,))


def _affine(name: str, values: np.ndarray, *, conv_first: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """Factor and offset that the operation applies to the convolution's result."""
    one, zero = np.ones_like(values), np.zeros_like(values)
    if name == "onnx.Add":
        return one, values
    if name == "onnx.Mul":
        return values, zero
    if name == "onnx.Sub":
        return (one, -values) if conv_first else (-one, values)
    if conv_first and np.all(values != 0):
        return 1.0 / values, zero
    return None


def scale_convolution(
    op: Any, conv: Any, weights: np.ndarray, factor: np.ndarray, offset: np.ndarray, rewriter: Rewriter
) -> bool:
    """Replace the first result of `op` by the convolution with its result times `factor` plus `offset`.

    Args:
        weights: the convolution's float32 weights.
        factor: one float64 number per output channel.
        offset: one float64 number per output channel.

    Returns:
        Whether it could be done: the convolution's bias, if any, must be constant.
    """
    bias = np.zeros(len(weights), np.float64)
    if operand(conv, 2) is not None:
        given = rewriter.constant(conv.operands[2])
        if given is None:
            return False
        bias = given.astype(np.float64)
    # Computed in float64, so that the only rounding is that of the new weights.
    scaled = weights.astype(np.float64) * factor.reshape(-1, *[1] * (weights.ndim - 1))
    name = node_name(op)
    operands = [
        conv.operands[0],
        rewriter.create_constant(scaled.astype(np.float32), f"{name}.weight", like=op),
        rewriter.create_constant((bias * factor + offset).astype(np.float32), f"{name}.bias", like=op),
    ]
    attributes = {key: conv.attributes[key] for key in conv.attributes}
    merged = rewriter.create("Conv", operands, [conv.results[0].type], like=op, attributes=attributes)
    rewriter.replace_first(op, merged.results[0])
    return True


RULES = (Rule("fold-into-convolution", ("Add", "Sub", "Mul", "Div"), _fold),)
