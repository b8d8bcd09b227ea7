"""`simplify-onnx`: constant folding, removal of what does nothing, and fusion of exporter patterns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hip_compiler.core.frontend.opsets import module_opsets
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.simplify import RULES
from hip_compiler.core.passes.simplify.rewriter import Rewriter


@dataclass
class SimplifyOnnx:
    """Simplify a module of the `onnx` dialect.

    In: any module that the frontend makes, anchored at `builtin.module`. Out: the same function of the same
    interface in fewer operations of the `onnx` dialect. Results that were computed at compile time are
    constants; operations that a rewrite takes from a newer operator set carry `hip.opset`.
    The report `simplify-onnx` counts the rewrites by name.
    """

    name: ClassVar[str] = "simplify-onnx"

    def apply(self, op: Any, context: PassContext) -> None:
        """Rewrite in place."""
        module = op.operation
        with module.context, ir.Location.unknown():
            rewriter = Rewriter(module, module_opsets(module), context.constants, RULES)
            rewriter.run()
            for view in module.regions[0].blocks[0].operations:
                if view.operation.name == "func.func":
                    _refresh_type(view.operation)
        context.reports[self.name] = dict(sorted(rewriter.applied.items()))


def _refresh_type(function: Any) -> None:
    """Rewrites can replace a result by a value of another (more or less precise) type; the signature follows."""
    if not len(function.regions[0].blocks):
        return
    block = function.regions[0].blocks[0]
    terminator = block.operations[len(block.operations) - 1].operation
    inputs = [argument.type for argument in block.arguments]
    results = [value.type for value in terminator.operands]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
