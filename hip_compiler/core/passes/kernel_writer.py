"""Writes the loops of a kernel: `func.func private @kernel_N(%memory..., %captured..., %extents..., %begin, %end)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import arith, func, ir, scf
from hip_compiler.core.passes import lane_reduction
from hip_compiler.core.passes.build import Builder
from hip_compiler.core.passes.extents import Extent, product, times
from hip_compiler.core.passes.loop_nest import TILE, Loop, Schedule


@dataclass(frozen=True)
class Access:
    """One piece of memory that a kernel touches, through one indexing map.

    Attributes:
        value: the memref at the place of the launch.
        strides: per loop of the linalg operation, in elements.
        offset: constant part of the indexing map, in elements.
    """

    value: Any
    strides: tuple[Extent, ...]
    offset: Extent


@dataclass(frozen=True)
class KernelSpec:
    """What to compute.

    Attributes:
        body: block of the linalg operation.
        inputs: per block argument: number of an access, or the captured scalar value itself.
        outputs: number of the access that each yielded value is stored to.
        accesses: the memory, each piece once.
        captured: values from outside that the body uses.
        parameters: dynamic extents and strides that the kernel needs.
        schedule: the loops; their strides follow `accesses`.
        aliased: numbers of accesses that may overlap one that is written.
    """

    body: Any
    inputs: tuple[Any, ...]
    outputs: tuple[int, ...]
    accesses: tuple[Access, ...]
    captured: tuple[Any, ...]
    parameters: tuple[Extent, ...]
    schedule: Schedule
    aliased: frozenset[int]


@dataclass(frozen=True)
class Point:
    """Where the walk is: per access the index so far (None: 0), and the value of each loop that the body asks for."""

    indices: tuple[Any, ...]
    loops: dict[int, Any]


class KernelWriter:
    """Writes one kernel.

    Args:
        builder: of the current context.
        spec: what to compute.
    """

    def __init__(self, builder: Builder, spec: KernelSpec) -> None:
        self._build = builder
        self._spec = spec
        self._parameters: dict[Extent, Any] = {}
        self._memory: list[Any] = []
        self._captured: dict[Any, Any] = {}
        self._constants: dict[int, Any] = {}
        self._entry: Any = None
        self._lane: Any = None
        self._bits = ir.IntegerType.get_signless(16)

    def write(self, name: str) -> Any:
        """Create the function at the current insertion point."""
        spec = self._spec
        dynamic = ir.ShapedType.get_dynamic_size()
        flat = [ir.MemRefType.get([dynamic], self._held(access.value.type.element_type)) for access in spec.accesses]
        types = flat + [value.type for value in spec.captured] + [self._build.index] * (len(spec.parameters) + 2)
        function = func.FuncOp(name, ir.FunctionType.get(types, []), visibility="private")
        function.attributes["hip.kernel"] = ir.UnitAttr.get()
        function.attributes["hip.flat"] = ir.IntegerAttr.get(self._build.i64, len(flat))
        function.attributes["arg_attrs"] = self._argument_attributes(len(types))
        block = function.add_entry_block()
        arguments = list(block.arguments)
        self._memory = arguments[: len(flat)]
        self._captured = dict(zip(spec.captured, arguments[len(flat) :], strict=False))
        self._parameters = dict(zip(spec.parameters, arguments[len(flat) + len(spec.captured) :], strict=False))
        with ir.InsertionPoint(block):
            end = ir.Operation.create("func.return")
        self._entry = end
        with ir.InsertionPoint(end):
            self._range(arguments[-2], arguments[-1])
        return function

    def _argument_attributes(self, count: int) -> Any:
        written = set(self._spec.outputs)
        entries = []
        for number in range(count):
            attributes = {}
            if number < len(self._spec.accesses):
                if number not in self._spec.aliased:
                    attributes["llvm.noalias"] = ir.UnitAttr.get()
                if number not in written:
                    attributes["llvm.readonly"] = ir.UnitAttr.get()
            entries.append(ir.DictAttr.get(attributes))
        return ir.ArrayAttr.get(entries)

    def _range(self, begin: Any, end: Any) -> None:
        plan = self._spec.schedule
        start = Point(tuple(self._start(access.offset) for access in self._spec.accesses), {})
        if plan.split:
            self._loops(plan.inner[:-1], start, lambda point: self._for(begin, end, plan.inner[-1], point, self._store))
            return
        if len(plan.outer) == 1 and not plan.tiled and plan.lanes == 1:
            self._for(begin, end, plan.outer[0], start, self._inside)
            return
        outer = Loop(1, True, (0,) * len(start.indices))
        walk = scf.ForOp(begin, end, self._constant(1))
        with ir.InsertionPoint(walk.body):
            if plan.lanes > 1:
                self._by_lanes(walk.induction_variable, start)
            elif plan.tiled:
                self._tiles(walk.induction_variable, start)
            elif plan.outer:
                self._inside(self._delinearise(walk.induction_variable, plan.outer, start))
            else:
                self._inside(self._step(start, outer, walk.induction_variable))
            ir.Operation.create("scf.yield")

    def _inside(self, point: Point) -> None:
        plan = self._spec.schedule
        if not plan.registers:
            self._loops(plan.inner, point, self._store)
            return
        outputs = self._spec.outputs
        totals = self._reduce(plan.inner, point, [self._load(number, point) for number in outputs])
        for number, total in zip(outputs, totals, strict=True):
            self._write(number, point, total)

    def _by_lanes(self, position: Any, start: Point) -> None:
        """One element by a group of lanes; `position` counts lanes."""
        plan, build = self._spec.schedule, self._build
        lanes = self._constant(plan.lanes)
        self._lane = build.op("arith.remui", position, lanes)
        point = start
        if plan.outer:
            point = self._delinearise(build.op("arith.divui", position, lanes), plan.outer, start)
        found = lane_reduction.joins(self._spec.body, len(self._spec.outputs))
        assert found is not None
        totals = self._reduce(plan.inner, point, [lane_reduction.neutral(join) for join in found])
        totals = [lane_reduction.join_lanes(join, total) for join, total in zip(found, totals, strict=True)]
        first = arith.cmpi(arith.CmpIPredicate.eq, self._lane, self._constant(0))
        chosen = scf.IfOp(first)
        with ir.InsertionPoint(chosen.then_block):
            for number, join, total in zip(self._spec.outputs, found, totals, strict=True):
                self._write(number, point, lane_reduction.joined(join, self._load(number, point), total))
            ir.Operation.create("scf.yield")

    def _tiles(self, position: Any, start: Point) -> None:
        """One square of the two last loops, in the row of squares that `position` names."""
        plan, build = self._spec.schedule, self._build
        *others, fast = plan.outer
        (inner,) = plan.inner
        edge = self._constant(TILE)
        squares = self._ceil_divide(self._value(fast.extent))
        tile, point = position, start
        if others:
            tile = build.op("arith.remui", position, squares)
            point = self._delinearise(build.op("arith.divui", position, squares), others, start)
        low, high = self._square(build.mul(tile, edge), fast.extent)
        length = self._value(inner.extent)
        across = scf.ForOp(self._constant(0), length, edge)
        with ir.InsertionPoint(across.body):
            left, right = self._square(across.induction_variable, inner.extent)
            self._for(low, high, fast, point, lambda row: self._for(left, right, inner, row, self._store))
            ir.Operation.create("scf.yield")

    def _square(self, low: Any, extent: Extent) -> tuple[Any, Any]:
        if isinstance(extent, int) and extent % TILE == 0:
            return low, self._build.add(low, self._constant(TILE))
        return low, self._build.op("arith.minui", self._build.add(low, self._constant(TILE)), self._value(extent))

    def _ceil_divide(self, value: Any) -> Any:
        return self._build.op("arith.divui", self._build.add(value, self._constant(TILE - 1)), self._constant(TILE))

    def _delinearise(self, position: Any, loops: Sequence[Loop], point: Point) -> Point:
        for loop in reversed(loops[1:]):
            extent = self._value(loop.extent)
            point = self._step(point, loop, self._build.op("arith.remui", position, extent))
            position = self._build.op("arith.divui", position, extent)
        return self._step(point, loops[0], position)

    def _loops(self, loops: Sequence[Loop], point: Point, inside: Callable[[Point], None]) -> None:
        if not loops:
            inside(point)
            return
        loop, rest = loops[0], loops[1:]
        high = self._value(loop.extent)
        self._for(self._constant(0), high, loop, point, lambda inner: self._loops(rest, inner, inside))

    def _for(self, low: Any, high: Any, loop: Loop, point: Point, inside: Callable[[Point], None]) -> None:
        walk = scf.ForOp(low, high, self._constant(1))
        with ir.InsertionPoint(walk.body):
            inside(self._step(point, loop, walk.induction_variable))
            ir.Operation.create("scf.yield")

    def _reduce(self, loops: Sequence[Loop], point: Point, totals: Sequence[Any]) -> Sequence[Any]:
        if not loops:
            return self._compute(point, totals)
        plan = self._spec.schedule
        shared = plan.lanes > 1 and len(plan.inner) - len(loops) == plan.shared
        low, step = (self._lane, self._constant(plan.lanes)) if shared else (self._constant(0), self._constant(1))
        walk = scf.ForOp(low, self._value(loops[0].extent), step, list(totals))
        with ir.InsertionPoint(walk.body):
            inner = self._step(point, loops[0], walk.induction_variable)
            found = self._reduce(loops[1:], inner, list(walk.inner_iter_args))
            ir.Operation.create("scf.yield", operands=list(found))
        return list(walk.results)

    def _step(self, point: Point, loop: Loop, position: Any) -> Point:
        indices = []
        for index, stride in zip(point.indices, loop.strides, strict=True):
            if stride == 0:
                indices.append(index)
                continue
            moved = position if stride == 1 else self._build.mul(position, self._value(stride))
            indices.append(moved if index is None else self._build.add(index, moved))
        loops = {**point.loops, loop.index: position} if loop.index >= 0 else point.loops
        return Point(tuple(indices), loops)

    def _store(self, point: Point) -> None:
        for number, value in zip(self._spec.outputs, self._compute(point, None), strict=True):
            self._write(number, point, value)

    def _compute(self, point: Point, totals: Sequence[Any] | None) -> list[Any]:
        """The body at one point; what it yields. Without `totals`, old contents of outputs are loaded where used."""
        spec = self._spec
        values = dict(self._captured)
        first_output = len(spec.inputs) - len(spec.outputs)
        for number, (argument, source) in enumerate(zip(spec.body.arguments, spec.inputs, strict=True)):
            if not isinstance(source, int):
                values[argument] = self._outside(source, values)
            elif totals is not None and number >= first_output:
                values[argument] = totals[number - first_output]
            elif next(iter(argument.uses), None) is not None:
                values[argument] = self._load(source, point)
        yielded: list[Any] = []
        for op in spec.body.operations:
            if op.name == "linalg.yield":
                yielded = [self._outside(operand, values) for operand in op.operands]
            elif op.name == "linalg.index":
                dimension = op.attributes["dim"].value
                values[op.results[0]] = point.loops[dimension] if dimension in point.loops else self._constant(0)
            else:
                self._copy(op, values)
        return yielded

    def _copy(self, op: Any, values: dict[Any, Any]) -> None:
        copied = op.operation.clone()
        self._rewire(op, copied, values)
        values.update(zip(op.results, copied.results, strict=True))

    def _rewire(self, original: Any, copied: Any, values: dict[Any, Any]) -> None:
        for number, operand in enumerate(original.operands):
            replacement = self._outside(operand, values)
            if replacement is not operand:
                copied.operands[number] = replacement
        for old_region, new_region in zip(original.regions, copied.regions, strict=True):
            for old_block, new_block in zip(old_region.blocks, new_region.blocks, strict=True):
                values.update(zip(old_block.arguments, new_block.arguments, strict=True))
                for old, new in zip(list(old_block.operations), list(new_block.operations), strict=True):
                    values.update(zip(old.results, new.results, strict=True))
                    self._rewire(old, new, values)

    def _outside(self, operand: Any, values: dict[Any, Any]) -> Any:
        """The kernel's own value for a value of the body; constants from outside are copied in."""
        if operand in values:
            return values[operand]
        with ir.InsertionPoint.at_block_begin(self._entry.block):
            copied = operand.owner.operation.clone()
        self._captured[operand] = values[operand] = copied.results[0]
        return values[operand]

    def _held(self, element: Any) -> Any:
        """The element type of a kernel's memory: LLVM has no shuffles of `bf16`, so that such kernels move bits."""
        return self._bits if isinstance(element, ir.BF16Type) else element

    def _load(self, number: int, point: Point) -> Any:
        memory, element = self._memory[number], self._spec.accesses[number].value.type.element_type
        loaded = ir.Operation.create(
            "memref.load",
            results=[memory.type.element_type],
            operands=[memory, self._index(number, point)],
        ).result
        return loaded if loaded.type == element else arith.bitcast(element, loaded)

    def _write(self, number: int, point: Point, value: Any) -> None:
        memory = self._memory[number]
        kind = memory.type.element_type
        stored = value if value.type == kind else arith.bitcast(kind, value)
        ir.Operation.create("memref.store", operands=[stored, memory, self._index(number, point)])

    def _index(self, number: int, point: Point) -> Any:
        index = point.indices[number]
        return self._constant(0) if index is None else index

    def _start(self, offset: Extent) -> Any:
        return None if offset == 0 else self._value(offset)

    def _value(self, extent: Extent) -> Any:
        return self._constant(extent) if isinstance(extent, int) else self._parameters[extent]

    def _constant(self, value: int) -> Any:
        if value not in self._constants:
            with ir.InsertionPoint.at_block_begin(self._entry.block):
                self._constants[value] = self._build.constant(value)
        return self._constants[value]


def parameters_of(plan: Schedule, offsets: Sequence[Extent]) -> tuple[Extent, ...]:
    """Dynamic extents and strides that a kernel of this schedule computes with, each once, in order of appearance."""
    found: dict[Extent, None] = {}
    loops = [*plan.outer, *plan.inner]
    bounded = plan.inner[-1] if plan.split else (None if plan.tiled else plan.outer[0] if plan.outer else None)
    for loop in loops:
        wanted = [*loop.strides] if loop is bounded else [loop.extent, *loop.strides]
        found.update((extent, None) for extent in wanted if not isinstance(extent, int))
    found.update((offset, None) for offset in offsets if not isinstance(offset, int))
    return tuple(found)


def shared_iterations(plan: Schedule) -> tuple[Extent, Extent | None]:
    """Iterations a launch shares: a product, and for tiled schedules an extent to be divided into tiles as well."""
    if plan.tiled:
        return product([loop.extent for loop in plan.outer[:-1]]), plan.outer[-1].extent
    return times(plan.iterations, plan.lanes), None
