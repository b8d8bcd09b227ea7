"""Short-hand for creating operations: types and attributes made once per pass, operations by their generic name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hip_compiler.core.mlir import func, ir
from hip_compiler.errors import ErrorCode, HipCompilerError


class Builder:
    """Creates index arithmetic at the current insertion point. Make one per context."""

    def __init__(self) -> None:
        self.index = ir.IndexType.get()
        self.i64 = ir.IntegerType.get_signless(64)
        self.i32 = ir.IntegerType.get_signless(32)
        self.nsw = {"overflowFlags": ir.Attribute.parse("#arith.overflow<nsw>")}

    def constant(self, value: int) -> Any:
        attributes = {"value": ir.IntegerAttr.get(self.index, value)}
        return ir.Operation.create("arith.constant", results=[self.index], attributes=attributes).result

    def op(self, name: str, *operands: Any) -> Any:
        """An operation on index values whose one result is an index."""
        return ir.Operation.create(name, results=[self.index], operands=operands).result

    def add(self, left: Any, right: Any) -> Any:
        return ir.Operation.create(
            "arith.addi", results=[self.index], operands=[left, right], attributes=self.nsw
        ).result

    def mul(self, left: Any, right: Any) -> Any:
        return ir.Operation.create(
            "arith.muli", results=[self.index], operands=[left, right], attributes=self.nsw
        ).result


def operations(block: Any) -> list[Any]:
    """Operations of a block, safe to move or erase while the list is walked."""
    return list(block.operations)


def functions(module: Any, *, kernels: bool = False) -> list[Any]:
    """Functions of a module that have a body: generated kernels, or everything else."""
    return [
        op
        for op in module.regions[0].blocks[0].operations
        if isinstance(op, func.FuncOp) and len(op.regions[0].blocks) and ("hip.kernel" in op.attributes) == kernels
    ]


def functions_in(op: Any) -> list[Any]:
    """What a pass on functions works on, run on a function or on a module: functions with a body, kernels excepted."""
    if isinstance(op.operation.opview, func.FuncOp):
        return [op.operation.opview] if len(op.regions[0].blocks) and "hip.kernel" not in op.attributes else []
    return functions(op)


def all_operations(function: Any) -> list[Any]:
    """Every operation inside a function, outermost first, in order."""
    found: list[Any] = []

    def visit(op: Any) -> None:
        for region in op.regions:
            for block in region.blocks:
                for inner in block.operations:
                    found.append(inner)
                    if len(inner.regions):
                        visit(inner)

    visit(function)
    return found


def place_of(op: Any) -> str:
    """The ONNX node that an operation came from: the name in its location; empty where it has none."""
    location = op.location
    if isinstance(location, ir.UnknownLoc):
        return ""
    return _location_name(location) or str(location).removeprefix("loc(").removesuffix(")").strip('"')


def internal_error(op: Any, what: str, why: str, hint: str = "") -> HipCompilerError:
    """A defect of the pass order or of an earlier pass, told with the place it shows at."""
    return HipCompilerError(
        ErrorCode.PASS_FAILED, what, where=f"{place_of(op)} ({op.operation.name})".lstrip(), why=why, hint=hint
    )


def _location_name(location: Any) -> str:
    if isinstance(location, ir.NameLoc):
        return str(location.name_str)
    if isinstance(location, ir.FusedLoc):
        names: Sequence[str] = [name for name in map(_location_name, location.locations) if name]
        return names[0] if names else ""
    if isinstance(location, ir.CallSiteLoc):
        return _location_name(location.callee)
    return ""
