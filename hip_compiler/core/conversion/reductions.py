"""Associative reductions: their neutral element and how two values combine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes

from hip_compiler.core.conversion.scalars import Scalar
from hip_compiler.core.mlir import arith
from hip_compiler.dtypes import DType


@dataclass(frozen=True)
class Reduction:
    """A reduction.

    Attributes:
        init: value of the reduction of no elements, by element type.
        combine: accumulator and element to the new accumulator.
    """

    init: Callable[[DType], float]
    combine: Callable[[Scalar, Scalar], Scalar]


def _sum(total: Scalar, element: Scalar) -> Scalar:
    """A sum whose order is free, so that it can be vectorised."""
    if not total.is_float:
        return total + element
    return Scalar(arith.addf(total.value, element.value, fastmath=arith.FastMathFlags.reassoc), total.dtype)


def _product(total: Scalar, element: Scalar) -> Scalar:
    if not total.is_float:
        return total * element
    return Scalar(arith.mulf(total.value, element.value, fastmath=arith.FastMathFlags.reassoc), total.dtype)


def lowest(dtype: DType) -> float:
    """The smallest value of an element type; -inf for floats."""
    if dtype.kind == "float":
        return float("-inf")
    return 0 if dtype.kind == "bool" else int(_integer_info(dtype).min)


def highest(dtype: DType) -> float:
    """The largest value of an element type; inf for floats."""
    if dtype.kind == "float":
        return float("inf")
    return 1 if dtype.kind == "bool" else int(_integer_info(dtype).max)


def _integer_info(dtype: DType) -> Any:
    assert dtype.numpy is not None
    return ml_dtypes.iinfo(dtype.numpy)


REDUCTIONS: dict[str, Reduction] = {
    "sum": Reduction(lambda _: 0, _sum),
    "product": Reduction(lambda _: 1, _product),
    "max": Reduction(lowest, lambda total, element: total.maximum(element)),
    "min": Reduction(highest, lambda total, element: total.minimum(element)),
}
