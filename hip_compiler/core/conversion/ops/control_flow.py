"""If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hip_compiler.core.conversion.branches import branch
from hip_compiler.core.conversion.contents import is_extent
from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.loops import Stack, Step, loop
from hip_compiler.core.conversion.onnx_op import NotSupportedError, OnnxOp, Subgraph, onnx_op
from hip_compiler.core.conversion.regions import is_true
from hip_compiler.core.conversion.tensors import Tensor, constant, symbolic
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import Dim, dim

BOOL, INT64 = BY_NAME["bool"], BY_NAME["int64"]


@onnx_op("If")
def convert_if(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """scf.if; only the branch taken where the condition is known."""
    condition = op.input(0)
    then, otherwise = op.attr("then_branch"), op.attr("else_branch")
    if condition.constant is not None:
        op.require(condition.constant.size == 1, "a condition has one element")
        taken: Subgraph = then if condition.constant.item() else otherwise
        return taken.convert([])
    wanted = [number for number in range(op.outputs) if op.wants(number)]

    def side(graph: Subgraph) -> list[Tensor]:
        results = graph.convert([])
        return [results[number] for number in wanted]

    made = branch(emitter, is_true(emitter, condition), lambda: side(then), lambda: side(otherwise))
    return _at(wanted, made, op.outputs)


@onnx_op("Loop")
def convert_loop(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """scf.for where the number of iterations is known before the loop, scf.while otherwise."""
    body: Subgraph = op.attr("body")
    initial = [op.input(number) for number in range(2, len(op.inputs))]
    count = len(initial)
    op.require(body.inputs == count + 2, "the body has two inputs more than the loop has state")
    op.require(op.outputs <= body.outputs - 1, "the body gives fewer results than the loop")
    passed = body.passed()
    carried = [number for number in range(count) if passed[number + 1] != number + 2]
    scans = [number for number in range(count, op.outputs) if op.wants(number)]
    going = constant(np.asarray(True), BOOL)

    def iterate(iteration: Dim, states: list[Tensor]) -> Step:
        inputs = list(initial)
        for number, state in zip(carried, states, strict=True):
            inputs[number] = state
        counter = symbolic(np.array(iteration, dtype=object), INT64)
        results = body.convert([counter, going, *inputs])
        return Step([results[number + 1] for number in carried], [results[number + 1] for number in scans], results[0])

    states, stacks = loop(
        emitter,
        [initial[number] for number in carried],
        iterate,
        trip=_trip(emitter, op.optional(0)),
        condition=op.optional(1),
        stacks=[Stack()] * len(scans),
    )
    results: list[Tensor | None] = [*initial, *[None] * (op.outputs - count)]
    for number, value in zip([*carried, *scans], [*states, *stacks], strict=True):
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
    return count if limit.contents is not None and is_extent(count) else count.maximum(0)


@onnx_op("Scan", since=9)
def convert_scan(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor | None]:
    """scf.for over slices of the scan inputs."""
    body: Subgraph = op.attr("body")
    scanned = op.attr("num_scan_inputs")
    states = [op.input(number) for number in range(len(op.inputs) - scanned)]
    sources = [op.input(number) for number in range(len(states), len(op.inputs))]
    axes = [
        _axis(axis, source.rank)
        for axis, source in zip(op.attr("scan_input_axes") or [0] * scanned, sources, strict=True)
    ]
    backward = op.attr("scan_input_directions") or [0] * scanned
    outputs = op.outputs - len(states)
    output_axes = op.attr("scan_output_axes") or [0] * (body.outputs - len(states))
    output_directions = op.attr("scan_output_directions") or [0] * (body.outputs - len(states))
    trip = sources[0].shape[axes[0]]
    for source, axis in zip(sources, axes, strict=True):
        emitter.check_equal(trip, source.shape[axis], "scan inputs have one length")
    wanted = [number for number in range(outputs) if op.wants(len(states) + number)]

    def iterate(iteration: Dim, carried: list[Tensor]) -> Step:
        slices = [
            pick(emitter, source, axis, trip - 1 - iteration if reverse else iteration)
            for source, axis, reverse in zip(sources, axes, backward, strict=True)
        ]
        results = body.convert([*carried, *slices])
        return Step(results[: len(states)], [results[len(states) + number] for number in wanted])

    stacks = [Stack(output_axes[number], bool(output_directions[number])) for number in wanted]
    final, stacked = loop(emitter, states, iterate, trip=trip, stacks=stacks)
    return [*final, *_at(wanted, stacked, outputs)]


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
