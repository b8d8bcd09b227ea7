"""Lifetimes of the buffers of a function, seen through every alias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.extents import VIEW_OPS

BRANCHES = frozenset({"scf.if", "scf.index_switch", "scf.execute_region"})
LOOPS = frozenset({"scf.for", "scf.while", "scf.forall", "scf.parallel"})
NONE: frozenset[int] = frozenset()


@dataclass
class Buffer:
    """One allocation.

    Attributes:
        op: the `memref.alloc`.
        top: the top-level operation that it is, or is inside of.
        position: point of time of the allocation.
        start: first point of time at which its memory is touched; -1: none.
        end: last one.
        escapes: it outlives the function, or one iteration of a loop it is made in.
    """

    op: Any
    top: Any
    position: int
    start: int = -1
    end: int = -1
    escapes: bool = False

    def touch(self, position: int) -> None:
        self.start = position if self.start < 0 else self.start
        self.end = position


class Lifetimes:
    """Lifetimes of the allocations of a function with one block (control flow is `scf`).

    Every operation is a point of time, those of branches too. A loop counts as one point with all that is inside of
    it, so what is used in it is in use throughout.

    Attributes:
        buffers: in program order.
        deallocations: `memref.dealloc` operations, with the numbers of the buffers they may free.
    """

    def __init__(self, function: Any) -> None:
        self.buffers: list[Buffer] = []
        self.deallocations: list[tuple[Any, frozenset[int]]] = []
        self._aliases: dict[Any, frozenset[int]] = {}
        self._now = -1
        for op in function.regions[0].blocks[0].operations:
            self._top = op
            self._visit(op, self._tick())

    def of(self, value: Any) -> frozenset[int]:
        """Numbers of the buffers that a memref may point into."""
        return self._aliases.get(value, NONE)

    def _tick(self) -> int:
        self._now += 1
        return self._now

    def _visit(self, op: Any, position: int, *, still: bool = False) -> None:
        """Take note of an operation; `still`: time stands still inside of it, because it is in a loop."""
        name = op.operation.name
        if name == "memref.alloc":
            self._aliases[op.results[0]] = frozenset({len(self.buffers)})
            self.buffers.append(Buffer(op, self._top, position))
            return
        operands = list(op.operands)
        if name in VIEW_OPS:
            self._aliases[op.results[0]] = self.of(operands[0])
            return
        if name == "memref.dealloc":
            self.deallocations.append((op, self.of(operands[0])))
            return
        if name == "memref.dim":
            return
        used = self._union(operands)
        for number in used:
            self.buffers[number].touch(position)
        if name == "func.return":
            self._escape(used)
        elif name in LOOPS:
            self._loop(op, operands, position)
        elif name in BRANCHES:
            yielded = [self._inside(region, position if still else None) for region in op.regions]
            for number, result in enumerate(op.results):
                self._aliases[result] = self._union([values[number] for values in yielded if values])
        else:
            for region in op.regions:
                self._inside(region, position)
            for result in op.results:
                if isinstance(result.type, ir.MemRefType):
                    self._aliases[result] = used

    def _loop(self, op: Any, operands: list[Any], position: int) -> None:
        """What goes around in a loop may be any of the initial and the yielded buffers."""
        first = len(self.buffers)
        carried = self._union(operands)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    if isinstance(argument.type, ir.MemRefType):
                        self._aliases[argument] = carried
        around = self._union([value for region in op.regions for value in self._inside(region, position)])
        self._escape(frozenset(number for number in around if number >= first))
        for result in op.results:
            if isinstance(result.type, ir.MemRefType):
                self._aliases[result] = carried | around

    def _inside(self, region: Any, position: int | None) -> list[Any]:
        """Visit a region, all of it at one point of time if that is given; the operands of its terminators."""
        ended: list[Any] = []
        for block in region.blocks:
            last = None
            for op in block.operations:
                if position is None:
                    self._visit(op, self._tick())
                else:
                    self._visit(op, position, still=True)
                last = op
            if last is not None:
                ended = list(last.operands)
        return ended

    def _union(self, values: list[Any]) -> frozenset[int]:
        found = NONE
        for value in values:
            known = self._aliases.get(value)
            if known:
                found = found | known
        return found

    def _escape(self, numbers: frozenset[int]) -> None:
        for number in numbers:
            self.buffers[number].escapes = True
