"""If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hip_compiler.core.conversion.branches import RanksDifferError, branch
from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.forms import Agreement, agreed, form_of
from hip_compiler.core.conversion.loops import LoopResult, Stack, Step, loop
from hip_compiler.core.conversion.onnx_op import NotSupportedError, OnnxOp, Subgraph, onnx_op
from hip_compiler.core.conversion.regions import is_true
from hip_compiler.core.conversion.stacking import stacking_loop
from hip_compiler.core.conversion.tensors import Absent, Tensor, constant, symbolic
from hip_compiler.core.mlir import arith
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import Dim, dim, not_negative

BOOL, INT64 = BY_NAME["bool"], BY_NAME["int64"]


@onnx_op(
    "If",
    how="scf.if; the branch taken where the condition is known",
    limits="where tensors of the branches differ in rank, the condition decides at compile time",
)
def convert_if(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """scf.if; only the branch taken where the condition is known."""
    condition = op.input(0)
    then, otherwise = op.attr("then_branch"), op.attr("else_branch")
    if condition.constant is not None:
        op.require(condition.constant.size == 1, "a condition has one element")
        taken: Subgraph = then if condition.constant.item() else otherwise
        return taken.convert([])
    wanted = [number for number in range(op.outputs) if op.wants(number)]
    holds = is_true(emitter, condition)

    def attempt(agreement: Agreement) -> list[Tensor]:
        def side(graph: Subgraph) -> list[Tensor]:
            results = graph.convert([])
            return agreement.parts(emitter, [results[number] for number in wanted])

        return agreement.values(branch(emitter, holds, lambda: side(then), lambda: side(otherwise)))

    try:
        made = agreed(attempt)
    except RanksDifferError:
        first = emitter.guesses.take(op.name)
        word, other = ("false", "true") if first else ("true", "false")
        expected = arith.cmpi(arith.CmpIPredicate.eq, holds, arith.constant(holds.type, int(first)))
        emitter.check(
            expected, f"the condition is {word}, and the model is compiled for {other}: the rank depends on it"
        )
        return (then if first else otherwise).convert([])
    return _at(wanted, made, op.outputs)


@onnx_op(
    "Loop",
    how="scf.for; scf.while where a condition may end it",
    limits="ranks of states do not change, but for the tensors of a sequence",
    sequences=True,
    texts=True,
)
def convert_loop(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """scf.for where the number of iterations is known before the loop, scf.while otherwise."""
    body: Subgraph = op.attr("body")
    initial = [op.optional(number) or Absent() for number in range(2, len(op.inputs))]
    count = len(initial)
    op.require(body.inputs == count + 2, "the body has two inputs more than the loop has state")
    op.require(op.outputs <= body.outputs - 1, "the body gives fewer results than the loop")
    passed = body.passed()
    carried = [number for number in range(count) if passed[number + 1] != number + 2]
    scans = [number for number in range(count, op.outputs) if op.wants(number)]
    first = [initial[number] for number in carried]
    going = constant(np.asarray(True), BOOL)

    def attempt(agreement: Agreement) -> LoopResult:
        def iterate(iteration: Dim, parts: list[Tensor]) -> Step:
            inputs = list(initial)
            for number, state in zip(carried, agreement.values(parts), strict=True):
                inputs[number] = state
            counter = symbolic(np.array(iteration, dtype=object), INT64)
            results = body.convert([counter, going, *inputs])
            states = agreement.parts(emitter, [results[number + 1] for number in carried])
            return Step(states, [results[number + 1] for number in scans], results[0])

        result = stacking_loop(
            emitter,
            agreement.parts(emitter, first),
            iterate,
            trip=_trip(emitter, op.optional(0)),
            condition=op.optional(1),
            stacks=len(scans),
        )
        return replace(result, states=agreement.values(result.states))

    result = agreed(attempt, [form_of(state) for state in first])
    results: list[Tensor | None] = [*initial, *[None] * (op.outputs - count)]
    for number, value in zip([*carried, *scans], [*result.states, *result.stacks], strict=True):
        results[number] = value
    return results[: op.outputs]


def _trip(emitter: Emitter, limit: Tensor | None) -> Dim | None:
    if limit is None:
        return None
    (count,) = emitter.run_time_extents(limit)
    known = count.value
    if known is not None:
        return dim(max(known, 0))
    # Extents are not negative; numbers read from a tensor may be.
    return count if not_negative(count) else count.maximum(0)


@onnx_op("Scan", since=9, how="scf.for", limits="ranks of states do not change", texts=True)
def convert_scan(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """scf.for over slices of the scan inputs."""
    body: Subgraph = op.attr("body")
    scanned = op.attr("num_scan_inputs")
    states = [op.input(number) for number in range(len(op.inputs) - scanned)]
    sources = [op.input(number) for number in range(len(states), len(op.inputs))]
    stacked = body.outputs - len(states)
    axes = op.attr("scan_input_axes") or [0] * scanned
    output_axes = op.attr("scan_output_axes") or [0] * stacked
    output_directions = op.attr("scan_output_directions") or [0] * stacked
    wanted = [number for number in range(stacked) if op.wants(len(states) + number)]
    return _scan(
        emitter,
        body,
        states,
        [
            _Source(source, _axis(axis, source.rank), bool(direction))
            for source, axis, direction in zip(
                sources, axes, op.attr("scan_input_directions") or [0] * scanned, strict=True
            )
        ],
        {number: Stack(output_axes[number], bool(output_directions[number])) for number in wanted},
    )


@onnx_op("Scan", until=8, how="scf.for", limits="one sequence length")
def convert_batched_scan(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """scf.for over the batch, and inside of it over the sequence."""
    body: Subgraph = op.attr("body")
    op.require(op.optional(0) is None, "sequence_lens: sequences of several lengths")
    scanned = op.attr("num_scan_inputs")
    states = [op.input(number) for number in range(1, len(op.inputs) - scanned)]
    sources = [op.input(number) for number in range(1 + len(states), len(op.inputs))]
    directions = op.attr("directions") or [0] * scanned
    wanted = [number for number in range(body.outputs - len(states)) if op.wants(len(states) + number)]
    batch = sources[0].shape[0]
    for source in [*states, *sources]:
        emitter.check_equal(batch, source.shape[0], "inputs of a scan have one batch size")

    def iterate(item: Dim, _: list[Tensor]) -> Step:
        rows = [
            _Source(pick(emitter, source, 0, item), 0, bool(direction))
            for source, direction in zip(sources, directions, strict=True)
        ]
        initial = [pick(emitter, state, 0, item) for state in states]
        results = _scan(emitter, body, initial, rows, {number: Stack() for number in wanted})
        return Step([], [result for result in results if result is not None])

    stacks = loop(emitter, [], iterate, trip=batch, stacks=[Stack()] * (len(states) + len(wanted))).stacks
    positions = [*range(len(states)), *(len(states) + number for number in wanted)]
    return _at(positions, stacks, op.outputs)


@dataclass(frozen=True)
class _Source:
    """A scan input: what is sliced, along which axis, and whether from its end."""

    tensor: Tensor
    axis: int
    backward: bool


def _scan(
    emitter: Emitter, body: Subgraph, states: list[Tensor], sources: list[_Source], stacks: dict[int, Stack]
) -> list[Tensor | None]:
    """State and scan outputs; `stacks` has those that are wanted, by number."""
    trip = sources[0].tensor.shape[sources[0].axis]
    for source in sources:
        emitter.check_equal(trip, source.tensor.shape[source.axis], "scan inputs have one length")

    def iterate(iteration: Dim, carried: list[Tensor]) -> Step:
        slices = [
            pick(emitter, source.tensor, source.axis, trip - 1 - iteration if source.backward else iteration)
            for source in sources
        ]
        results = body.convert([*carried, *slices])
        return Step(results[: len(states)], [results[len(states) + number] for number in stacks])

    result = loop(emitter, states, iterate, trip=trip, stacks=list(stacks.values()))
    return [*result.states, *_at(list(stacks), result.stacks, body.outputs - len(states))]


def pick(emitter: Emitter, source: Tensor, axis: int, position: Dim) -> Tensor:
    """The part of a tensor at a position of an axis, without the axis."""
    starts = [position if i == axis else dim(0) for i in range(source.rank)]
    sizes = [dim(1) if i == axis else extent for i, extent in enumerate(source.shape)]
    part = emitter.slice(source, starts, sizes, [1] * source.rank)
    return emitter.reshape(part, (*source.shape[:axis], *source.shape[axis + 1 :]))


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise NotSupportedError(f"axis {axis} of a tensor of {rank} dimensions")
    return axis % rank


def _at(positions: Sequence[int], values: Sequence[Tensor], count: int) -> list[Tensor | None]:
    results: list[Tensor | None] = [None] * count
    for position, value in zip(positions, values, strict=True):
        results[position] = value
    return results
