"""`scf.for` and `scf.while` over tensors: state that goes around, and slices that are stacked.

State whose extents stay the same lives in one buffer, which every iteration overwrites at its end. State whose extents
change is a new buffer per iteration. Slices go into a tensor of all of them where their number and extents are known
before the loop, otherwise into one that every iteration copies and extends (`stacking` has something better for most).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.extents import index
from hip_compiler.core.conversion.onnx_op import NotSupportedError
from hip_compiler.core.conversion.regions import (
    UNKNOWN,
    apart,
    cast,
    give,
    is_true,
    origin,
    private,
    read_back,
    region_holder,
)
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.core.mlir import arith, bufferization, ir
from hip_compiler.dtypes import DType
from hip_compiler.shapes import Dim, Shape, Symbol, dim

RESERVED = 256
"""A loop that may end early gets memory for all its slices when it has at most so many iterations."""


@dataclass(frozen=True)
class Step:
    """What one iteration yields.

    Attributes:
        states: new values of the state.
        slices: one tensor per stack.
        condition: one element: whether to go on; None: always.
    """

    states: Sequence[Tensor]
    slices: Sequence[Tensor] = ()
    condition: Tensor | None = None


@dataclass(frozen=True)
class Stack:
    """How the slices of all iterations become one tensor.

    Attributes:
        axis: the new axis, in the result; negative ones count from its end.
        reverse: the last iteration comes first. Only for loops that cannot end early.
    """

    axis: int = 0
    reverse: bool = False


Body = Callable[[Dim, list[Tensor]], Step]
"""Emits an iteration at the current insertion point, given its number and the state. Called several times."""


@dataclass(frozen=True)
class LoopResult:
    """What a loop leaves.

    Attributes:
        states: the state after the last iteration.
        stacks: the slices of all iterations.
        count: number of iterations.
    """

    states: list[Tensor]
    stacks: list[Tensor]
    count: Dim


class UnboundedStacksError(Exception):
    """Slices of known extents, as many as only run time knows.

    Attributes:
        parts: shape and element type of each slice.
    """

    def __init__(self, parts: list[tuple[Shape, DType]]) -> None:
        self.parts = parts


@dataclass
class _Pile:
    """A stack while the loop is built: its shape, and whether it is in place from the start."""

    stack: Stack
    shape: tuple[Dim, ...]
    grows: bool
    source: Tensor


class _Widen(Exception):  # noqa: N818 - not an error
    """The body contradicts what was assumed of the state's extents."""

    def __init__(self, shapes: list[tuple[Dim, ...]]) -> None:
        self.shapes = shapes


def loop(
    emitter: Emitter,
    states: Sequence[Tensor],
    body: Body,
    *,
    trip: Dim | None,
    condition: Tensor | None = None,
    stacks: Sequence[Stack] = (),
) -> LoopResult:
    """Emit a loop at the current insertion point.

    Args:
        trip: most iterations, not negative; None: no limit.
        condition: one element: whether to begin at all; None: yes.

    Raises:
        NotSupportedError: state whose element type or rank changes, and what the body raises.
        UnboundedStacksError: the loop can be made without its stacks.
    """
    shapes = [source.shape for source in states]
    unknown = [(UNKNOWN,) * source.rank for source in states]
    failure: NotSupportedError | None = None
    while True:
        builder = _LoopBuilder(emitter, states, shapes, trip, condition, stacks)
        try:
            return builder.build(body)
        except _Widen as wider:
            shapes = wider.shapes
        except NotSupportedError as error:
            # The extents before the loop may be what does not fit.
            if failure is not None or shapes == unknown:
                raise failure or error from None
            failure, shapes = error, unknown


class _LoopBuilder:
    def __init__(
        self,
        emitter: Emitter,
        states: Sequence[Tensor],
        shapes: list[tuple[Dim, ...]],
        trip: Dim | None,
        condition: Tensor | None,
        stacks: Sequence[Stack],
    ) -> None:
        self.emitter = emitter
        self.states = states
        self.shapes = shapes
        self.trip = trip
        self.condition = condition
        self.stacks = stacks
        self.types = [emitter.tensor_type(shape, s.dtype) for shape, s in zip(shapes, states, strict=True)]
        self.piles: list[_Pile] = []

    def build(self, body: Body) -> LoopResult:
        emitter = self.emitter
        outer = emitter.extents.bound
        holder = region_holder(1)
        try:
            self.block = holder.regions[0].blocks.append(ir.IndexType.get(), *self.types)
            with ir.InsertionPoint(self.block), emitter.scope():
                self.iteration = emitter.fresh_symbol(self.block.arguments[0])
                arguments = list(self.block.arguments)[1:]
                sources = zip(arguments, self.shapes, self.states, strict=True)
                step = body(self.iteration, [read_back(emitter, v, shape, s.dtype) for v, shape, s in sources])
                self._widen(step.states)
                self.counted = self.trip is not None and _always(self.condition) and _always(step.condition)
                if step.slices and self._capacity() is None and all(_known(part, outer) for part in step.slices):
                    raise UnboundedStacksError([(part.shape, part.dtype) for part in step.slices])
                control = [] if self.counted else self._control(step.condition)
                piles = [self._pile(stack, part, outer) for stack, part in zip(self.stacks, step.slices, strict=True)]
                # Last, because new state overwrites the old: whatever reads the old stands before.
                following = [self._apart(emitter.value(state)) for state in step.states]
                after = [self._next(*row) for row in zip(following, arguments, self.shapes, strict=True)]
                yielded = [*after, *piles, *control]
            return self._finish(yielded)
        finally:
            holder.erase()

    def _widen(self, states: Sequence[Tensor]) -> None:
        wider = []
        for before, after, shape in zip(self.states, states, self.shapes, strict=True):
            if before.dtype is not after.dtype:
                raise NotSupportedError(f"state of a loop changes from {before.dtype} to {after.dtype}")
            if before.rank != after.rank:
                raise NotSupportedError(f"state of a loop changes from {before.rank} to {after.rank} dimensions")
            wider.append(tuple(x if x == y else UNKNOWN for x, y in zip(shape, after.shape, strict=True)))
        if wider != self.shapes:
            raise _Widen(wider)

    def _control(self, condition: Tensor | None) -> list[Any]:
        """The number of the next iteration, and whether it is wanted."""
        number, kind = arith.addi(self.block.arguments[0], index(1)), ir.IntegerType.get_signless(1)
        if condition is None or _always(condition):
            return [number, arith.constant(kind, ir.IntegerAttr.get(kind, 1))]
        return [number, is_true(self.emitter, condition)]

    def _apart(self, value: Any) -> Any:
        """New state that may be in the memory of old state, in memory of its own."""
        source = origin(value)
        branched = not isinstance(source.owner, ir.Block) and source.owner.name in ("scf.if", "scf.for", "scf.while")
        return private(value) if branched else apart(value)

    def _next(self, value: Any, argument: Any, shape: tuple[Dim, ...]) -> Any:
        """The yielded value of a state."""
        if UNKNOWN in shape or _is_update(value, argument):
            return value
        source = cast(value, argument.type)
        return bufferization.MaterializeInDestinationOp(argument.type, source, argument).result

    # ---- stacks -----------------------------------------------------------------------------------------

    def _capacity(self) -> Dim | None:
        """Slices to have memory for; None: nobody knows."""
        if self.counted or (self.trip is not None and self.trip.value is not None and self.trip.value <= RESERVED):
            return self.trip
        return None

    def _pile(self, stack: Stack, part: Tensor, outer: frozenset[Symbol]) -> Any:
        """Put a slice on its stack."""
        emitter, capacity = self.emitter, self._capacity()
        if not -part.rank - 1 <= stack.axis <= part.rank:
            raise NotSupportedError(f"scan output axis {stack.axis} of a tensor of {part.rank + 1} dimensions")
        stack = replace(stack, axis=stack.axis % (part.rank + 1))
        known = tuple(extent if extent.symbols() <= outer else UNKNOWN for extent in part.shape)
        if capacity is None or UNKNOWN in known:
            return self._grow(stack, part, known)
        shape = _with_axis(known, stack.axis, capacity)
        argument = self._argument(shape, part)
        self.piles.append(_Pile(stack, shape, False, part))
        start = capacity - 1 - self.iteration if stack.reverse else self.iteration
        layer = emitter.reshape(part, _with_axis(part.shape, stack.axis, dim(1)))
        return emitter.insert(layer, argument, stack.axis, start)

    def _grow(self, stack: Stack, part: Tensor, known: tuple[Dim, ...]) -> Any:
        emitter = self.emitter
        shape = (UNKNOWN, *known)
        argument = self._argument(shape, part)
        self.piles.append(_Pile(stack, shape, True, part))
        # As many as there were iterations.
        before = read_back(emitter, argument, (self.iteration, *known), part.dtype)
        first = arith.cmpi(arith.CmpIPredicate.eq, self.block.arguments[0], index(0))
        for old, new in zip(before.shape[1:], part.shape, strict=True):
            if old != new:
                same = arith.cmpi(arith.CmpIPredicate.eq, emitter.index_value(old), emitter.index_value(new))
                emitter.check(arith.ori(first, same), "slices of a scan output differ in shape")
        layer = emitter.reshape(part, (dim(1), *part.shape))
        parts = [layer, before] if stack.reverse else [before, layer]
        return emitter.value(emitter.concat(parts, 0, (self.iteration + 1, *part.shape)))

    def _argument(self, shape: tuple[Dim, ...], part: Tensor) -> Any:
        kind = self.emitter.tensor_type(shape, part.dtype)
        self.types.append(kind)
        return self.block.add_argument(kind, ir.Location.current)

    # ---- the loop ---------------------------------------------------------------------------------------

    def _finish(self, yielded: list[Any]) -> LoopResult:
        emitter = self.emitter
        limit = None if self.trip is None else emitter.index_value(self.trip)
        # Iterations write into the buffer of state that keeps its shape. Where it does not, the copy hides the extents
        # that the state begins with: a `tensor.cast` would let canonicalisation take them for those of all iterations.
        initial = [private(cast(emitter.value(s), kind)) for s, kind in zip(self.states, self.types, strict=False)]
        for pile in self.piles:
            shape = tuple(dim(0) if extent is UNKNOWN else extent for extent in pile.shape)
            empty, kind = emitter.empty(shape, pile.source.dtype), self.types[len(initial)]
            initial.append(private(cast(empty, kind)) if pile.grows else empty)
        with ir.InsertionPoint(self.block):
            give(yielded, self.types + [value.type for value in yielded[len(self.types) :]])
        if self.counted:
            op = self._for(limit, initial)
            results, count = list(op.results), self.trip
        else:
            op = self._while(limit, initial)
            *results, iterations = op.results
            count = emitter.fresh_symbol(iterations)
        assert count is not None
        final = [
            read_back(emitter, value, shape, source.dtype)
            for value, shape, source in zip(results, self.shapes, self.states, strict=False)
        ]
        piled = zip(results[len(final) :], self.piles, strict=True)
        return LoopResult(final, [self._stacked(value, pile, count) for value, pile in piled], count)

    def _for(self, limit: Any, initial: list[Any]) -> Any:
        operands = [index(0), limit, index(1), *initial]
        op = ir.Operation.create("scf.for", results=self.types, operands=operands, regions=1)
        self.block.append_to(op.regions[0])
        return op

    def _while(self, limit: Any, initial: list[Any]) -> Any:
        # Bufferization compares what goes into and out of a region by position, so the tensors come first in each list.
        number, flag = ir.IndexType.get(), ir.IntegerType.get_signless(1)
        if self.condition is None or _always(self.condition):
            begin = arith.constant(flag, ir.IntegerAttr.get(flag, 1))
        else:
            begin = is_true(self.emitter, self.condition)
        operands = [*initial, index(0), begin]
        op = ir.Operation.create("scf.while", results=[*self.types, number], operands=operands, regions=2)
        before = op.regions[0].blocks.append(*self.types, number, flag)
        with ir.InsertionPoint(before):
            *carried, iteration, going = before.arguments
            if limit is not None:
                going = arith.andi(going, arith.cmpi(arith.CmpIPredicate.slt, iteration, limit))
            ir.Operation.create("scf.condition", operands=[going, *carried, iteration])
        iteration = self.block.add_argument(number, ir.Location.current)
        self.block.arguments[0].replace_all_uses_with(iteration)
        self.block.erase_argument(0)
        self.block.append_to(op.regions[1])
        return op

    def _stacked(self, value: Any, pile: _Pile, count: Dim) -> Tensor:
        emitter, axis = self.emitter, pile.stack.axis
        if not pile.grows:
            whole = Tensor(pile.shape, pile.source.dtype, value)
            if pile.shape[axis] == count:
                return whole
            sizes = [count if i == axis else extent for i, extent in enumerate(pile.shape)]
            return emitter.slice(whole, [dim(0)] * whole.rank, sizes, [1] * whole.rank)
        grown = read_back(emitter, value, (count, *pile.shape[1:]), pile.source.dtype)
        order = list(range(1, grown.rank))
        return emitter.transpose(grown, [*order[:axis], 0, *order[axis:]])


def _known(part: Tensor, outer: frozenset[Symbol]) -> bool:
    return all(extent.symbols() <= outer for extent in part.shape)


def _is_update(value: Any, argument: Any) -> bool:
    """Whether a value is old state with parts of it overwritten, which happens in place."""
    return value != argument and _updated(value) == argument


def _updated(value: Any) -> Any:
    while not isinstance(value.owner, ir.Block) and value.owner.name == "tensor.insert_slice":
        value = value.owner.operands[1]
    return value


def _always(condition: Tensor | None) -> bool:
    if condition is None:
        return True
    return condition.constant is not None and condition.constant.size == 1 and bool(condition.constant.item())


def _with_axis(shape: Sequence[Dim], axis: int, extent: Dim) -> tuple[Dim, ...]:
    return (*shape[:axis], extent, *shape[axis:])
