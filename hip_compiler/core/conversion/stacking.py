"""Loops that nobody knows the end of, with slices to stack.

The stacks get memory for a chunk of iterations at a time, twice as many each time, so that all copies together are as
much work as the slices themselves: an outer loop makes longer stacks, an inner one runs until they are full.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.loops import Body, LoopResult, Stack, Step, UnboundedStacksError, loop
from hip_compiler.core.conversion.regions import is_true
from hip_compiler.core.conversion.scalars import mlir_type
from hip_compiler.core.conversion.tensors import Tensor, constant, symbolic
from hip_compiler.core.mlir import arith, tensor
from hip_compiler.dtypes import BY_NAME, DType
from hip_compiler.shapes import Dim, Shape, dim

FIRST = 16
"""Iterations of the first chunk."""

BOOL, INT64 = BY_NAME["bool"], BY_NAME["int64"]


def stacking_loop(
    emitter: Emitter,
    states: Sequence[Tensor],
    body: Body,
    *,
    trip: Dim | None,
    condition: Tensor | None,
    stacks: int,
) -> LoopResult:
    """See `loop`; slices are stacked along a new first axis.

    Args:
        stacks: number of slices.
    """
    try:
        return loop(emitter, states, body, trip=trip, condition=condition, stacks=[Stack()] * stacks)
    except UnboundedStacksError as unbounded:
        return _in_chunks(emitter, states, body, trip, condition, unbounded.parts)


def _in_chunks(
    emitter: Emitter,
    states: Sequence[Tensor],
    body: Body,
    trip: Dim | None,
    condition: Tensor | None,
    parts: Sequence[tuple[Shape, DType]],
) -> LoopResult:
    def chunk(_: Dim, carried: list[Tensor]) -> Step:
        (done,) = emitter.run_time_extents(carried[0])
        inner, full = carried[1 : 1 + len(states)], carried[1 + len(states) :]
        room = done * 2 + FIRST
        longer = [emitter.concat([pile], 0, (room, *pile.shape[1:])) for pile in full]
        limit = room if trip is None else room.minimum(trip)

        def iterate(iteration: Dim, values: list[Tensor]) -> Step:
            number = done + iteration
            step = body(number, values[1 : 1 + len(states)])
            piles = [
                Tensor(pile.shape, pile.dtype, emitter.insert(_layer(emitter, part), emitter.value(pile), 0, number))
                for pile, part in zip(values[1 + len(states) :], step.slices, strict=True)
            ]
            going = _going(emitter, step.condition)
            return Step([going, *step.states, *piles], (), going)

        result = loop(emitter, [_going(emitter, None), *inner, *longer], iterate, trip=limit - done)
        count = done + result.count
        return Step([_number(count), *result.states[1:]], (), _unless_full(emitter, result.states[0], count, trip))

    empty = [Tensor((dim(0), *shape), dtype, emitter.empty((dim(0), *shape), dtype)) for shape, dtype in parts]
    result = loop(emitter, [_number(dim(0)), *states, *empty], chunk, trip=None, condition=condition)
    (count,) = emitter.run_time_extents(result.states[0])
    final, piles = result.states[1 : 1 + len(states)], result.states[1 + len(states) :]
    stacked = [emitter.slice(pile, [dim(0)] * pile.rank, [count, *pile.shape[1:]], [1] * pile.rank) for pile in piles]
    return LoopResult(final, stacked, count)


def _layer(emitter: Emitter, part: Tensor) -> Tensor:
    return emitter.reshape(part, (dim(1), *part.shape))


def _number(extent: Dim) -> Tensor:
    return symbolic(np.array(extent, dtype=object), INT64)


def _going(emitter: Emitter, condition: Tensor | None) -> Tensor:
    """A condition as a scalar."""
    return constant(np.asarray(True), BOOL) if condition is None else emitter.reshape(condition, ())


def _unless_full(emitter: Emitter, going: Tensor, count: Dim, trip: Dim | None) -> Tensor:
    """Whether there is another chunk."""
    if trip is None:
        return going
    more = arith.cmpi(arith.CmpIPredicate.slt, emitter.index_value(count), emitter.index_value(trip))
    flag = arith.extui(mlir_type(BOOL.storage), arith.andi(is_true(emitter, going), more))
    return Tensor((), BOOL, tensor.from_elements(emitter.tensor_type((), BOOL), [flag]))
