"""Layer normalisation that an exporter spelt out becomes `LayerNormalization` again (operator set 17)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hip_compiler.core.frontend.attributes import dtype_of
from hip_compiler.core.frontend.node import domain_of
from hip_compiler.core.passes.simplify.normalization import (
    STASH_IN_FLOAT32,
    mean,
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

OPSET = 17


def _fuse(op: Any, rewriter: Rewriter) -> bool:
    """`(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) [* scale] [+ bias]`, from the division on."""
    if domain_of(op):
        return False
    for numerator, denominator in quotient(op, rewriter):
        root = root_of_mean_of_squares(denominator, rewriter)
        centred = _centred(skip_casts(numerator), rewriter)
        if root is None or centred is None:
            continue
        # Exporters repeat the subtraction: both need the same operand and axes, not the same operation.
        if _centred(root.value, rewriter) != centred or centred[1] != root.axes:
            continue
        return _replace(op, centred[0], root.axes, root.epsilon, rewriter)
    return False


def _centred(value: Any, rewriter: Rewriter) -> tuple[Any, tuple[int, ...]] | None:
    """Operand and axes of `x - mean(x)`."""
    op = defining(value, "Sub")
    if op is None:
        return None
    averaged = mean(skip_casts(op.operands[1]), rewriter)
    if averaged is None or skip_casts(averaged[0]) != skip_casts(op.operands[0]):
        return None
    return op.operands[0], averaged[1]


def _replace(op: Any, x: Any, axes: tuple[int, ...], epsilon: float, rewriter: Rewriter) -> bool:
    axis = trailing_axis(x, axes)
    dtype = dtype_of(x.type)
    extents = None if axis is None else normalized_extents(x, axis)
    if axis is None or extents is None or dtype is None or dtype.numpy is None or dtype.name not in STASH_IN_FLOAT32:
        return False
    if not same_type(op.results[0], x):
        return False
    last, scale, bias = op, None, None
    scaled = _epilogue(last, "Mul", extents, rewriter)
    if scaled is not None:
        last, scale = scaled
        shifted = _epilogue(last, "Add", extents, rewriter)
        if shifted is not None:
            last, bias = shifted
    if scale is None:
        scale = rewriter.create_constant(np.ones(extents, dtype.numpy), "ones", like=last)
    fused = rewriter.create(
        "LayerNormalization",
        [x, scale] if bias is None else [x, scale, bias],
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


def _epilogue(op: Any, name: str, extents: tuple[int, ...], rewriter: Rewriter) -> tuple[Any, Any] | None:
    """The only user of an operation, when it is a `Mul` or `Add` of a parameter; with that parameter."""
    result = op.results[0]
    user = single_user(result)
    if user is None or user.name != f"onnx.{name}" or domain_of(user):
        return None
    other = user.operands[1] if user.operands[0] == result else user.operands[0]
    if not same_type(other, result):
        return None
    value = parameter(other, extents, rewriter, user)
    return None if value is None else (user, value)


RULES = (Rule("fuse-layer-norm", ("Div", "Mul"), _fuse),)
