"""Operations that hand their input on: `Identity`, `Dropout` at inference, casts and moves that change nothing."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.frontend.attributes import dtype_of
from hip_compiler.core.frontend.node import domain_of
from hip_compiler.core.passes.simplify.rewriter import Rewriter, Rule, integer, integers, operand, rank, static_shape


def _identity(op: Any, rewriter: Rewriter) -> bool:
    if domain_of(op) or len(op.operands) != 1:
        return False
    rewriter.replace(op, [op.operands[0]])
    return True


def _dropout(op: Any, rewriter: Rewriter) -> bool:
    if domain_of(op):
        return False
    training = operand(op, 2)
    if training is not None:
        flag = rewriter.constant(training)
        if flag is None or bool(flag.reshape(-1)[0]):
            return False
    if any(next(iter(mask.uses), None) is not None for mask in list(op.results)[1:]):
        return False
    rewriter.replace_first(op, op.operands[0])
    return True


def _cast(op: Any, rewriter: Rewriter) -> bool:
    dtype = dtype_of(op.operands[0].type)
    if domain_of(op) or dtype is None or dtype.onnx != integer(op, "to", 0):
        return False
    rewriter.replace(op, [op.operands[0]])
    return True


def _transpose(op: Any, rewriter: Rewriter) -> bool:
    value = op.operands[0]
    order = integers(op, "perm")
    if domain_of(op):
        return False
    if order is None:
        known = rank(value)
        if known is None or known > 1:
            return False
    elif order != tuple(range(len(order))):
        return False
    rewriter.replace(op, [value])
    return True


def _same_static_shape(op: Any, rewriter: Rewriter) -> bool:
    """`Reshape` and `Expand` between equal shapes that are known in full."""
    value = op.operands[0]
    shape = static_shape(value)
    if domain_of(op) or shape is None or shape != static_shape(op.results[0]):
        return False
    rewriter.replace(op, [value])
    return True


def _single_operand(op: Any, rewriter: Rewriter) -> bool:
    """`Concat`, `Sum`, `Max`, `Min` and `Mean` of one tensor."""
    if domain_of(op) or len(op.operands) != 1:
        return False
    rewriter.replace(op, [op.operands[0]])
    return True


RULES = (
    Rule("remove-identity", ("Identity",), _identity),
    Rule("remove-dropout", ("Dropout",), _dropout),
    Rule("remove-cast", ("Cast",), _cast),
    Rule("remove-transpose", ("Transpose",), _transpose),
    Rule("remove-reshape", ("Reshape", "Expand"), _same_static_shape),
    Rule("remove-single-operand", ("Concat", "Sum", "Max", "Min", "Mean"), _single_operand),
)
