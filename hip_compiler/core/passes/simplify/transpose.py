"""Two transpositions in a row are one, or none."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.frontend.node import domain_of
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.simplify.rewriter import Rewriter, Rule, defining, integers, rank


def _order(op: Any) -> tuple[int, ...] | None:
    order = integers(op, "perm")
    if order is not None:
        return order
    known = rank(op.operands[0])
    return None if known is None else tuple(reversed(range(known)))


def _merge(op: Any, rewriter: Rewriter) -> bool:
    inner = defining(op.operands[0], "Transpose")
    if domain_of(op) or inner is None:
        return False
    first, second = _order(inner), _order(op)
    if first is None or second is None or len(first) != len(second):
        return False
    order = tuple(first[axis] for axis in second)
    source = inner.operands[0]
    if order == tuple(range(len(order))):
        rewriter.replace(op, [source])
        return True
    attributes = {"perm": ir.DenseI64ArrayAttr.get(list(order))}
    merged = rewriter.create("Transpose", [source], [op.results[0].type], like=op, attributes=attributes)
    rewriter.replace(op, [merged.results[0]])
    return True


RULES = (Rule("merge-transposes", ("Transpose",), _merge),)
