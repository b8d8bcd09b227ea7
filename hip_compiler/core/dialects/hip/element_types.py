"""Checks of element types that verifiers of hip operations share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hip_compiler.core.mlir import ir
from hip_compiler.registry.contributions import Operation

FLOATS = ("f32", "f16", "bf16", "f64")
INTEGERS = ("i8", "i16", "i32", "i64")


def element_types(op: Operation) -> list[str]:
    """Storage element types of all operands, as MLIR text."""
    return [str(ir.ShapedType(operand.type).element_type) for operand in op.operands]


def one_of(allowed: Sequence[str]) -> Callable[[Operation], str | None]:
    """A verifier: all operands have the same element type, one of those allowed."""

    def verify(op: Operation) -> str | None:
        found = element_types(op)
        if found[0] not in allowed:
            return f"element type {found[0]} is not supported; supported are {', '.join(allowed)}"
        if len(set(found)) != 1:
            return f"operands have different element types: {', '.join(found)}"
        return None

    return verify
