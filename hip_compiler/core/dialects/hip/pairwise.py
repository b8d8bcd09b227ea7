"""Support vector classifiers of pairs of classes."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    define,
    destination_shape,
    element,
    input_shape,
    rank,
    same_element,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec


def _scores(shapes: OpShapes) -> Sequence[TensorSpec]:
    rows, pairs = input_shape(shapes, "values")[0], input_shape(shapes, "offsets")[0]
    return TensorSpec((rows, pairs), "f32"), TensorSpec((rows,), "i64")


def _probabilities(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(destination_shape(shapes, "y"), "f32"),)


OPS: tuple[OpDef, ...] = (
    define(
        "pairwise_scores",
        "Scores of every pair of classes from the values of a kernel [rows, vectors], and the first class with most "
        "votes. Vectors of class c are starts[c] to starts[c + 1]; coefficients [classes - 1, vectors] are a vector's "
        "weights against the other classes. A score above 0 is a vote for the first class of its pair.",
        ("values", "coefficients", "starts", "offsets"),
        ("scores", "winners"),
        _scores,
        rules=(
            element("values", ("f32",)),
            same_element("values", "coefficients", "offsets", "scores"),
            element("starts", ("i64",)),
            same_element("starts", "winners"),
            rank("values", 2, 2),
            rank("coefficients", 2, 2),
            rank("starts", 1, 1),
            rank("offsets", 1, 1),
            rank("scores", 2, 2),
            rank("winners", 1, 1),
        ),
    ),
    define(
        "pairwise_coupling",
        "Probabilities of classes [rows, classes] from the scores of pairs: a pair's sigmoid is 1 / (1 + e^(a s + b)).",
        ("scores", "a", "b"),
        ("y",),
        _probabilities,
        rules=(
            element("scores", ("f32",)),
            same_element("scores", "a", "b", "y"),
            rank("scores", 2, 2),
            rank("a", 1, 1),
            rank("b", 1, 1),
            rank("y", 2, 2),
        ),
    ),
)
