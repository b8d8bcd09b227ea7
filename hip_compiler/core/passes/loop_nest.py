"""Loop nests of linalg operations, and the order in which a CPU or a GPU should walk them.

Pure data: no IR. Every operand is a flat piece of memory with one stride per loop, so broadcasting (stride 0),
transposition and slicing need no cases of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hip_compiler.core.passes.extents import Extent, product, times
from hip_compiler.core.passes.lane_reduction import LANES

TILE = 16
"""Edge of the square tiles in which two loops are walked when each is the fast one of some operand."""
MINIMUM_INNER = 64
"""Iterations below which an innermost loop takes its neighbour along, so that loop overhead is shared."""
MINIMUM_OUTER = 8
"""Shared iterations below which the innermost loop is shared between threads instead, when it is long enough."""
LONG_INNER = 1024
MINIMUM_SHARED = 64
"""Elements of a reduction below which lanes of a device do not share it."""
FEW_ELEMENTS = 4096
"""Results below which a device has threads to spare."""


@dataclass(frozen=True)
class Loop:
    """One loop.

    Attributes:
        extent: number of iterations.
        parallel: iterations are independent of each other; otherwise they reduce.
        strides: per operand, distance in elements between two iterations.
        index: the dimension of the linalg operation, where its body asks for it (`linalg.index`), else -1.
    """

    extent: Extent
    parallel: bool
    strides: tuple[Extent, ...]
    index: int = -1


@dataclass(frozen=True)
class Schedule:
    """How a kernel walks a nest.

    Attributes:
        outer: loops linearised into one iteration space, of which a kernel is given a range.
        inner: loops inside it, outermost first.
        split: the range is one of the last loop of `inner` instead; `outer` is empty.
        registers: `inner` reduces, and its accumulators live in registers.
        tiled: the last loops of `outer` and `inner` are walked in squares of `TILE`.
        lanes: threads that share the iterations of loop `shared` of `inner`, where it reduces in registers.
    """

    outer: tuple[Loop, ...]
    inner: tuple[Loop, ...]
    split: bool = False
    registers: bool = False
    tiled: bool = False
    lanes: int = 1
    shared: int = 0

    @property
    def iterations(self) -> Extent:
        """Iterations that are shared between threads, when the schedule is not tiled."""
        return self.inner[-1].extent if self.split else product([loop.extent for loop in self.outer])

    @property
    def work(self) -> Extent:
        """Innermost iterations per shared iteration, when the schedule is not tiled."""
        inner = self.inner[:-1] if self.split else self.inner
        return product([loop.extent for loop in inner])


def schedule(loops: Sequence[Loop], outputs: Sequence[int]) -> Schedule:
    """Order of a nest.

    Args:
        loops: loops in the order of the linalg operation.
        outputs: numbers of the operands that are written.
    """
    kept = [loop for loop in loops if loop.extent != 1]
    reader = _widest_input(kept, outputs)
    parallel = _collapse(_by_stride([loop for loop in kept if loop.parallel], outputs[0]))
    reduction = _collapse(_by_stride([loop for loop in kept if not loop.parallel], reader))
    if reduction:
        return _reducing(parallel, reduction, reader)
    return _elementwise(parallel)


def device_schedule(loops: Sequence[Loop], outputs: Sequence[int]) -> Schedule:
    """As `schedule`, for a device with a thread for every output element: neighbours write neighbouring elements.

    A group of lanes has an element where long reductions walk consecutive memory, or there are few elements.
    """
    kept = [loop for loop in loops if loop.extent != 1]
    reader = _widest_input(kept, outputs)
    parallel = _collapse(_by_stride([loop for loop in kept if loop.parallel], outputs[0]))
    reduction = _collapse(_by_stride([loop for loop in kept if not loop.parallel], reader))
    plan = Schedule(tuple(parallel), tuple(reduction), registers=bool(reduction))
    if not reduction or _below(plan.work, MINIMUM_SHARED):
        return plan
    if reduction[-1].strides[reader] != 1 and not _below(plan.iterations, FEW_ELEMENTS):
        return plan
    # Neighbouring lanes take neighbouring elements, if there are enough for all of them.
    long = [number for number, loop in enumerate(reduction) if not _below(loop.extent, LANES)]
    return replace(plan, lanes=LANES, shared=long[-1] if long else 0)


def _elementwise(parallel: list[Loop]) -> Schedule:
    if len(parallel) < 2:
        return Schedule(tuple(parallel), ())
    fast = _fast_elsewhere(parallel)
    if fast is not None:
        others = [loop for loop in parallel[:-1] if loop is not fast]
        return Schedule((*others, fast), (parallel[-1],), tiled=True)
    outer, inner = parallel[:-1], parallel[-1:]
    shared, length = product([loop.extent for loop in outer]), inner[0].extent
    if isinstance(shared, int) and shared < MINIMUM_OUTER and isinstance(length, int) and length >= LONG_INNER:
        return Schedule((), tuple(parallel), split=True)
    while len(outer) > 1 and _below(product([loop.extent for loop in inner]), MINIMUM_INNER):
        inner.insert(0, outer.pop())
    return Schedule(tuple(outer), tuple(inner))


def _reducing(parallel: list[Loop], reduction: list[Loop], reader: int) -> Schedule:
    # The loop that walks the input's consecutive elements goes innermost: over a register where it reduces,
    # over consecutive accumulators in memory where it is parallel.
    fast_reduction = _magnitude(reduction[-1].strides[reader])
    candidates = [loop for loop in parallel if loop.strides[reader] != 0]
    if not candidates or fast_reduction < min(_magnitude(loop.strides[reader]) for loop in candidates):
        return Schedule(tuple(parallel), tuple(reduction), registers=True)
    innermost = min(candidates, key=lambda loop: _magnitude(loop.strides[reader]))
    outer = tuple(loop for loop in parallel if loop is not innermost)
    if _below(innermost.extent, TILE):
        return Schedule(tuple(parallel), tuple(reduction), registers=True)
    if not outer:
        return Schedule((), (*reduction, innermost), split=True)
    return Schedule(outer, (*reduction, innermost))


def _by_stride(loops: list[Loop], operand: int) -> list[Loop]:
    return sorted(loops, key=lambda loop: _magnitude(loop.strides[operand]), reverse=True)


def _collapse(loops: list[Loop]) -> list[Loop]:
    """Merge neighbours that are one contiguous walk in every operand."""
    merged: list[Loop] = []
    for loop in loops:
        if merged and _contiguous(merged[-1], loop):
            outer = merged.pop()
            loop = Loop(times(outer.extent, loop.extent), loop.parallel, loop.strides)
        merged.append(loop)
    return merged


def _contiguous(outer: Loop, inner: Loop) -> bool:
    if outer.index >= 0 or inner.index >= 0:
        return False
    return all(a == times(b, inner.extent) for a, b in zip(outer.strides, inner.strides, strict=True))


def _fast_elsewhere(parallel: list[Loop]) -> Loop | None:
    """The loop over consecutive elements of some operand that the innermost loop walks in large steps."""
    last = parallel[-1]
    for operand, stride in enumerate(last.strides):
        if stride in (0, 1):
            continue
        for loop in parallel[:-1]:
            if loop.strides[operand] == 1 and not _below(loop.extent, 4) and not _below(last.extent, 4):
                return loop
    return None


def _widest_input(loops: Sequence[Loop], outputs: Sequence[int]) -> int:
    """The operand that moves in most loops: the one whose memory the walk should follow."""
    if not loops:
        return outputs[0]
    operands = range(len(loops[0].strides))
    return max(operands, key=lambda o: (sum(loop.strides[o] != 0 for loop in loops), o not in outputs, -o))


def _magnitude(stride: Extent) -> tuple[int, int]:
    """Orders strides by size, as far as that can be told without knowing the symbols."""
    if isinstance(stride, int):
        return (0, abs(stride))
    return max((len(atoms), abs(factor)) for atoms, factor in stride.terms)


def _below(extent: Extent, bound: int) -> bool:
    return isinstance(extent, int) and extent < bound
