"""RMS normalisation that an exporter spelt out becomes `RMSNormalization` (operator set 23)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hip_compiler.core.frontend.attributes import dtype_of
from hip_compiler.core.frontend.node import domain_of
from hip_compiler.core.passes.simplify.normalization import (
    STASH_IN_FLOAT32,
    normalized_extents,
    parameter,
    quotient,
    root_of_mean_of_squares,
    skip_casts,
    trailing_axis,
)
from hip_compiler.core.passes.simplify.rewriter import (
    Rewriter,
    Rule,
    defining,
    float_attribute,
    int_attribute,
    rank,
    same_type,
    single_user,
)

OPSET = 23


def _fuse(op: Any, rewriter: Rewriter) -> bool:
    """`x / sqrt(mean(x^2) + epsilon) [* scale]`, from the division on."""
    if domain_of(op):
        return False
    for x, denominator in quotient(op, rewriter):
        root = root_of_mean_of_squares(denominator, rewriter)
        if root is None or skip_casts(x) != root.value or defining(root.value, "Sub") is not None:
            continue
        axis = trailing_axis(x, root.axes)
        dtype = dtype_of(x.type)
        extents = None if axis is None else normalized_extents(x, axis)
        if axis is None or extents is None or dtype is None or dtype.name not in STASH_IN_FLOAT32:
            continue
        if not same_type(op.results[0], x):
            continue
        return _replace(op, x, axis, extents, root.epsilon, rewriter)
    return False


def _replace(op: Any, x: Any, axis: int, extents: tuple[int, ...], epsilon: float, rewriter: Rewriter) -> bool:
    last, scale = op, None
    user = single_user(op.results[0])
    if user is not None and user.name == "onnx.Mul" and not domain_of(user):
        other = user.operands[1] if user.operands[0] == op.results[0] else user.operands[0]
        scale = parameter(other, extents, rewriter, user) if same_type(other, x) else None
        last = user if scale is not None else op
    if scale is None:
        dtype = dtype_of(x.type)
        assert dtype is not None and dtype.numpy is not None, "float tensors only"
        scale = rewriter.create_constant(np.ones(extents, dtype.numpy), "ones", like=last)
    fused = rewriter.create(
        "RMSNormalization",
        [x, scale],
        [last.results[0].type],
        like=last,
        attributes={
            "axis": int_attribute(axis - (rank(x) or 0)),
            "epsilon": float_attribute(epsilon),
            "stash_type": int_attribute(1),
        },
        opset=OPSET,
    )
    rewriter.replace(last, [fused.results[0]])
    return True


RULES = (Rule("fuse-rms-norm", ("Div", "Mul"), _fuse),)
