"""Finding operations before changing them: an operation that a rewrite erased must not be touched again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hip_compiler.core.mlir import ir


def operations_where(root: Any, predicate: Callable[[Any], bool]) -> list[Any]:
    """Operations below the root that satisfy the predicate, in program order."""
    found: list[Any] = []

    def visit(op: Any) -> Any:
        operation = op.operation
        if predicate(operation):
            found.append(operation)
        return ir.WalkResult.ADVANCE

    root.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def operations_named(root: Any, *names: str) -> list[Any]:
    """Operations below the root with one of the names, in program order."""
    return operations_where(root, lambda op: op.name in names)
