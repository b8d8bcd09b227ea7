"""Gated activations: `x * sigmoid(alpha * x)` is `Swish` (opset 24), `x * hard_sigmoid(x)` is `HardSwish` (14)."""

from __future__ import annotations

import math
from typing import Any

from hip_compiler.core.frontend.attributes import dtype_of
from hip_compiler.core.frontend.node import domain_of
from hip_compiler.core.passes.simplify.product import product_of
from hip_compiler.core.passes.simplify.rewriter import (
    Rewriter,
    Rule,
    defining,
    float_attribute,
    operand,
    same_type,
    scalar,
)

SWISH_OPSET = 24
HARD_SWISH_OPSET = 14
_FLOATS = frozenset({"float", "float16", "bfloat16", "double"})


def _fuse(op: Any, rewriter: Rewriter) -> bool:
    dtype = dtype_of(op.results[0].type)
    if domain_of(op) or dtype is None or dtype.name not in _FLOATS:
        return False
    for number in (0, 1):
        x, gate = op.operands[number], op.operands[1 - number]
        if not same_type(x, op.results[0]):
            continue
        alpha = _swish(gate, x, rewriter)
        if alpha is not None:
            return _replace(op, x, "Swish", {"alpha": float_attribute(alpha)}, SWISH_OPSET, rewriter)
        if _hard_sigmoid(gate, x):
            return _replace(op, x, "HardSwish", {}, HARD_SWISH_OPSET, rewriter)
    return False


def _replace(op: Any, x: Any, name: str, attributes: dict[str, Any], opset: int, rewriter: Rewriter) -> bool:
    fused = rewriter.create(name, [x], [op.results[0].type], like=op, attributes=attributes, opset=opset)
    rewriter.replace(op, [fused.results[0]])
    return True


def _swish(gate: Any, x: Any, rewriter: Rewriter) -> float | None:
    """The `alpha` of `sigmoid(alpha * x)`."""
    sigmoid = defining(gate, "Sigmoid")
    if sigmoid is None:
        return None
    argument = sigmoid.operands[0]
    if argument == x:
        return 1.0
    scaled = defining(argument, "Mul", "Div")
    if scaled is None:
        return None
    product = product_of(scaled, rewriter)
    return product.constant if product.factors == [x] else None


def _hard_sigmoid(gate: Any, x: Any) -> bool:
    """`HardSigmoid(x)` with the constants of `HardSwish`: `max(0, min(1, x / 6 + 0.5))`."""
    op = defining(gate, "HardSigmoid")
    if op is None or op.operands[0] != x:
        return False
    alpha = float(op.attributes["alpha"].value) if "alpha" in op.attributes else 0.2
    beta = float(op.attributes["beta"].value) if "beta" in op.attributes else 0.5
    return math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5


def _clipped(op: Any, rewriter: Rewriter) -> bool:
    """`x * clip(x + 3, 0, 6) / 6`, factors in any order."""
    dtype = dtype_of(op.results[0].type)
    if domain_of(op) or dtype is None or dtype.name not in _FLOATS:
        return False
    product = product_of(op, rewriter)
    if len(product.factors) != 2 or not math.isclose(product.constant, 1 / 6, rel_tol=1e-3):
        return False
    for x, gate in (product.factors, reversed(product.factors)):
        if same_type(x, op.results[0]) and _is_relu6_of_plus_3(gate, x, rewriter):
            return _replace(op, x, "HardSwish", {}, HARD_SWISH_OPSET, rewriter)
    return False


def _is_relu6_of_plus_3(value: Any, x: Any, rewriter: Rewriter) -> bool:
    clip = defining(value, "Clip")
    if clip is None:
        return False
    bounds: list[float | None] = []
    for number, name in ((1, "min"), (2, "max")):
        given = operand(clip, number)
        if given is not None:
            bounds.append(scalar(given, rewriter, x))
        else:
            bounds.append(float(clip.attributes[name].value) if name in clip.attributes else None)
    add = defining(clip.operands[0], "Add")
    if bounds != [0.0, 6.0] or add is None:
        return False
    return any(add.operands[number] == x and scalar(add.operands[1 - number], rewriter, x) == 3.0 for number in (0, 1))


RULES = (
    Rule("fuse-swish", ("Mul",), _fuse),
    Rule("fuse-hard-swish", ("Mul", "Div"), _clipped),
)
