"""Elementwise operations write over an input that nobody needs any more: one buffer less in the caches."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.extents import Extents
from hip_compiler.core.passes.lifetimes import Buffer, Lifetimes


def reuse_buffers(function: Any, lifetimes: Lifetimes) -> list[Buffer]:
    """Let outputs take the place of inputs where every element is read just before it is written.

    Returns:
        The buffers that are left, in program order.
    """
    block = function.regions[0].blocks[0]
    extents = Extents(function)
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    replaced: set[int] = set()
    owners: dict[int, int] = {}

    def owner(number: int) -> int:
        while number in owners:
            number = owners[number]
        return number

    for position, op in enumerate(list(block.operations)):
        if op.operation.name != "linalg.generic" or not _is_elementwise(op, parallel):
            continue
        output = op.operands[len(op.operands) - 1]
        target = _whole(lifetimes, output, block)
        if target is None or target in replaced or lifetimes.buffers[target].start != position:
            continue
        for candidate in _candidates(op, output):
            source = _whole(lifetimes, candidate, block)
            if source is None:
                continue
            kept, gone = lifetimes.buffers[owner(source)], lifetimes.buffers[target]
            if kept.end != position or kept.escapes or gone.escapes or kept is gone:
                continue
            # Views of the output may stand right behind its allocation.
            if kept.position > gone.position:
                continue
            if candidate.type != output.type or extents.sizes(candidate) != extents.sizes(output):
                continue
            if any(owner(n) == owner(source) for n in _touched_otherwise(op, candidate, lifetimes)):
                continue
            kept.end = gone.end
            owners[target] = owner(source)
            replaced.add(target)
            break
    for target in sorted(replaced):
        gone, kept = lifetimes.buffers[target].op, lifetimes.buffers[owner(target)].op
        gone.results[0].replace_all_uses_with(kept.results[0])
        gone.operation.erase()
    return [buffer for number, buffer in enumerate(lifetimes.buffers) if number not in replaced]


def _is_elementwise(op: Any, parallel: Any) -> bool:
    """One output, walked in order, whose old contents and neighbours the body does not read."""
    if list(op.attributes["operandSegmentSizes"])[1] != 1:
        return False
    if any(iterator != parallel for iterator in op.attributes["iterator_types"]):
        return False
    mapping = _maps(op)[-1]
    if mapping != ir.AffineMap.get_identity(mapping.n_dims):
        return False
    body = op.regions[0].blocks[0]
    if next(iter(body.arguments[len(body.arguments) - 1].uses), None) is not None:
        return False
    return all(not len(inner.regions) and not inner.operation.name.startswith("memref.") for inner in body.operations)


def _maps(op: Any) -> list[Any]:
    return [entry.value for entry in op.attributes["indexing_maps"]]


def _candidates(op: Any, output: Any) -> list[Any]:
    """Inputs that are read where the output is written."""
    *inputs, written = zip(op.operands, _maps(op), strict=True)
    return [value for value, mapping in inputs if isinstance(value.type, ir.MemRefType) and mapping == written[1]]


def _touched_otherwise(op: Any, candidate: Any, lifetimes: Lifetimes) -> set[int]:
    """Buffers that the operation reads through other values, or in another order."""
    *inputs, written = zip(op.operands, _maps(op), strict=True)
    others = [value for value, mapping in inputs if value != candidate or mapping != written[1]]
    return {number for value in others for number in lifetimes.of(value)}


def _whole(lifetimes: Lifetimes, value: Any, block: Any) -> int | None:
    """The buffer that a value is the allocation of, made at the top level."""
    found = value.owner
    if isinstance(found, ir.Block) or found.name != "memref.alloc" or found.operation.block != block:
        return None
    (number,) = lifetimes.of(value)
    return number
