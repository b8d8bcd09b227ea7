"""`BatchNormalization` at inference behind a convolution is a change of the convolution's weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from hip_compiler.core.frontend.node import domain_of
from hip_compiler.core.passes.simplify.conv_affine import scale_convolution
from hip_compiler.core.passes.simplify.rewriter import Rewriter, Rule, defining, integer, single_user

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
    parameters = [rewriter.constant(value) for value in list(op.operands)[1:5]]
    if weights is None or weights.dtype != np.float32:
        return False
    if any(array is None or array.dtype != np.float32 or array.shape != weights.shape[:1] for array in parameters):
        return False
    scale, shift, mean, variance = (array.astype(np.float64) for array in parameters if array is not None)
    epsilon = float(op.attributes["epsilon"].value) if "epsilon" in op.attributes else EPSILON
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + epsilon)
    if not np.all(np.isfinite(factor)):
        return False
    return scale_convolution(op, conv, weights, factor, shift - mean * factor, rewriter)


RULES = (Rule("fold-batch-norm", ("BatchNormalization",), _fold),)
