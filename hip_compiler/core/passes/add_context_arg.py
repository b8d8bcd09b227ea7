"""`hip-add-context-arg`: every function takes the run's context first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext


@dataclass(frozen=True)
class AddContextArg:
    """In: functions of any form. Out: the same, with `%ctx: !hip.context` as argument 0 of each that has a body."""

    def apply(self, module: Any, context: PassContext) -> None:
        kind = ir.Type.parse("!hip.context")
        for op in module.regions[0].blocks[0].operations:
            if op.operation.name != "func.func" or not op.operation.regions[0].blocks:
                continue
            block = op.operation.regions[0].blocks[0]
            if len(block.arguments) and block.arguments[0].type == kind:
                continue
            block.add_argument(kind, op.operation.location)
            _rotate_last_argument_first(block)
            types = [argument.type for argument in block.arguments]
            results = ir.FunctionType(op.operation.attributes["function_type"].value).results
            op.operation.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, results))
            if "arg_attrs" in op.operation.attributes:
                attributes = [ir.DictAttr.get({}), *op.operation.attributes["arg_attrs"]]
                op.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def _rotate_last_argument_first(block: Any) -> None:
    """Arguments can only be appended: retype them in the new order and move the uses along."""
    arguments = list(block.arguments)
    context_type, types = arguments[-1].type, [argument.type for argument in arguments[:-1]]
    for position in range(len(arguments) - 1, 0, -1):
        arguments[position - 1].replace_all_uses_with(arguments[position])
    for argument, kind in zip(arguments, [context_type, *types], strict=True):
        argument.set_type(kind)
