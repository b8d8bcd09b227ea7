"""`hip-pool-allocs`: transient buffers get places in one arena, planned by their lifetimes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.arena import Lifetime, Plan, plan_offsets
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.build import Builder, functions_in
from hip_compiler.core.passes.extents import Extent, Extents, times
from hip_compiler.core.passes.hoist_extents import hoist_extents, resolve_dims
from hip_compiler.core.passes.lifetimes import Buffer, Lifetimes
from hip_compiler.core.passes.reuse_buffers import reuse_buffers
from hip_compiler.shapes import Dim

WASTE = 8
"""Sizes of at least so many alignments are rounded up to share a group; smaller ones would waste too much."""


@dataclass
class PoolAllocs:
    """Plan the arena of a function.

    In: a function with one block (control flow is `scf`) and `memref.alloc` operations of identity layout.
    Out: an allocation is a `memref.view` of the arena, `hip.get_pool`, which is asked for once, before the first
    buffer. Buffers that are proportional to the same product of extents are packed together, in units of it; offsets
    are then index arithmetic. An elementwise operation may write over an input that dies there. Sizes that are not
    known at the entry get domains of their own, asked for where they are known. Buffers that are never touched go.
    Buffers that outlive the function, or an iteration of the loop they are made in, stay for `hip-lower-allocs`.
    `context.reports["arena"]` says what was planned, by function.

    Attributes:
        alignment: of every buffer, in bytes.
    """

    alignment: int = 64

    name = "hip-pool-allocs"

    def apply(self, op: Any, context: PassContext) -> None:
        report = context.reports.setdefault("arena", {"domains": 0, "functions": {}})
        for function in functions_in(op):
            with function.location:
                PoolPlanner(function, self.alignment, report).run()


@dataclass
class Group:
    """Buffers packed together.

    Attributes:
        unit: what a size of 1 stands for, in bytes.
        rounded: the unit has to be rounded up to the alignment at run time.
    """

    unit: Extent
    rounded: bool
    buffers: list[Buffer]
    sizes: list[int]

    def plan(self) -> Plan:
        return plan_offsets([Lifetime(size, b.start, b.end) for size, b in zip(self.sizes, self.buffers, strict=True)])


class PoolPlanner:
    """Plans one function."""

    def __init__(self, function: Any, alignment: int, report: dict[str, Any]) -> None:
        self._function = function
        self._alignment = alignment
        self._report = report
        self._entry = function.regions[0].blocks[0]

    def run(self) -> None:
        resolve_dims(self._function)
        hoist_extents(self._function)
        lifetimes = Lifetimes(self._function)
        buffers = reuse_buffers(self._function, lifetimes)
        self._remove_deallocations(lifetimes)
        pooled = [buffer for buffer in buffers if not self._removed(buffer) and not buffer.escapes]
        if not pooled:
            return
        self._build = Builder()
        self._pool_type = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], ir.IntegerType.get_signless(8))
        self._extents = Extents(self._function)
        first = min(pooled, key=lambda buffer: buffer.position).top.operation
        known = set(self._entry.arguments)
        for op in self._entry.operations:
            if op.operation == first:
                break
            known.update(op.results)
        planned: list[tuple[Buffer, Extent]] = []
        late: list[tuple[Buffer, Extent]] = []
        for buffer in pooled:
            size = self._extents.bytes(buffer.op.results[0])
            at_entry = all(value in known for value in self._extents.values(size))
            (planned if at_entry else late).append((buffer, size))
        summary: dict[str, Any] = {"buffers": len(pooled)}
        if planned:
            with ir.InsertionPoint(first):
                self._place(self._groups(planned), summary)
        if late:
            summary["late"] = self._place_late(late)
        self._report["functions"][self._function.attributes["sym_name"].value] = summary

    def _removed(self, buffer: Buffer) -> bool:
        """Remove a buffer that nothing touches, with its views."""
        if buffer.start >= 0 or buffer.escapes:
            return False
        _erase_with_users(buffer.op)
        return True

    def _remove_deallocations(self, lifetimes: Lifetimes) -> None:
        # The arena frees nothing, and what outlives it is freed by the end of the run.
        for op, _ in lifetimes.deallocations:
            op.operation.erase()

    def _groups(self, planned: Sequence[tuple[Buffer, Extent]]) -> list[Group]:
        groups: dict[Extent, Group] = {}
        small: dict[Extent, list[tuple[Buffer, int]]] = {}
        for buffer, size in planned:
            factor, unit = _split(size)
            if unit != 1 and factor % self._alignment and factor < WASTE * self._alignment:
                small.setdefault(unit, []).append((buffer, factor))
                continue
            group = groups.setdefault(unit, Group(unit, False, [], []))
            group.buffers.append(buffer)
            group.sizes.append(-(-factor // self._alignment) * self._alignment)
        rounded = []
        for unit, members in small.items():
            # Rounding the common part wastes less than an alignment for each time that it is in a size.
            common = gcd(*(factor for _, factor in members))
            sizes = [factor // common for _, factor in members]
            rounded.append(Group(times(unit, common), True, [buffer for buffer, _ in members], sizes))
        # Offsets of static buffers are constants when their group comes first.
        return [*sorted(groups.values(), key=lambda group: group.unit != 1), *rounded]

    def _place(self, groups: list[Group], summary: dict[str, Any]) -> None:
        build = self._build
        base: Any = None
        static = 0
        domain = self._next_domain()
        places: list[tuple[Buffer, Any]] = []
        for group in groups:
            plan = group.plan()
            self._describe(group, plan, summary)
            if group.unit == 1:
                static = plan.peak
            unit = self._unit(group)
            for buffer, offset in zip(group.buffers, plan.offsets, strict=True):
                place = build.constant(offset) if unit is None else self._offset(static, base, offset, unit)
                places.append((buffer, place))
            if unit is not None:
                end = build.mul(unit, build.constant(plan.peak))
                base = end if base is None else build.add(base, end)
        total = build.constant(static) if base is None else self._plus(base, static)
        pool = self._pool(total, domain)
        for buffer, place in places:
            self._replace(buffer, pool, place)

    def _unit(self, group: Group) -> Any:
        """Bytes of a unit at run time; None where offsets are constants."""
        if group.unit == 1:
            return None
        unit = self._extents.emit(group.unit)
        if not self._extents.not_negative(group.unit):
            # The run fails with a message where an extent is negative, but only when it gets there.
            unit = self._build.op("arith.maxsi", unit, self._build.constant(0))
        if not group.rounded:
            return unit
        up = self._build.add(unit, self._build.constant(self._alignment - 1))
        return self._build.op("arith.andi", up, self._build.constant(-self._alignment))

    def _offset(self, static: int, base: Any, offset: int, unit: Any) -> Any:
        build = self._build
        start = build.constant(static) if base is None else self._plus(base, static)
        return start if not offset else build.add(start, build.mul(unit, build.constant(offset)))

    def _plus(self, value: Any, constant: int) -> Any:
        return value if not constant else self._build.add(value, self._build.constant(constant))

    def _place_late(self, late: Sequence[tuple[Buffer, Extent]]) -> int:
        """Give each buffer a domain that no other buffer uses at the same time; the number of domains."""
        ends: list[tuple[int, int]] = []
        for buffer, size in sorted(late, key=lambda entry: entry[0].position):
            number = next((n for n, (_, end) in enumerate(ends) if end < buffer.position), len(ends))
            if number == len(ends):
                ends.append((self._next_domain(), buffer.end))
            ends[number] = (ends[number][0], buffer.end)
            with ir.InsertionPoint(buffer.op), buffer.op.location:
                pool = self._pool(self._extents.emit(size), ends[number][0])
                self._replace(buffer, pool, self._build.constant(0))
        return len(ends)

    def _next_domain(self) -> int:
        self._report["domains"] += 1
        return int(self._report["domains"]) - 1

    def _pool(self, size: Any, domain: int) -> Any:
        attributes = {"domain": ir.IntegerAttr.get(self._build.i64, domain)}
        return ir.Operation.create(
            "hip.get_pool", results=[self._pool_type], operands=[size], attributes=attributes
        ).result

    def _replace(self, buffer: Buffer, pool: Any, offset: Any) -> None:
        result = buffer.op.results[0]
        with ir.InsertionPoint(buffer.op), buffer.op.location:
            operands = [pool, offset, *buffer.op.operands]
            view = ir.Operation.create("memref.view", results=[result.type], operands=operands).result
        result.replace_all_uses_with(view)
        buffer.op.operation.erase()

    def _describe(self, group: Group, plan: Plan, summary: dict[str, Any]) -> None:
        numbers = {"peak": plan.peak, "bound": plan.bound, "ratio": round(plan.ratio, 4), "buffers": len(group.buffers)}
        if group.unit == 1:
            summary["static"] = numbers
        else:
            summary.setdefault("dynamic", []).append({"unit": str(group.unit), **numbers})


def _split(size: Extent) -> tuple[int, Extent]:
    """A size as a number times an extent without a common factor."""
    if isinstance(size, int):
        return size, 1
    factor = gcd(*(coefficient for _, coefficient in size.terms))
    return factor, Dim(tuple((atoms, coefficient // factor) for atoms, coefficient in size.terms))


def _erase_with_users(op: Any) -> None:
    for result in op.results:
        for use in list(result.uses):
            _erase_with_users(use.owner)
    op.operation.erase()
