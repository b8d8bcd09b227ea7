"""GELU that an exporter spelt out, with erf or with tanh, becomes `Gelu` (operator set 20)."""

from __future__ import annotations

import math
from typing import Any

from hip_compiler.core.frontend.attributes import dtype_of
from hip_compiler.core.frontend.node import domain_of
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.simplify.normalization import square
from hip_compiler.core.passes.simplify.product import cube, product_of
from hip_compiler.core.passes.simplify.rewriter import Rewriter, Rule, defining, same_type, scalar

OPSET = 20
ROOT_OF_2 = math.sqrt(2.0)
TANH_SCALE = math.sqrt(2.0 / math.pi)
TANH_CUBIC = 0.044715
TOLERANCE = {"float": 1e-4, "double": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}
"""How far a constant may be off, relatively: exporters write few digits, 16-bit types hold few."""


def _fuse(op: Any, rewriter: Rewriter) -> bool:
    """`0.5 * x * (1 + erf(x / sqrt(2)))` or `0.5 * x * (1 + tanh(...))`, factors in any order."""
    dtype = dtype_of(op.results[0].type)
    if domain_of(op) or dtype is None or dtype.name not in TOLERANCE:
        return False
    tolerance = TOLERANCE[dtype.name]
    product = product_of(op, rewriter)
    if len(product.factors) != 2 or not math.isclose(product.constant, 0.5, rel_tol=tolerance):
        return False
    for x, gate in (product.factors, reversed(product.factors)):
        approximate = _gate(gate, x, tolerance, rewriter)
        if approximate is not None and same_type(op.results[0], x):
            attributes = {"approximate": ir.StringAttr.get(approximate)}
            fused = rewriter.create("Gelu", [x], [op.results[0].type], like=op, attributes=attributes, opset=OPSET)
            rewriter.replace(op, [fused.results[0]])
            return True
    return False


def _gate(value: Any, x: Any, tolerance: float, rewriter: Rewriter) -> str | None:
    """The kind of GELU whose gate `1 + f(x)` a value is."""
    inner = _plus_one(value, rewriter)
    function = defining(inner, "Erf", "Tanh")
    if function is None:
        return None
    argument = function.operands[0]
    scaled = defining(argument, "Mul", "Div")
    if scaled is None:
        return None
    if function.name == "onnx.Erf":
        product = product_of(scaled, rewriter)
        exact = product.factors == [x] and math.isclose(product.constant, 1 / ROOT_OF_2, rel_tol=tolerance)
        return "none" if exact else None
    return "tanh" if _tanh_argument(scaled, x, tolerance, rewriter) else None


def _tanh_argument(op: Any, x: Any, tolerance: float, rewriter: Rewriter) -> bool:
    """`sqrt(2 / pi) * (x + 0.044715 * x^3)`, also with `x` put before the bracket."""
    product = product_of(op, rewriter)
    if not math.isclose(product.constant, TANH_SCALE, rel_tol=tolerance):
        return False
    if len(product.factors) == 1:
        add = defining(product.factors[0], "Add")
        if add is None:
            return False
        return any(
            add.operands[number] == x and _scaled_power(add.operands[1 - number], x, 3, tolerance, rewriter)
            for number in (0, 1)
        )
    if len(product.factors) == 2 and x in product.factors:
        bracket = product.factors[1] if product.factors[0] == x else product.factors[0]
        inner = _plus_one(bracket, rewriter)
        return inner is not None and _scaled_power(inner, x, 2, tolerance, rewriter)
    return False


def _scaled_power(value: Any, x: Any, power: int, tolerance: float, rewriter: Rewriter) -> bool:
    """`0.044715 * x^power`, the power as `Pow` or as multiplications."""
    op = defining(value, "Mul")
    if op is None:
        return False
    product = product_of(op, rewriter)
    if not math.isclose(product.constant, TANH_CUBIC, rel_tol=tolerance):
        return False
    degree = 0
    for factor in product.factors:
        if factor == x:
            degree += 1
        elif cube(factor, rewriter) == x:
            degree += 3
        elif square(factor, rewriter) == x:
            degree += 2
        else:
            return False
    return degree == power


def _plus_one(value: Any, rewriter: Rewriter) -> Any | None:
    """What one is added to."""
    op = defining(value, "Add")
    if op is None:
        return None
    for number in (0, 1):
        if scalar(op.operands[number], rewriter, op.operands[1 - number]) == 1.0:
            return op.operands[1 - number]
    return None


RULES = (Rule("fuse-gelu", ("Mul", "Div"), _fuse),)
