"""`hip-outline-kernels`: linalg operations on memrefs become kernels that are launched over the thread pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hip_compiler.core.mlir import func, ir, linalg_native
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.build import Builder, all_operations, functions, internal_error
from hip_compiler.core.passes.extents import VIEW_OPS, Extent, Extents, contiguous_strides, is_identity, plus, times
from hip_compiler.core.passes.kernel_writer import Access, KernelSpec, KernelWriter, parameters_of, shared_iterations
from hip_compiler.core.passes.lane_reduction import BESIDE, declare, joins
from hip_compiler.core.passes.loop_nest import TILE, Loop, Schedule, device_schedule, schedule

PARALLEL_NAMED = frozenset({"linalg.fill", "linalg.copy", "linalg.map", "linalg.transpose", "linalg.broadcast"})
OWNED_MEMORY = frozenset({"memref.alloc", "memref.view", "hip.alloc_output", "hip.get_constant"})


@dataclass
class OutlineKernels:
    """Outline generated kernels.

    In: functions whose linalg operations work on memrefs (any strided layout; indexing maps linear in the loops).
    Out: each is a `hip.launch` of a private function marked `hip.kernel`. Its memory arguments (the first
    `hip.flat` ones) are one-dimensional and start at the first element of what is passed; strides and extents that
    are not known are index arguments. Contiguous loops are merged, reductions accumulate in registers (on a
    device long ones in those of a group of lanes, which counts as `%iterations`), equal
    kernels are one function. `%iterations` and `%cost` (scalar operations per iteration) are
    operands; the others go through `hip.as_argument`.
    """

    name = "hip-outline-kernels"

    def apply(self, op: Any, context: PassContext) -> None:
        Outliner(op, device_schedule if context.on_device else schedule).run()


class Outliner:
    """State of one run: the kernels made so far, by what they compute."""

    def __init__(self, module: Any, schedule_of: Callable[[Sequence[Loop], Sequence[int]], Schedule]) -> None:
        self._module = module
        self._schedule_of = schedule_of
        self._kernels: dict[Any, str] = {}
        self._taken: set[str] = set()
        self._count = 0

    def run(self) -> None:
        block = self._module.regions[0].blocks[0]
        self._taken = {op.attributes["sym_name"].value for op in block.operations if "sym_name" in op.attributes}
        with self._module.location:
            self._build = Builder()
            self._argument = ir.Type.parse("!hip.argument")
            self._parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
            self._end = ir.InsertionPoint(block)
            for function in functions(self._module):
                self._function(function)

    def _function(self, function: Any) -> None:
        found = [op for op in all_operations(function) if _is_computation(op)]
        if not found:
            return
        self._public = function.attributes["sym_name"].value == "main_graph"
        self._extents = Extents(function)
        for op in found:
            with op.location, ir.InsertionPoint(op):
                self._outline(op)
            op.operation.erase()

    def _outline(self, op: Any) -> None:
        spec = self._specify(op)
        key = _key(spec)
        name = self._kernels.get(key)
        if name is None:
            name = self._kernels[key] = self._fresh()
            with self._end:
                KernelWriter(self._build, spec).write(name)
                if spec.schedule.lanes > 1 and BESIDE not in self._taken:
                    self._taken.add(BESIDE)
                    declare()
        self._launch(name, spec)

    def _launch(self, name: str, spec: KernelSpec) -> None:
        emit, build = self._extents.emit, self._build
        shared, squares = shared_iterations(spec.schedule)
        per_point = sum(1 for _ in spec.body.operations) + len(spec.accesses)
        if squares is None:
            iterations, cost = emit(shared), emit(times(spec.schedule.work, per_point))
        else:
            tiles = build.op("arith.divui", emit(plus(squares, TILE - 1)), build.constant(TILE))
            iterations = tiles if shared == 1 else build.mul(emit(shared), tiles)
            cost = emit(times(spec.schedule.inner[0].extent, per_point * TILE))
        arguments = [access.value for access in spec.accesses]
        arguments += [*spec.captured, *(emit(parameter) for parameter in spec.parameters)]
        wrapped = [
            ir.Operation.create("hip.as_argument", results=[self._argument], operands=[value]).result
            for value in arguments
        ]
        ir.Operation.create(
            "hip.launch",
            operands=[iterations, cost, *wrapped],
            attributes={"kernel": ir.FlatSymbolRefAttr.get(name)},
        )

    def _specify(self, op: Any) -> KernelSpec:
        body = op.regions[0].blocks[0]
        operands = list(op.operands)
        maps = [entry.value for entry in _indexing_maps(op)]
        count = len(body.operations[len(body.operations) - 1].operands)
        extents = self._loop_extents(operands, maps)
        accesses: dict[Access, int] = {}
        inputs: list[Any] = []
        for operand, mapping in zip(operands, maps, strict=True):
            if not isinstance(operand.type, ir.MemRefType):
                inputs.append(operand)
                continue
            access = self._access(op, operand, mapping, extents)
            inputs.append(accesses.setdefault(access, len(accesses)))
        outputs = tuple(inputs[-count:])
        loops = self._loops(op, body, extents, tuple(accesses))
        plan = self._schedule_of(loops, outputs)
        if plan.lanes > 1 and joins(body, len(outputs)) is None:
            plan = replace(plan, lanes=1)
        scalars = (operand for operand in operands if not isinstance(operand.type, ir.MemRefType))
        captured = {operand: None for operand in scalars if not _is_constant(operand)}
        captured.update((value, None) for value in _captured(body))
        return KernelSpec(
            body=body,
            inputs=tuple(inputs),
            outputs=outputs,
            accesses=tuple(accesses),
            captured=tuple(captured),
            parameters=parameters_of(plan, [access.offset for access in accesses]),
            schedule=plan,
            aliased=self._aliased(list(accesses), list(captured), set(outputs)),
        )

    def _access(self, op: Any, operand: Any, mapping: Any, extents: dict[int, Extent]) -> Access:
        strides: list[Extent] = [0] * mapping.n_dims
        offset: Extent = 0
        for expression, step in zip(mapping.results, self._steps(operand, mapping, extents), strict=True):
            row = [0] * mapping.n_dims
            offset = plus(offset, times(_linear(op, expression, row, 1), step))
            for position, factor in enumerate(row):
                if factor:
                    strides[position] = plus(strides[position], times(factor, step))
        return Access(operand, tuple(strides), offset)

    def _steps(self, operand: Any, mapping: Any, extents: dict[int, Extent]) -> tuple[Extent, ...]:
        """Strides of an operand. Dimensions that one loop walks have the loop's extent, by whatever name."""
        if not is_identity(operand.type):
            return self._extents.strides(operand)
        sizes = [
            extents[expression.position] if isinstance(expression, ir.AffineDimExpr) else size
            for expression, size in zip(mapping.results, self._extents.sizes(operand), strict=True)
        ]
        return contiguous_strides(sizes)

    def _loop_extents(self, operands: list[Any], maps: list[Any]) -> dict[int, Extent]:
        extents: dict[int, Extent] = {}
        # Outputs first: where operands differ in what is known, the destination has the extent of the loop.
        for operand, mapping in reversed(list(zip(operands, maps, strict=True))):
            if not isinstance(operand.type, ir.MemRefType):
                continue
            for expression, size in zip(mapping.results, self._extents.sizes(operand), strict=True):
                if isinstance(expression, ir.AffineDimExpr):
                    known = extents.setdefault(expression.position, size)
                    if isinstance(size, int) and not isinstance(known, int):
                        extents[expression.position] = size
        return extents

    def _loops(self, op: Any, body: Any, extents: dict[int, Extent], accesses: tuple[Access, ...]) -> list[Loop]:
        asked = {inner.attributes["dim"].value for inner in body.operations if inner.name == "linalg.index"}
        kinds = self._iterators(op, len(extents))
        return [
            Loop(
                extents[position],
                kinds[position],
                tuple(access.strides[position] for access in accesses),
                position if position in asked else -1,
            )
            for position in range(len(extents))
        ]

    def _iterators(self, op: Any, count: int) -> list[bool]:
        if "iterator_types" in op.attributes:
            return [entry == self._parallel for entry in op.attributes["iterator_types"]]
        if op.name in PARALLEL_NAMED:
            return [True] * count
        raise internal_error(
            op,
            f"{op.name} cannot be outlined",
            "only linalg.generic states its iterators",
            "run linalg-generalize-named-ops first",
        )

    def _aliased(self, accesses: list[Access], captured: list[Any], written: set[int]) -> frozenset[int]:
        """Numbers of the accesses that may overlap one that is written, or are written and may be read otherwise."""
        memory = [access.value for access in accesses]
        memory += [value for value in captured if isinstance(value.type, ir.MemRefType)]
        roots = [self._root(value) for value in memory]
        overlapping: set[int] = set()
        for output in written:
            for other, root in enumerate(roots):
                if other != output and (root is None or roots[output] is None or root == roots[output]):
                    overlapping |= {output, other}
        return frozenset(number for number in overlapping if number < len(accesses))

    def _root(self, value: Any) -> Any:
        """The buffer that a view looks into, when it is one that nothing else overlaps."""
        owner = value.owner
        while not isinstance(owner, ir.Block):
            if owner.name in OWNED_MEMORY:
                return value
            if owner.name not in VIEW_OPS:
                return None
            value = owner.operands[0]
            owner = value.owner
        return value if self._public and isinstance(owner.owner, func.FuncOp) else None

    def _fresh(self) -> str:
        while f"kernel_{self._count}" in self._taken:
            self._count += 1
        self._taken.add(f"kernel_{self._count}")
        return f"kernel_{self._count}"


def _is_computation(op: Any) -> bool:
    name = op.name
    return name.startswith("linalg.") and name not in ("linalg.yield", "linalg.index")


def _indexing_maps(op: Any) -> Any:
    if "indexing_maps" in op.attributes:
        return op.attributes["indexing_maps"]
    return linalg_native.get_indexing_maps(op)


def _linear(op: Any, expression: Any, row: list[int], factor: int) -> int:
    """Add a linear expression's coefficients to `row`; returns its constant part."""
    if isinstance(expression, ir.AffineDimExpr):
        row[expression.position] += factor
        return 0
    if isinstance(expression, ir.AffineConstantExpr):
        return factor * int(expression.value)
    if isinstance(expression, ir.AffineAddExpr):
        return _linear(op, expression.lhs, row, factor) + _linear(op, expression.rhs, row, factor)
    if isinstance(expression, ir.AffineMulExpr):
        for scale, scaled in ((expression.lhs, expression.rhs), (expression.rhs, expression.lhs)):
            if isinstance(scale, ir.AffineConstantExpr):
                return _linear(op, scaled, row, factor * int(scale.value))
    raise internal_error(
        op, f"the indexing map entry {expression} is not linear", "kernels step through memory by strides"
    )


def _captured(body: Any) -> list[Any]:
    """Values from outside that the body uses, constants excepted (a kernel makes its own)."""
    inside: set[Any] = set(body.arguments)
    found: dict[Any, None] = {}

    def visit(block: Any) -> None:
        inside.update(block.arguments)
        for op in block.operations:
            for operand in op.operands:
                if operand not in inside and not _is_constant(operand):
                    found[operand] = None
            for region in op.regions:
                for inner in region.blocks:
                    visit(inner)
            inside.update(op.results)

    visit(body)
    return list(found)


def _is_constant(value: Any) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == "arith.constant"


def _key(spec: KernelSpec) -> Any:
    """What makes two kernels the same function: everything but the values passed and the names of extents."""
    numbers = {parameter: f"p{number}" for number, parameter in enumerate(spec.parameters)}

    def known(extent: Extent) -> Any:
        return extent if isinstance(extent, int) else numbers.get(extent, "bound")

    def loops(level: tuple[Loop, ...]) -> Any:
        return tuple((known(loop.extent), loop.parallel, tuple(map(known, loop.strides)), loop.index) for loop in level)

    plan: Schedule = spec.schedule
    outer, inner = loops(plan.outer), loops(plan.inner)
    if plan.split:
        inner = (*inner[:-1], inner[-1][1:])
    elif not plan.tiled:
        outer = tuple(entry[1:] if not number else entry for number, entry in enumerate(outer))
    captured = {value: number for number, value in enumerate(spec.captured)}
    return (
        (outer, inner, plan.split, plan.registers, plan.tiled, plan.lanes, plan.shared),
        tuple((access.value.type.element_type, known(access.offset)) for access in spec.accesses),
        tuple(source if isinstance(source, int) else _scalar_key(source, captured) for source in spec.inputs),
        spec.outputs,
        tuple(value.type for value in spec.captured),
        len(spec.parameters),
        spec.aliased,
        _fingerprint(spec.body, captured),
    )


def _scalar_key(value: Any, captured: dict[Any, int]) -> Any:
    if value in captured:
        return ("captured", captured[value])
    return ("constant", value.owner.attributes["value"])


def _fingerprint(body: Any, captured: dict[Any, int]) -> Any:
    numbers: dict[Any, Any] = {value: ("captured", number) for value, number in captured.items()}

    def number(value: Any) -> Any:
        if value not in numbers:
            # Only constants from outside are left: they are known by their contents.
            return value.owner.attributes["value"]
        return numbers[value]

    def visit(block: Any) -> Any:
        for argument in block.arguments:
            numbers[argument] = len(numbers)
        rows = []
        for op in block.operations:
            operands = tuple(number(operand) for operand in op.operands)
            regions = tuple(tuple(visit(inner) for inner in region.blocks) for region in op.regions)
            attributes = tuple((name, op.attributes[name]) for name in op.attributes)
            for result in op.results:
                numbers[result] = len(numbers)
            rows.append((op.name, operands, tuple(result.type for result in op.results), attributes, regions))
        return tuple(rows)

    return visit(body)
