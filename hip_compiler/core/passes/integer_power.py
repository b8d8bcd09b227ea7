"""Powers of integers by repeated squaring."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.mlir import ir, scf
from hip_compiler.core.passes.extents import constant_index

EQUAL, LESS = 0, 2
"""Predicates of `arith.cmpi`: equal, signed less than."""


def integer_power(base: Any, exponent: Any) -> Any:
    """`base ** exponent`, wrapping around, at the current insertion point.

    A negative exponent gives the reciprocal, rounded towards zero: 1 and -1 keep their size, 0 and the others give 0.
    """
    kind = base.type
    one, zero = _constant(kind, 1), _constant(kind, 0)
    low, high, step = constant_index(0), constant_index(kind.width), constant_index(1)
    loop = scf.ForOp(low, high, step, [one, base, exponent])
    with ir.InsertionPoint(loop.body):
        total, square, bits = loop.inner_iter_args
        is_odd = _compare(EQUAL, _op("arith.andi", bits, one), one)
        total = _select(is_odd, _op("arith.muli", total, square), total)
        operands = [total, _op("arith.muli", square, square), _op("arith.shrui", bits, one)]
        ir.Operation.create("scf.yield", operands=operands)
    is_odd = _compare(EQUAL, _op("arith.andi", exponent, one), one)
    minus_one = _constant(kind, -1)
    of_minus_one = _select(is_odd, minus_one, one)
    reciprocal = _select(_compare(EQUAL, base, one), one, zero)
    reciprocal = _select(_compare(EQUAL, base, minus_one), of_minus_one, reciprocal)
    return _select(_compare(LESS, exponent, zero), reciprocal, loop.results[0])


def _op(name: str, a: Any, b: Any) -> Any:
    return ir.Operation.create(name, results=[a.type], operands=[a, b]).result


def _constant(kind: Any, value: int) -> Any:
    attributes = {"value": ir.IntegerAttr.get(kind, value)}
    return ir.Operation.create("arith.constant", results=[kind], attributes=attributes).result


def _select(condition: Any, a: Any, b: Any) -> Any:
    return ir.Operation.create("arith.select", results=[a.type], operands=[condition, a, b]).result


def _compare(predicate: int, a: Any, b: Any) -> Any:
    attributes = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)}
    boolean = ir.IntegerType.get_signless(1)
    return ir.Operation.create("arith.cmpi", results=[boolean], operands=[a, b], attributes=attributes).result
