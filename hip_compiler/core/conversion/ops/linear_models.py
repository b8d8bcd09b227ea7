"""Linear models of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import OnnxOp, onnx_op
from hip_compiler.core.conversion.ops.features import DOMAIN, linear, matrix
from hip_compiler.core.conversion.scores import ONE_TARGET, class_labels, count_of, labels_of, one_score, transformed
from hip_compiler.core.conversion.tensors import Tensor


@onnx_op("LinearRegressor", domain=DOMAIN, how="hip.matmul", limits=ONE_TARGET)
def convert_linear_regressor(emitter: Emitter, op: OnnxOp) -> Tensor:
    """Weighted sums of features."""
    targets, intercepts = op.attr("targets", 1), op.attr("intercepts", [])
    op.require(len(intercepts) in (0, targets), f"{len(intercepts)} intercepts for {targets} targets")
    scores = linear(emitter, op.input(0), matrix(op, "coefficients", targets), intercepts)
    return transformed(emitter, scores, op.attr("post_transform", "NONE"))


@onnx_op("LinearClassifier", domain=DOMAIN, how="hip.matmul")
def convert_linear_classifier(emitter: Emitter, op: OnnxOp) -> Sequence[Tensor]:
    """The class of the highest weighted sum, and the sums."""
    op.ignore("multi_class")
    labels, intercepts = class_labels(emitter, op, "classlabels_ints"), op.attr("intercepts", [])
    rows = len(intercepts) or count_of(labels)
    scores = linear(emitter, op.input(0), matrix(op, "coefficients", rows), intercepts)
    transform = op.attr("post_transform", "NONE")
    if rows == 1 and count_of(labels) == 2:
        return one_score(emitter, scores, labels, transform, threshold=0.0, of_one=True)[: op.outputs]
    op.require(rows == count_of(labels), f"{rows} rows of coefficients for {count_of(labels)} classes")
    return [labels_of(emitter, scores, labels), transformed(emitter, scores, transform)][: op.outputs]
