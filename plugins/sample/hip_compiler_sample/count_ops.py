"""A pass that counts operations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.plugin import PassContext


@dataclass(frozen=True)
class CountOps:
    """Notes on the module how many operations of a dialect there are, per kind.

    IR in: any. IR out: the same, with a dictionary attribute on the module.

    Attributes:
        dialect: the dialect counted.
        attribute: name of the attribute.
    """

    dialect: str = "hip"
    attribute: str = "sample.op_counts"

    def apply(self, op: Any, context: PassContext) -> None:
        counts: Counter[str] = Counter()

        def visit(operation: Any) -> Any:
            if operation.name.startswith(f"{self.dialect}."):
                counts[operation.name] += 1
            return ir.WalkResult.ADVANCE

        op.walk(visit)
        i64 = ir.IntegerType.get_signless(64)
        op.attributes[self.attribute] = ir.DictAttr.get(
            {name: ir.IntegerAttr.get(i64, count) for name, count in sorted(counts.items())}
        )
        context.reports["sample op counts"] = dict(counts)
