"""Tree ensembles of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.forest import Forest, always_scored, read_forest, read_forest_of_opset_5
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import select
from hip_compiler.core.conversion.scores import (
    ONE_TARGET,
    class_labels,
    count_of,
    labels_of,
    one_score,
    second_above,
    transformed,
)
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim

DOMAIN = "ai.onnx.ml"
FLOAT, DOUBLE, INT64 = BY_NAME["float"], BY_NAME["double"], BY_NAME["int64"]
AGGREGATES = ("average", "sum", "min", "max")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def _scores(emitter: Emitter, op: OnnxOp, forest: Forest, targets: int, aggregate: str) -> Tensor:
    """Scores [rows, targets], in double for inputs in double."""
    x = op.input(0)
    op.require(x.dtype.name in ("float16", "float", "double", "int32", "int64"), f"element type {x.dtype}")
    op.require(x.rank in (1, 2), f"rank {x.rank}")
    rows = x if x.rank == 2 else emitter.reshape(x, (dim(1), x.shape[0]))
    rows = emitter.cast(rows, DOUBLE if x.dtype.name in ("double", "int64") else FLOAT)
    tables = {"nodes": forest.nodes, "roots": forest.roots, "targets": forest.targets}
    numbers = {"splits": forest.splits, "weights": forest.weights, "members": forest.members}
    inputs: dict[str, Tensor | None] = {"x": rows}
    inputs |= {name: constant(np.ascontiguousarray(array), INT64) for name, array in tables.items()}
    inputs |= {name: constant(np.ascontiguousarray(array), DOUBLE) for name, array in numbers.items()}
    shape = (rows.shape[0], dim(targets))
    return emitter.hip("hip.tree_ensemble", inputs, [rows.dtype], [shape], aggregate=aggregate)[0]


def _with_base(emitter: Emitter, op: OnnxOp, scores: Tensor, targets: int) -> Tensor:
    base, tensor = op.attr("base_values"), op.attr("base_values_as_tensor")
    given = np.asarray(base if tensor is None else tensor, np.float64) if base or tensor is not None else np.zeros(0)
    if not given.size:
        return scores
    op.require(given.size == targets, f"{given.size} base values for {targets} targets")
    offset = constant(given.reshape(-1), DOUBLE)
    return emitter.elementwise(lambda v, b: v + b.cast(v.dtype), [scores, offset], scores.dtype, scores.shape)


@onnx_op("TreeEnsembleRegressor", domain=DOMAIN, how="hip.tree_ensemble", limits=ONE_TARGET)
def convert_regressor(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Sums, means, minima or maxima of the leaves that a row reaches."""
    targets = op.attr("n_targets", 1)
    aggregate = op.attr("aggregate_function", "SUM").lower()
    op.require(aggregate in AGGREGATES, f"aggregate function {aggregate}")
    scores = _scores(emitter, op, read_forest(op, "target"), targets, aggregate)
    scores = _with_base(emitter, op, scores, targets)
    return emitter.cast(transformed(emitter, scores, op.attr("post_transform", "NONE")), FLOAT)


@onnx_op(
    "TreeEnsemble",
    domain=DOMAIN,
    since=5,
    how="hip.tree_ensemble",
    dtypes=frozenset({"float16", "float", "double"}),
    limits="post_transform 1 is SOFTMAX and 2 LOGISTIC, as specified; ONNX Runtime has them the other way round",
)
def convert_ensemble(emitter: Emitter, op: OnnxOp) -> Tensor:
    """The same with leaves in a list of their own, and nodes that test for membership in sets."""
    targets, forest = op.attr("n_targets", 1), read_forest_of_opset_5(op)
    scores = _scores(emitter, op, forest, targets, AGGREGATES[op.attr("aggregate_function", 1)])
    return emitter.cast(transformed(emitter, scores, TRANSFORMS[op.attr("post_transform", 0)]), op.input(0).dtype)


@onnx_op("TreeEnsembleClassifier", domain=DOMAIN, how="hip.tree_ensemble")
def convert_classifier(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """The class of the highest score, and the scores.

    ONNX Runtime gives two classes that both have scores the labels 0 and 1, whatever theirs are; not so here.
    """
    labels = class_labels(emitter, op, "classlabels_int64s")
    forest = read_forest(op, "class")
    scored = np.unique(forest.targets)
    transform = op.attr("post_transform", "NONE")
    # One score decides between two classes, as a probability where no weight is negative.
    positive = bool((forest.weights >= 0).all())
    if count_of(labels) == 2 and scored.tolist() == [0]:
        score = _with_base(emitter, op, _scores(emitter, op, forest, 1, "sum"), 1)
        threshold = 0.5 if positive else 0.0
        chosen, scores = one_score(emitter, score, labels, transform, threshold=threshold, of_one=positive)
        return [chosen, emitter.cast(scores, FLOAT)][: op.outputs]
    summed = _scores(emitter, op, forest, count_of(labels), "sum")
    scores = _with_base(emitter, op, summed, count_of(labels))
    if count_of(labels) == 2 and scored.tolist() == [1]:
        op.require(scores is summed, "base values where only the second of two classes has scores")
        second = emitter.slice(scores, [dim(0), dim(1)], [scores.shape[0], dim(1)], [1, 1])
        chosen = second_above(emitter, second, labels, 0.5 if positive else 0.0)
    elif scores is not summed or positive or always_scored(forest) >= set(range(count_of(labels))):
        chosen = labels_of(emitter, scores, labels)
    else:
        # A class that no leaf on the way has named is not chosen, though its 0 may be the highest score.
        named = _scores(emitter, op, replace(forest, weights=np.ones_like(forest.weights)), count_of(labels), "max")
        among = emitter.elementwise(lambda v, n: select(n > 0.0, v, float("-inf"), v), [scores, named], scores.dtype)
        chosen = labels_of(emitter, among, labels)
    return [chosen, emitter.cast(transformed(emitter, scores, transform), FLOAT)][: op.outputs]
