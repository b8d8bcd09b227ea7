"""`hip-lower-allocs`: copies become generated kernels, allocations that no arena holds become memory of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.build import Builder, all_operations, functions_in
from hip_compiler.core.passes.extents import Extents


@dataclass
class LowerAllocs:
    """Lower what `hip-pool-allocs` left.

    In: `memref.alloc`, `memref.dealloc` and `memref.copy` anywhere in a function.
    Out: none of them. An allocation is `hip.alloc`, memory that lives until the run ends, or, inside of a loop, until
    the end of an iteration that does not pass it on. A copy is a `linalg.generic`, which merges whatever is
    contiguous and runs on the thread pool.
    """

    name = "hip-lower-allocs"

    def apply(self, op: Any, context: PassContext) -> None:
        for function in functions_in(op):
            found = [inner for inner in all_operations(function) if inner.operation.name in _LOWERINGS]
            if found:
                with function.location:
                    _lower(function, found)
            for loop in [inner for inner in all_operations(function) if inner.operation.name in _BODIES]:
                _release_in(loop)


def _lower(function: Any, found: list[Any]) -> None:
    state = _State(Builder(), Extents(function))
    for op in found:
        with op.location, ir.InsertionPoint(op):
            _LOWERINGS[op.operation.name](state, op)
        op.operation.erase()


_BODIES = {"scf.for": 0, "scf.while": 1}
"""Loops, with the number of the region that ends an iteration."""


def _release_in(loop: Any) -> None:
    """Let every iteration of a loop free the memory that it took: only what it yields can be read later."""
    if not any(inner.operation.name in ("hip.alloc", "hip.get_pool") for inner in all_operations(loop)):
        return
    body = loop.regions[_BODIES[loop.operation.name]].blocks[0]
    terminator = body.operations[len(body.operations) - 1]
    with loop.location:
        mark = ir.Operation.create("hip.mark", results=[ir.IndexType.get()], ip=ir.InsertionPoint(loop)).result
        with ir.InsertionPoint(terminator):
            argument = ir.Type.parse("!hip.argument")
            kept = [
                ir.Operation.create("hip.as_argument", results=[argument], operands=[value]).result
                for value in terminator.operands
                if isinstance(value.type, ir.MemRefType)
            ]
            ir.Operation.create("hip.release", operands=[mark, *kept])


@dataclass(frozen=True)
class _State:
    build: Builder
    extents: Extents


def _lower_alloc(state: _State, op: Any) -> None:
    result = op.results[0]
    size = state.extents.emit(state.extents.bytes(result))
    pool_type = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], ir.IntegerType.get_signless(8))
    memory = ir.Operation.create("hip.alloc", results=[pool_type], operands=[size]).result
    operands = [memory, state.build.constant(0), *op.operands]
    result.replace_all_uses_with(ir.Operation.create("memref.view", results=[result.type], operands=operands).result)


def _lower_copy(state: _State, op: Any) -> None:
    source, target = op.operands
    rank = source.type.rank
    element = source.type.element_type
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank))
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    copy = ir.Operation.create(
        "linalg.generic",
        operands=[source, target],
        regions=1,
        attributes={
            "indexing_maps": ir.ArrayAttr.get([identity, identity]),
            "iterator_types": ir.ArrayAttr.get([parallel] * rank),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
        },
    )
    block = copy.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(block):
        ir.Operation.create("linalg.yield", operands=[block.arguments[0]])


def _lower_dealloc(state: _State, op: Any) -> None:
    """Nothing: the memory lives until the run ends."""


_LOWERINGS = {"memref.alloc": _lower_alloc, "memref.copy": _lower_copy, "memref.dealloc": _lower_dealloc}
