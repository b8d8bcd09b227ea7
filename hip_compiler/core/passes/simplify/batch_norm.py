"""`BatchNormalization` at inference behind a convolution is a change of the convolution's weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from hip_compiler.core.frontend.node import domain_of, node_name
from hip_compiler.core.passes.simplify.rewriter import Rewriter, Rule, defining, integer, operand, single_user

EPSILON = 1e-5


def _fold(op: Any, rewriter: Rewriter) -> bool:
    conv = defining(op.operands[0], "Conv")
    if domain_of(op) or conv is None or integer(op, "training_mode", 0) or integer(op, "spatial", 1) != 1:
        return False
    if any(next(iter(extra.uses), None) is not None for extra in list(op.results)[1:]):
        return False
    if single_user(conv.results[0]) is None:
        return False
    weights = rewriter.constant(conv.operands[1])
    has_bias = operand(conv, 2) is not None
    bias = rewriter.constant(conv.operands[2]) if has_bias else None
    parameters = [rewriter.constant(value) for value in list(op.operands)[1:5]]
    if weights is None or (has_bias and bias is None) or weights.dtype != np.float32:
        return False
    if any(array is None or array.dtype != np.float32 or array.shape != weights.shape[:1] for array in parameters):
        return False
    # Folded in float64, so that the only rounding is that of the new weights.
    scale, shift, mean, variance = (array.astype(np.float64) for array in parameters if array is not None)
    epsilon = float(op.attributes["epsilon"].value) if "epsilon" in op.attributes else EPSILON
    factor = scale / np.sqrt(variance + epsilon)
    if not np.all(np.isfinite(factor)):
        return False
    folded = weights.astype(np.float64) * factor.reshape(-1, *[1] * (weights.ndim - 1))
    offset = shift + ((0.0 if bias is None else bias.astype(np.float64)) - mean) * factor
    name = node_name(op)
    operands = [
        conv.operands[0],
        rewriter.create_constant(folded.astype(np.float32), f"{name}.weight", like=op),
        rewriter.create_constant(offset.astype(np.float32), f"{name}.bias", like=op),
    ]
    attributes = {key: conv.attributes[key] for key in conv.attributes}
    merged = rewriter.create("Conv", operands, [conv.results[0].type], like=op, attributes=attributes)
    rewriter.replace_first(op, merged.results[0])
    return True


RULES = (Rule("fold-batch-norm", ("BatchNormalization",), _fold),)
