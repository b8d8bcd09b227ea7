"""Questions about shapes that the types answer: `Shape`, `Size`, and pieces of `Shape` with static extents."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hip_compiler.core.frontend.attributes import shape_of
from hip_compiler.core.frontend.node import domain_of, node_name
from hip_compiler.core.passes.simplify.rewriter import Rewriter, Rule, defining, integer, static_shape

Extents = tuple[int | None, ...]


def _extents(op: Any) -> Extents | None:
    """Extents that a `Shape` operation returns, as far as they are known; None without a rank."""
    shape = shape_of(op.operands[0].type)
    if shape is None:
        return None
    end = integer(op, "end", len(shape)) if "end" in op.attributes else len(shape)
    return shape[slice(integer(op, "start", 0), end)]


def _shape(op: Any, rewriter: Rewriter) -> bool:
    extents = _extents(op)
    if domain_of(op) or extents is None or any(extent is None for extent in extents):
        return False
    rewriter.replace(op, [rewriter.create_constant(np.array(extents, np.int64), node_name(op), like=op)])
    return True


def _size(op: Any, rewriter: Rewriter) -> bool:
    shape = static_shape(op.operands[0])
    if domain_of(op) or shape is None:
        return False
    rewriter.replace(op, [rewriter.create_constant(np.array(math.prod(shape), np.int64), node_name(op), like=op)])
    return True


def _gather(op: Any, rewriter: Rewriter) -> bool:
    """`Gather(Shape(x), i)` where the extents asked for are static."""
    source = defining(op.operands[0], "Shape")
    if domain_of(op) or source is None:
        return False
    extents, indices = _extents(source), rewriter.constant(op.operands[1])
    if extents is None or indices is None:
        return False
    if any(not -len(extents) <= index < len(extents) for index in indices.reshape(-1)):
        return False
    chosen = [extents[index] for index in indices.reshape(-1)]
    if any(extent is None for extent in chosen):
        return False
    array = np.array(chosen, np.int64).reshape(indices.shape)
    rewriter.replace(op, [rewriter.create_constant(array, node_name(op), like=op)])
    return True


def _slice(op: Any, rewriter: Rewriter) -> bool:
    """`Slice(Shape(x), starts, ends)` where the extents asked for are static."""
    source = defining(op.operands[0], "Shape")
    if domain_of(op) or source is None or len(op.operands) < 3:
        return False
    extents = _extents(source)
    bounds = [rewriter.constant(value) for value in list(op.operands)[1:]]
    if extents is None or any(bound is None or bound.size != 1 for bound in bounds):
        return False
    numbers = [int(bound.reshape(())) for bound in bounds if bound is not None]
    step = numbers[3] if len(numbers) > 3 else 1
    if step == 0 or (len(numbers) > 2 and numbers[2] not in (0, -1)):
        return False
    if step < 0:
        return False
    chosen = extents[slice(numbers[0], numbers[1], step)]
    if any(extent is None for extent in chosen):
        return False
    rewriter.replace(op, [rewriter.create_constant(np.array(chosen, np.int64), node_name(op), like=op)])
    return True


RULES = (
    Rule("fold-shape", ("Shape",), _shape),
    Rule("fold-size", ("Size",), _size),
    Rule("fold-gather-of-shape", ("Gather",), _gather),
    Rule("fold-slice-of-shape", ("Slice",), _slice),
)
