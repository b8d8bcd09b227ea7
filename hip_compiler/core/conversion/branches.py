"""`scf.if` over tensors, whose extents may differ between the branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import NotSupportedError
from hip_compiler.core.conversion.regions import UNKNOWN, apart, give, read_back, region_holder
from hip_compiler.core.conversion.tensors import ScalarOrVector, Tensor
from hip_compiler.core.mlir import ir
from hip_compiler.shapes import Dim, dim


class RanksDifferError(NotSupportedError):
    """The branches give tensors with different numbers of dimensions."""


def branch(
    emitter: Emitter, condition: Any, then: Callable[[], Sequence[Tensor]], otherwise: Callable[[], Sequence[Tensor]]
) -> list[Tensor]:
    """Results of one of two branches.

    A scalar beside a vector of one element becomes a `ScalarOrVector`.

    Args:
        condition: an `i1`.
        then: emits a branch at the current insertion point; so does `otherwise`.

    Raises:
        RanksDifferError: results with different numbers of dimensions.
        NotSupportedError: results whose element types differ, and what the branches raise.
    """
    holder = region_holder(2)
    try:
        blocks = [region.blocks.append() for region in holder.regions]
        outer = emitter.extents.bound
        made: list[list[Tensor]] = []
        values: list[list[Any]] = []
        for block, emit in zip(blocks, (then, otherwise), strict=True):
            with ir.InsertionPoint(block), emitter.scope():
                results = list(emit())
                made.append(results)
                values.append([apart(emitter.value(result)) for result in results])
        _make_vectors(emitter, blocks, made, values)
        shapes = [_common(a, b, outer) for a, b in zip(*made, strict=True)]
        types = [emitter.tensor_type(shape, a.dtype) for shape, a in zip(shapes, made[0], strict=True)]
        for block, yielded in zip(blocks, values, strict=True):
            with ir.InsertionPoint(block):
                give(yielded, types)
        op = ir.Operation.create("scf.if", results=types, operands=[condition], regions=2)
        for block, region in zip(blocks, op.regions, strict=True):
            block.append_to(region)
    finally:
        holder.erase()
    dtypes = [source.dtype for source in made[0]]
    results = [read_back(emitter, *known) for known in zip(op.results, shapes, dtypes, strict=True)]
    loose = [any(isinstance(source, ScalarOrVector) for source in pair) for pair in zip(*made, strict=True)]
    return [
        ScalarOrVector(r.shape, r.dtype, r.value) if either else r for r, either in zip(results, loose, strict=True)
    ]


def _make_vectors(emitter: Emitter, blocks: list[Any], made: list[list[Tensor]], values: list[list[Any]]) -> None:
    """Reshape the scalars that a vector of one element is the other branch's result for."""
    for number, pair in enumerate(zip(*made, strict=True)):
        both = any(isinstance(source, ScalarOrVector) for source in pair)
        if not both and {source.rank for source in pair} != {0, 1}:
            continue
        if any(source.size != 1 or source.rank > 1 for source in pair):
            if both:
                raise NotSupportedError("a result is a scalar or a vector of one element, or something else")
            continue
        for side, source in enumerate(pair):
            value = values[side][number]
            if source.rank == 0:
                with ir.InsertionPoint(blocks[side]), emitter.scope():
                    value = emitter.reshape(Tensor((), source.dtype, value), (dim(1),)).value
            made[side][number], values[side][number] = ScalarOrVector((dim(1),), source.dtype, value), value


def _common(a: Tensor, b: Tensor, outer: frozenset[Any]) -> tuple[Dim, ...]:
    if a.dtype is not b.dtype:
        raise NotSupportedError(f"the branches give {a.dtype} and {b.dtype}")
    if a.rank != b.rank:
        raise RanksDifferError(f"the branches give tensors of {a.rank} and {b.rank} dimensions")
    return tuple(x if x == y and x.symbols() <= outer else UNKNOWN for x, y in zip(a.shape, b.shape, strict=True))
