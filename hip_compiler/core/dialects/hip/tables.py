"""Operations that read tables made at compile time: decision trees, keys, n-grams."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    FLOATS,
    INDICES,
    NUMBERS,
    attribute,
    define,
    destination_shape,
    element,
    input_dtype,
    input_shape,
    rank,
    same_element,
    same_rank,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec

AGGREGATES = ("sum", "average", "min", "max")


def _scores(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(destination_shape(shapes, "y"), input_dtype(shapes, "x")),)


def _positions(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(input_shape(shapes, "x"), "i64"),)


def _counts(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(destination_shape(shapes, "y"), "f32"),)


OPS: tuple[OpDef, ...] = (
    define(
        "tree_ensemble",
        "Scores of the leaves that rows reach in decision trees. A node is (feature, mode, yes, no, missing is yes, "
        "first, count): modes are <=, <, >=, >, ==, !=, member, leaf; the range is of members, or of targets.",
        ("x", "nodes", "splits", "roots", "targets", "weights", "members"),
        ("y",),
        _scores,
        attributes=(attribute("aggregate", "string", "sum", AGGREGATES),),
        rules=(
            element("x", FLOATS),
            same_element("x", "y"),
            rank("x", 2, 2),
            rank("y", 2, 2),
            rank("nodes", 2, 2),
            same_element("nodes", "roots", "targets"),
            element("nodes", ("i64",)),
            same_element("splits", "weights", "members"),
            element("splits", ("f64",)),
        ),
    ),
    define(
        "lookup",
        "Index of every element among ascending keys; the number of keys where it is none of them.",
        ("x", "keys"),
        ("y",),
        _positions,
        rules=(
            element("x", NUMBERS),
            same_element("x", "keys"),
            same_rank("x", "y"),
            rank("keys", 1, 1),
            element("y", ("i64",)),
        ),
    ),
    define(
        "count_ngrams",
        "How often the n-grams of a table occur in rows. A table row is (offset in the pool, length, column of y); "
        "rows are sorted by length, then by content.",
        ("x", "pool", "table"),
        ("y",),
        _counts,
        attributes=(attribute("min_length", "int"), attribute("max_length", "int"), attribute("max_skip", "int", 0)),
        rules=(
            element("x", INDICES),
            rank("x", 2, 2),
            rank("y", 2, 2),
            element("y", ("f32",)),
            same_element("pool", "table"),
            element("pool", ("i64",)),
            rank("pool", 1, 1),
            rank("table", 2, 2),
        ),
    ),
)
