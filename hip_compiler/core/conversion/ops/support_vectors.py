"""Support vector machines of ai.onnx.ml.

The specification names attributes and leaves their meaning open; votes, ties and scores are those of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.elementwise import select
from hip_compiler.core.conversion.ops.features import DOMAIN, as_rows, linear
from hip_compiler.core.conversion.reductions import REDUCTIONS
from hip_compiler.core.conversion.scalars import Scalar, literal, load, store, where
from hip_compiler.core.conversion.scores import (
    ONE_TARGET,
    class_labels,
    count_of,
    each_label,
    label_at,
    labels_of,
    one_score,
    transformed,
)
from hip_compiler.core.conversion.tensors import Tensor, constant
from hip_compiler.core.mlir import ir
from hip_compiler.dtypes import BY_NAME
from hip_compiler.shapes import dim

FLOAT, INT64 = BY_NAME["float"], BY_NAME["int64"]
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def _floats(op: OnnxOp, name: str) -> np.ndarray:
    return np.asarray(op.attr(name, []), np.float32)


def _vectors(op: OnnxOp, count: int) -> np.ndarray:
    """Support vectors [count, features]."""
    values = _floats(op, "support_vectors")
    op.require(values.size > 0 and values.size % count == 0, f"{values.size} numbers of {count} support vectors")
    return values.reshape(count, -1)


def _distances(emitter: Emitter, x: Tensor, vectors: np.ndarray) -> Tensor:
    """Squares of distances [rows, vectors]; from differences, as squares of numbers far from 0 would cancel."""
    rows = as_rows(emitter, x)
    emitter.check_equal(rows.shape[1], dim(vectors.shape[1]), "features of rows and of support vectors")
    row, vector, feature = (ir.AffineExpr.get_dim(i) for i in range(3))
    maps = [ir.AffineMap.get(3, 0, axes) for axes in ([row, feature], [vector, feature], [row, vector])]
    total = REDUCTIONS["sum"]

    def body(left: object, right: object, so_far: object) -> list[object]:
        off = load(left, FLOAT) - load(right, FLOAT)
        return [store(total.combine(load(so_far, FLOAT), off * off), FLOAT)]

    shape = (rows.shape[0], dim(vectors.shape[0]))
    inputs = [emitter.value(rows), emitter.value(constant(vectors, FLOAT))]
    return Tensor(shape, FLOAT, emitter.generic(inputs, [emitter.fill(0, shape, FLOAT)], maps, "ppr", body)[0])


def _kernel(emitter: Emitter, op: OnnxOp, vectors: np.ndarray) -> Tensor:
    """Values of the kernel [rows, vectors] for every row and support vector."""
    kind, given = op.attr("kernel_type", "LINEAR"), [float(value) for value in _floats(op, "kernel_params")]
    op.require(kind in KERNELS, f"kernel_type {kind}")
    op.require(kind == "LINEAR" or len(given) == 3, "kernel_params that are not gamma, coef0 and degree")
    if kind == "LINEAR":
        return linear(emitter, op.input(0), vectors, [])
    gamma, coef0, degree = given
    if kind == "RBF":
        squares = _distances(emitter, op.input(0), vectors)
        return emitter.elementwise(lambda v: (v * -gamma).apply("exp"), [squares], FLOAT)

    def poly(v: Scalar) -> Scalar:
        base = v * gamma + coef0
        if degree in (1, 2, 3):
            return base if degree == 1 else base * base if degree == 2 else base * base * base
        return base.apply("powf", literal(degree, FLOAT))

    def tanh(v: Scalar) -> Scalar:
        return (v * gamma + coef0).apply("tanh")

    products = linear(emitter, op.input(0), vectors, [])
    return emitter.elementwise(poly if kind == "POLY" else tanh, [products], FLOAT)


@onnx_op("SVMRegressor", domain=DOMAIN, how="hip.matmul and linalg.generic", limits=ONE_TARGET)
def convert_svm_regressor(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Weighted sums of a kernel's values; for one class 1 above 0, else -1."""
    count, rho, coefficients = op.attr("n_supports", 0), _floats(op, "rho"), _floats(op, "coefficients")
    op.require(rho.size > 0 and coefficients.size > 0, f"{rho.size} rho and {coefficients.size} coefficients")
    offset = rho[:1].tolist()
    if count > 0:
        op.require(coefficients.size == count, f"{coefficients.size} coefficients for {count} support vectors")
        values = _kernel(emitter, op, _vectors(op, count))
    else:
        op.ignore("kernel_type", "kernel_params", "support_vectors")
        values = op.input(0)
    scores = linear(emitter, values, coefficients.reshape(1, -1), offset)
    transform = op.attr("post_transform", "NONE")
    if not op.attr("one_class", 0):
        return transformed(emitter, scores, transform)
    op.require(transform == "NONE", f"post_transform {transform} of one class")
    return emitter.elementwise(lambda v: select(v > 0.0, 1.0, -1.0, v), [scores], FLOAT)


@onnx_op("SVMClassifier", domain=DOMAIN, how="hip.pairwise_scores")
def convert_svm_classifier(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """The class that most pairs vote for, and the scores of pairs or the probabilities of classes."""
    labels = class_labels(emitter, op, "classlabels_ints")
    sizes, classes = [int(size) for size in op.attr("vectors_per_class", [])], count_of(labels)
    op.require(classes > 1, "one class")
    op.require(_floats(op, "rho").size > 0, "no rho")
    if sum(sizes) == 0:
        return _linear_machine(emitter, op, labels)[: op.outputs]
    op.require(len(sizes) == classes and min(sizes) >= 0, f"vectors_per_class {sizes} for {classes} classes")
    pairs, count, transform = classes * (classes - 1) // 2, sum(sizes), op.attr("post_transform", "NONE")
    coefficients, rho = _floats(op, "coefficients"), _floats(op, "rho")
    op.require(coefficients.size >= (classes - 1) * count, f"{coefficients.size} coefficients for {count} vectors")
    op.require(rho.size >= pairs, f"{rho.size} rho for {pairs} pairs of classes")
    inputs: dict[str, Tensor | None] = {
        "values": _kernel(emitter, op, _vectors(op, count)),
        "coefficients": constant(coefficients[: (classes - 1) * count].reshape(classes - 1, count), FLOAT),
        "starts": constant(np.cumsum([0, *sizes], dtype=np.int64), INT64),
        "offsets": constant(rho[:pairs], FLOAT),
    }
    scores, winners = emitter.hip("hip.pairwise_scores", inputs, [FLOAT, INT64])
    chosen = label_at(emitter, winners, labels)
    a, b = _floats(op, "prob_a"), _floats(op, "prob_b")
    op.require(a.size == b.size and (a.size == 0 or a.size >= pairs), f"{a.size} prob_a, {b.size} prob_b")
    if a.size:
        given = {"scores": scores, "a": constant(a[:pairs], FLOAT), "b": constant(b[:pairs], FLOAT)}
        shape = (scores.shape[0], dim(classes))
        scores = emitter.hip("hip.pairwise_coupling", given, [FLOAT], [shape])[0]
        return [chosen, transformed(emitter, scores, transform)][: op.outputs]
    if classes == 2:
        of_one = transform != "NONE"
        both = one_score(emitter, scores, labels, transform, threshold=0.0, of_one=of_one)[1]
        return [chosen, both][: op.outputs]
    return [chosen, transformed(emitter, scores, transform)][: op.outputs]


def _linear_machine(emitter: Emitter, op: OnnxOp, labels: Tensor) -> list[Tensor]:
    """Label and scores of a machine that has weights [classes, features] in place of support vectors."""
    op.ignore("kernel_type", "kernel_params", "support_vectors", "vectors_per_class")
    coefficients, classes = _floats(op, "coefficients"), count_of(labels)
    op.require(
        coefficients.size > 0 and coefficients.size % classes == 0,
        f"{coefficients.size} coefficients for {classes} classes",
    )
    weights = coefficients.reshape(classes, -1)
    scores = linear(emitter, op.input(0), weights, [float(op.attr("rho")[0])] * classes)
    chosen = labels_of(emitter, scores, labels)
    with_probabilities = len(op.attr("prob_a", [])) > 0
    op.ignore("prob_b")
    if classes == 2 and not with_probabilities:
        # The larger score decides alone: above 0, or from a half on where no weight is negative, it is for the second.
        positive, largest = bool((coefficients >= 0).all()), emitter.reduce(scores, [1], "max")

        def choose(v: Scalar, label: Scalar, second: Scalar) -> Scalar:
            return where(v >= 0.5 if positive else v > 0.0, second, label)

        chosen = emitter.elementwise(choose, [largest, chosen, each_label(labels)[1]], labels.dtype)
    return [chosen, transformed(emitter, scores, op.attr("post_transform", "NONE"))]
