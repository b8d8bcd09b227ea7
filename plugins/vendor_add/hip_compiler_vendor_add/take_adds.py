"""The pass that takes additions away from the built-in conversion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.plugin import PassContext


@dataclass(frozen=True)
class TakeAdds:
    """Moves additions to the vendor's domain, where the vendor claims them.

    IR in: `onnx` operations on tensors. IR out: the same; every `onnx.Add` of float32 tensors carries the domain.
    Additions of other elements, or of elements that are not known yet, stay as they are.

    Attributes:
        domain: the vendor's ONNX domain.
    """

    domain: str = "com.vendor"

    def apply(self, op: Any, context: PassContext) -> None:
        taken = 0

        def visit(operation: Any) -> Any:
            nonlocal taken
            if operation.name == "onnx.Add" and "domain" not in operation.attributes and _is_float(operation):
                operation.attributes["domain"] = ir.StringAttr.get(self.domain)
                taken += 1
            return ir.WalkResult.ADVANCE

        op.walk(visit)
        context.reports["additions taken by the vendor"] = taken


def _is_float(operation: Any) -> bool:
    shaped = (ir.RankedTensorType, ir.UnrankedTensorType)
    return all(isinstance(o.type, shaped) and str(o.type.element_type) == "f32" for o in operation.operands)
