"""SVMClassifier and SVMRegressor against ONNX Runtime: labels, scores, probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import hip_compiler
from tests.conversion.test_ml import DOMAIN, check, model_of

FEATURES = 3
X = np.random.default_rng(23).standard_normal((40, FEATURES)).astype(np.float32)
LABELS = (7, -2, 4, 11, 9)
PARAMS = [0.3, 0.5, 3.0]


def classifier(sizes: list[int], seed: int = 5, proba: bool = False, **changes: Any) -> dict[str, Any]:
    """A machine with so many support vectors for each class."""
    draw, classes, count = np.random.default_rng(seed), len(sizes), sum(sizes)
    pairs = classes * (classes - 1) // 2
    attributes: dict[str, Any] = {
        "vectors_per_class": sizes,
        "support_vectors": draw.standard_normal(count * FEATURES).tolist(),
        "coefficients": draw.standard_normal((classes - 1) * count).tolist(),
        "rho": (draw.standard_normal(pairs) / 8).tolist(),
        "classlabels_ints": LABELS[:classes],
        "kernel_type": "RBF",
        "kernel_params": PARAMS,
    }
    if proba:
        attributes |= {
            "prob_a": (-draw.random(pairs) - 1).tolist(),
            "prob_b": (draw.standard_normal(pairs) / 4).tolist(),
        }
    return attributes | changes


def linear_machine(classes: int, lowest: float, **changes: Any) -> dict[str, Any]:
    """A machine with weights in place of support vectors."""
    weights = np.random.default_rng(6).uniform(lowest, 1, classes * FEATURES)
    given = {"coefficients": weights.tolist(), "rho": [0.2], "classlabels_ints": LABELS[:classes]}
    return given | {"kernel_params": PARAMS} | changes


MACHINES: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
    "linear, two classes": (X, classifier([3, 4], kernel_type="LINEAR")),
    "poly, two classes, probabilities": (X, classifier([3, 4], proba=True, kernel_type="POLY")),
    "rbf, four classes": (X, classifier([3, 1, 5, 2])),
    "rbf, five classes, probabilities": (X, classifier([3, 1, 5, 2, 2], 3, proba=True)),
    "sigmoid, three classes, int64": ((X * 4).astype(np.int64), classifier([3, 4, 2], kernel_type="SIGMOID")),
    "a class without vectors, double": (X.astype(np.float64), classifier([3, 0, 4])),
    "power of 2.5": (X, classifier([3, 4, 2], 9, kernel_type="POLY", kernel_params=[0.25, 4.0, 2.5])),
    "one score, LOGISTIC": (X, classifier([3, 4], post_transform="LOGISTIC")),
    "one score, SOFTMAX": (X, classifier([3, 4], post_transform="SOFTMAX")),
    "pairs, SOFTMAX_ZERO": (X, classifier([3, 4, 3], post_transform="SOFTMAX_ZERO")),
    "probabilities, PROBIT": (X, classifier([3, 4, 3], proba=True, post_transform="PROBIT")),
    "weights, three classes": (X, linear_machine(3, -1.0, post_transform="SOFTMAX")),
    "weights, two classes": (X, linear_machine(2, -1.0, rho=[-0.5])),
    "weights, two classes, none negative": (X, linear_machine(2, 0.0)),
}


@pytest.mark.parametrize("name", MACHINES)
def test_classifier(name: str) -> None:
    x, attributes = MACHINES[name]
    check("SVMClassifier", x, 2, 1, **attributes)


def test_the_first_of_classes_with_as_many_votes() -> None:
    """Machines of offsets alone: the scores are these, and every class of the first two rows of pairs has one vote."""
    for offsets in ([1.0, -1.0, 1.0], [-1.0, 1.0, -1.0], [0.0, 0.0, 0.0], [-1.0, -1.0, 0.0]):
        attributes = classifier([1, 1, 1], coefficients=[0.0] * 6, rho=offsets)
        node = helper.make_node("SVMClassifier", ["x"], ["y", "z"], domain=DOMAIN, **attributes)
        model = model_of(node, X, ["y", "z"], 1)
        found = hip_compiler.compile(model).run({"x": X})
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        np.testing.assert_array_equal(found["y"], session.run(["y"], {"x": X})[0])
        np.testing.assert_array_equal(found["z"], np.tile(np.array(offsets, np.float32), (len(X), 1)))


@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID", None])
def test_regressor(kernel: str | None, one_class: int) -> None:
    draw, count = np.random.default_rng(8), 6 if kernel else FEATURES
    attributes: dict[str, Any] = {
        "coefficients": draw.standard_normal(count).tolist(),
        "rho": [2.375 if kernel else -0.125],
    }
    if kernel:
        vectors = draw.standard_normal(count * FEATURES).tolist()
        attributes |= {"n_supports": count, "support_vectors": vectors, "kernel_type": kernel}
    check("SVMRegressor", X, 1, 1, kernel_params=[0.3, 0.5, 2.0], one_class=one_class, **attributes)


@pytest.mark.parametrize(
    ("op", "change", "words"),
    [
        ("SVMClassifier", {"post_transform": "PROBIT"}, "PROBIT of the one score"),
        ("SVMClassifier", {"kernel_type": "COSINE"}, "kernel_type COSINE"),
        ("SVMClassifier", {"kernel_params": [0.5]}, "gamma, coef0 and degree"),
        ("SVMClassifier", {"coefficients": [1.0]}, "1 coefficients for 7 vectors"),
        ("SVMClassifier", {"rho": None}, "no rho"),
        ("SVMClassifier", {"prob_a": [1.0]}, "1 prob_a, 0 prob_b"),
        ("SVMClassifier", {"vectors_per_class": [7]}, "for 2 classes"),
        ("SVMRegressor", {"post_transform": "LOGISTIC", "one_class": 1, "n_supports": 7}, "LOGISTIC of one class"),
        ("SVMRegressor", {"n_supports": 3}, "7 coefficients for 3 support vectors"),
    ],
)
def test_refusals(op: str, change: dict[str, Any], words: str) -> None:
    attributes = {k: v for k, v in (classifier([3, 4]) | change).items() if v is not None}
    if op == "SVMRegressor":
        attributes = {k: v for k, v in attributes.items() if k not in ("vectors_per_class", "classlabels_ints")}
    outputs = ["y", "z"][: 1 if op == "SVMRegressor" else 2]
    node = helper.make_node(op, ["x"], outputs, domain=DOMAIN, **attributes)
    with pytest.raises(hip_compiler.UnsupportedError, match=words):
        hip_compiler.compile(model_of(node, X, outputs, 1))
