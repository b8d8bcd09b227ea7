"""A tree of multiplications as the list of its factors, so that a pattern need not care for their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hip_compiler.core.passes.simplify.rewriter import Rewriter, defining, scalar, single_user

MAX_FACTORS = 8


@dataclass
class Product:
    """Factors of a value.

    Attributes:
        constant: product of the scalar constants.
        factors: the other factors.
    """

    constant: float = 1.0
    factors: list[Any] = field(default_factory=list)


def product_of(op: Any, rewriter: Rewriter) -> Product:
    """Factors of a `Mul`, or of a `Div` by a scalar constant.

    Multiplications inside are taken apart where nothing else uses them, so that a match leaves no work behind.
    """
    product = Product()
    _collect(op, product, rewriter)
    return product


def _collect(op: Any, product: Product, rewriter: Rewriter) -> None:
    left, right = op.operands[0], op.operands[1]
    if op.name == "onnx.Div":
        number = scalar(right, rewriter, left)
        if not number:
            product.factors.append(op.results[0])
            return
        product.constant /= number
        _factor(left, product, rewriter)
        return
    for value, other in ((left, right), (right, left)):
        number = scalar(value, rewriter, other)
        if number is not None:
            product.constant *= number
            _factor(other, product, rewriter)
            return
    _factor(left, product, rewriter)
    _factor(right, product, rewriter)


def _factor(value: Any, product: Product, rewriter: Rewriter) -> None:
    op = defining(value, "Mul", "Div")
    if op is None or single_user(value) is None or len(product.factors) >= MAX_FACTORS:
        product.factors.append(value)
        return
    _collect(op, product, rewriter)


def cube(value: Any, rewriter: Rewriter) -> Any | None:
    """What a value is the third power of: `Pow(x, 3)`."""
    op = defining(value, "Pow")
    if op is None or scalar(op.operands[1], rewriter, op.operands[0]) != 3.0:
        return None
    return op.operands[0]
