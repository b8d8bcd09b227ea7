"""`hip-externalize-constants` and `verify-no-constant-carriers`: where the contents of constants end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.frontend.attributes import dense_array
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.walk import operations_named
from hip_compiler.errors import ErrorCode, HipCompilerError


@dataclass(frozen=True)
class ExternalizeConstants:
    """In: `hip.constant` with contents. Out: `hip.get_constant` at an offset of constants.bin; unused ones are gone."""

    def apply(self, module: Any, context: PassContext) -> None:
        offset_type = ir.IntegerType.get_signless(64)
        for op in operations_named(module, "hip.constant"):
            if not any(True for _ in op.result.uses):
                op.erase()
                continue
            if "buffer" in op.attributes:
                key = op.attributes["buffer"].value
            else:
                key = context.constants.add("inline", dense_array(op.attributes["value"]))
            offset = ir.IntegerAttr.get(offset_type, context.constants.place(key))
            with ir.InsertionPoint(op), op.location:
                view = ir.Operation.create("hip.get_constant", results=[op.result.type], attributes={"offset": offset})
            op.result.replace_all_uses_with(view.result)
            op.erase()


@dataclass(frozen=True)
class VerifyNoConstantCarriers:
    """In and out: any IR without `hip.constant`; later passes cannot give one a place in constants.bin.

    Raises:
        HipCompilerError: `HIPC0306` naming every `hip.constant` left.
    """

    def apply(self, module: Any, context: PassContext) -> None:
        left = operations_named(module, "hip.constant")
        if left:
            raise HipCompilerError(
                ErrorCode.LATE_CONSTANT,
                f"{len(left)} hip.constant made after hip-externalize-constants",
                details=[f"at {op.location}" for op in left],
                hint="a plugin makes constants at slot AfterConvertOnnxToHip, the only one before they are placed",
            )
