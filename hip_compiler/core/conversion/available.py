"""Operations that a target has neither a runtime function nor a kernel for."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.build import all_operations, place_of
from hip_compiler.errors import Unsupported
from hip_compiler.registry.contributions import CallLowering


def unavailable(function: Any, context: PassContext, opset: int) -> list[Unsupported]:
    """What a converted function calls or launches and the target lacks, once per node and operation."""
    if context.symbols is None:
        return []
    found: dict[tuple[str, str], Unsupported] = {}
    for op in all_operations(function):
        definition = context.ops.get(op.operation.name)
        if definition is None:
            continue
        lowering = definition.lowering
        if (lowering.symbol if isinstance(lowering, CallLowering) else lowering.kernel) not in context.symbols:
            node, name = place_of(op), definition.name
            reason = f"target '{context.target.name}' does not implement {name} yet"
            if name in context.owners:
                reason = f"{context.owners[name]} has no {name} for target '{context.target.name}'"
            found.setdefault((node, name), Unsupported(node, name, "", opset, (), reason))
    return list(found.values())
