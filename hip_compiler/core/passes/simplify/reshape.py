"""Chains of `Reshape`, `Flatten`, `Squeeze` and `Unsqueeze`: only the last shape counts."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.frontend.node import domain_of
from hip_compiler.core.passes.simplify.rewriter import Rewriter, Rule, defining, integer, integers, operand


def _reshape_of_reshape(op: Any, rewriter: Rewriter) -> bool:
    """`Reshape(f(x), shape)` is `Reshape(x, shape)` when `shape` takes no extent from its input."""
    inner = defining(op.operands[0], "Reshape", "Flatten", "Squeeze", "Unsqueeze")
    if domain_of(op) or inner is None or len(op.operands) != 2:
        return False
    shape = rewriter.constant(op.operands[1])
    if shape is None or (not integer(op, "allowzero", 0) and (shape == 0).any()):
        return False
    op.operands[0] = inner.operands[0]
    rewriter.changed(op)
    rewriter.look_again(inner)
    return True


def _axes(op: Any, rewriter: Rewriter) -> frozenset[int] | None:
    axes = integers(op, "axes")
    if axes is not None:
        return frozenset(axes)
    value = operand(op, 1)
    array = None if value is None else rewriter.constant(value)
    return None if array is None else frozenset(int(axis) for axis in array.reshape(-1))


def _cancel(op: Any, rewriter: Rewriter) -> bool:
    """`Squeeze` and `Unsqueeze` of the same axes, in either order."""
    other = "Squeeze" if op.name == "onnx.Unsqueeze" else "Unsqueeze"
    inner = defining(op.operands[0], other)
    if domain_of(op) or inner is None:
        return False
    # Both count axes in the larger of the two ranks, so equal numbers are equal axes.
    axes = _axes(op, rewriter)
    if axes is None or axes != _axes(inner, rewriter):
        return False
    rewriter.replace(op, [inner.operands[0]])
    return True


RULES = (
    Rule("merge-reshapes", ("Reshape",), _reshape_of_reshape),
    Rule("cancel-squeeze", ("Squeeze", "Unsqueeze"), _cancel),
)
