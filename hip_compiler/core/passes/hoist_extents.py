"""Moves shape arithmetic to the entry of a function, so that sizes are known before the memory they are sizes of."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.build import all_operations
from hip_compiler.core.passes.extents import Extents
from hip_compiler.core.passes.interface import ENTRY

_DIVISIONS = frozenset(
    {
        "arith.divsi",
        "arith.divui",
        "arith.ceildivsi",
        "arith.ceildivui",
        "arith.floordivsi",
        "arith.remsi",
        "arith.remui",
    }
)


def resolve_dims(function: Any) -> None:
    """Replace `memref.dim` of a buffer or a view by the value that the extent was made from."""
    extents = Extents(function)
    arguments = set(function.regions[0].blocks[0].arguments)
    for op in all_operations(function):
        if op.operation.name != "memref.dim" or op.operands[0] in arguments:
            continue
        extent = extents.index(op.results[0])
        if op.operands[0] in extents.values(extent):
            continue
        with op.location, ir.InsertionPoint(op):
            op.results[0].replace_all_uses_with(extents.emit(extent))
        op.operation.erase()


def hoist_extents(function: Any) -> None:
    """Move integer arithmetic over extents of arguments, and loads from inputs of the graph, to the entry.

    Nobody writes to inputs of the graph. A load moves only where it is known to be in bounds, a division
    only where its divisor is a constant other than 0: a check that stands before them may be what makes them safe.
    """
    block = function.regions[0].blocks[0]
    operations = list(block.operations)
    inputs = set(block.arguments) if function.attributes["sym_name"].value == ENTRY else set()
    available = set(block.arguments)
    anchor = None
    for op in operations:
        movable = _is_movable(op, available, inputs)
        if movable:
            available.update(op.results)
        if anchor is None:
            anchor = None if movable else op
        elif movable:
            op.operation.move_before(anchor)
        if not movable:
            for region in op.regions:
                for inner in region.blocks:
                    _hoist_from(inner, available, anchor)


def _hoist_from(block: Any, available: set[Any], anchor: Any) -> None:
    for op in list(block.operations):
        # Nothing says that a nested load is reached, so its indices may be out of bounds where it would move to.
        if _is_movable(op, available, set()):
            op.operation.move_before(anchor)
            available.update(op.results)
            continue
        if op.operation.name.startswith("linalg."):
            continue
        for region in op.regions:
            for inner in region.blocks:
                _hoist_from(inner, available, anchor)


def _is_movable(op: Any, available: set[Any], inputs: set[Any]) -> bool:
    name = op.operation.name
    operands = list(op.operands)
    if name == "memref.load":
        return operands[0] in inputs and _is_in_bounds(operands[0].type, operands[1:])
    if name != "memref.dim" and not name.startswith("arith."):
        return False
    if not all(isinstance(result.type, ir.IndexType | ir.IntegerType) for result in op.results):
        return False
    if not all(operand in available for operand in operands):
        return False
    return name not in _DIVISIONS or _is_nonzero_constant(operands[1])


def _is_nonzero_constant(value: Any) -> bool:
    return _constant(value) not in (None, 0)


def _is_in_bounds(memref_type: Any, indices: list[Any]) -> bool:
    """Whether a load is known to stay inside its memref, so that no check before it matters."""
    if not memref_type.has_static_shape:
        return False
    found = [_constant(index) for index in indices]
    return all(index is not None and 0 <= index < size for index, size in zip(found, memref_type.shape, strict=True))


def _constant(value: Any) -> int | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    return int(owner.attributes["value"].value)
