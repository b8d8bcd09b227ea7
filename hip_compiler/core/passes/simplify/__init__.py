"""Rewrites of `simplify-onnx`: one idea a file, listed in `RULES`."""

from __future__ import annotations

from hip_compiler.core.passes.simplify import (
    batch_norm,
    cast,
    conv_affine,
    folding,
    gelu,
    identity,
    layer_norm,
    reshape,
    rms_norm,
    shape,
    swish,
    transpose,
)
from hip_compiler.core.passes.simplify.rewriter import Rule

RULES: tuple[Rule, ...] = (
    *identity.RULES,
    *cast.RULES,
    *shape.RULES,
    *folding.RULES,
    *transpose.RULES,
    *reshape.RULES,
    *batch_norm.RULES,
    *conv_affine.RULES,
    *layer_norm.RULES,
    *rms_norm.RULES,
    *gelu.RULES,
    *swish.RULES,
)
"""Every rewrite, in the order in which they are tried on an operation."""

__all__ = ["RULES", "Rule"]
