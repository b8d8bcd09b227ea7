"""From scores to classes: labels, and the transforms that operators of ai.onnx.ml apply to scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import NotSupportedError, OnnxOp
from hip_compiler.core.conversion.ops.elementwise import select, sigmoid
from hip_compiler.core.conversion.scalars import Scalar, where
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim

FLOAT, INT64 = BY_NAME["float"], BY_NAME["int64"]
_SMALLEST = 1e-7
"""Magnitude up to which a score is 0 for SOFTMAX_ZERO."""
ONE_TARGET = "post_transform holds for one target too, for which ONNX Runtime leaves it out unless it is PROBIT"
"""What regressors say of the one difference."""


def class_labels(emitter: Emitter, op: OnnxOp, name: str) -> Tensor:
    """Labels of a classifier, known: [classes] of int64 or of strings.

    Args:
        name: attribute of labels that are integers.

    Raises:
        NotSupportedError: there are none.
    """
    texts, numbers = op.attr("classlabels_strings", []), op.attr(name, [])
    op.require(len(texts) > 0 or len(numbers) > 0, "no class labels")
    return emitter.strings(np.array(texts, object)) if texts else constant(np.asarray(numbers, np.int64), INT64)


def count_of(labels: Tensor) -> int:
    """Number of classes."""
    assert labels.constant is not None, "labels are known"
    return len(labels.constant)


def labels_of(emitter: Emitter, scores: Tensor, labels: Tensor) -> Tensor:
    """The label of the first highest score of every row."""
    attributes: dict[str, Any] = {"mode": "max", "axis": 1, "keepdims": False, "select_last_index": False}
    return label_at(emitter, emitter.hip("hip.arg_reduce", {"x": scores}, [INT64], **attributes)[0], labels)


def label_at(emitter: Emitter, best: Tensor, labels: Tensor) -> Tensor:
    """The labels of classes that are given by number."""
    numbers = [int(label.constant.item()) for label in each_label(labels) if label.constant is not None]
    if labels.dtype is INT64 and numbers == list(range(len(numbers))):
        return best
    return emitter.hip("hip.gather", {"data": labels, "indices": best}, [labels.dtype], axis=0)[0]


def second_above(emitter: Emitter, score: Tensor, labels: Tensor, threshold: float) -> Tensor:
    """The second of two labels where a score [rows, 1] is above a threshold, else the first."""
    first, second = each_label(labels)

    def choose(v: Scalar, low: Scalar, high: Scalar) -> Scalar:
        return where(v > threshold, high, low)

    return emitter.elementwise(choose, [emitter.reshape(score, score.shape[:1]), first, second], labels.dtype)


def each_label(labels: Tensor) -> list[Tensor]:
    """Every label as a vector of one element."""
    assert labels.constant is not None, "labels are known"
    return [constant(label, labels.dtype) for label in labels.constant.reshape(-1, 1)]


def one_score(
    emitter: Emitter, score: Tensor, labels: Tensor, transform: str, *, threshold: float, of_one: bool
) -> list[Tensor]:
    """Label and both scores where one score [rows, 1] decides between two classes, as ONNX Runtime has it.

    Args:
        threshold: above it, the second class is chosen.
        of_one: both scores add up to 1, as probabilities do; otherwise to 0.
    """
    if transform not in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        raise NotSupportedError(f"post_transform {transform} of the one score of two classes")

    def opposite(v: Scalar) -> Scalar:
        return sigmoid(-v) if transform == "LOGISTIC" else 1.0 - v if of_one else -v

    other = emitter.elementwise(opposite, [score], score.dtype)
    own = emitter.elementwise(sigmoid, [score], score.dtype) if transform == "LOGISTIC" else score
    both = emitter.concat([other, own], 1, (score.shape[0], dim(2)))
    return [second_above(emitter, score, labels, threshold), both]


def transformed(emitter: Emitter, scores: Tensor, transform: str) -> Tensor:
    """Scores [rows, targets] after a transform; PROBIT is the approximation that ONNX Runtime computes.

    Raises:
        NotSupportedError: a transform that is not supported.
    """
    if transform == "NONE":
        return scores
    if transform == "LOGISTIC":
        return emitter.elementwise(sigmoid, [scores], scores.dtype)
    if transform == "SOFTMAX":
        return emitter.hip("hip.softmax", {"x": scores}, [scores.dtype], axis=1, log=False)[0]
    if transform == "SOFTMAX_ZERO":
        return _softmax_zero(emitter, scores)
    if transform == "PROBIT":
        return emitter.elementwise(lambda v: _probit(v.cast(FLOAT)).cast(v.dtype), [scores], scores.dtype)
    raise NotSupportedError(f"post_transform {transform}")


def _probit(p: Scalar) -> Scalar:
    """The normal distribution's quantile of a probability, by Winitzki's approximation of the error function."""
    a = 0.147
    x = p * 2.0 - 1.0
    log = ((1.0 - x) * (1.0 + x)).apply("log")
    v = log * 0.5 + 2.0 / (math.pi * a)
    size = ((v * v - log * (1.0 / a)).apply("sqrt") - v).apply("sqrt")
    return select(x < 0.0, -size, size, size) * math.sqrt(2.0)


def _softmax_zero(emitter: Emitter, scores: Tensor) -> Tensor:
    """Softmax of the scores that are not 0; those stay 0, and what is almost 0 in proportion."""
    column = (scores.shape[0], dim(1))
    largest = emitter.reshape(emitter.reduce(scores, [1], "max"), column)

    def power(v: Scalar, m: Scalar) -> Scalar:
        return select(abs(v) <= _SMALLEST, 0.0, (v - m).apply("exp"), v)

    def divided(v: Scalar, m: Scalar, total: Scalar) -> Scalar:
        small = select(v == 0.0, 0.0, v * (-m).apply("exp") / total, v)
        return select(abs(v) <= _SMALLEST, small, (v - m).apply("exp") / total, v)

    powers = emitter.elementwise(power, [scores, largest], scores.dtype)
    total = emitter.reshape(emitter.reduce(powers, [1], "sum"), column)
    return emitter.elementwise(divided, [scores, largest, total], scores.dtype)
