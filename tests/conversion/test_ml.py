"""ai.onnx.ml against ONNX Runtime: trees, linear models, feature transforms, n-grams."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import hip_compiler
from hip_compiler.dtypes import BY_NUMPY

DOMAIN = "ai.onnx.ml"
X = np.random.default_rng(23).standard_normal((40, 3)).astype(np.float32)


def model_of(node: onnx.NodeProto, x: np.ndarray, outputs: list[str], version: int) -> onnx.ModelProto:
    kind = helper.make_tensor_value_info("x", BY_NUMPY[x.dtype].onnx, ["n", *x.shape[1:]])
    graph = helper.make_graph([node], "ml", [kind], [helper.make_empty_tensor_value_info(name) for name in outputs])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def check(
    op: str,
    x: np.ndarray,
    outputs: int = 1,
    version: int = 3,
    tolerance: float = 1e-5,
    more: tuple[np.ndarray, ...] = (),
    **attributes: Any,
) -> None:
    """Both engines agree, and the results say something."""
    names = [f"y{i}" for i in range(outputs)]
    feeds = {"x": x} | {f"x{i}": array for i, array in enumerate(more)}
    model = model_of(helper.make_node(op, list(feeds), names, domain=DOMAIN, **attributes), x, names, version)
    for name, array in list(feeds.items())[1:]:
        model.graph.input.append(helper.make_tensor_value_info(name, BY_NUMPY[array.dtype].onnx, array.shape))
    results = hip_compiler.compile(model).run(feeds)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for name, expected in zip(names, session.run(names, feeds), strict=True):
        assert len(np.unique(expected)) > 1
        assert results[name].dtype == expected.dtype
        assert results[name].shape == expected.shape
        np.testing.assert_allclose(results[name], expected, rtol=tolerance, atol=tolerance)


def trees(count: int, depth: int, modes: list[str], seed: int) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """Complete trees with random splits, and the (tree, node) of every leaf."""
    draw = np.random.default_rng(seed)
    nodes: dict[str, Any] = {
        name: []
        for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
                     "missing_value_tracks_true")
    }  # fmt: skip
    leaves = []
    for tree in range(count):
        for node in range(2 ** (depth + 1) - 1):
            leaf = node >= 2**depth - 1
            row: tuple[Any, ...] = (tree, node, int(draw.integers(0, 3)), float(np.float32(draw.normal())))
            row += ("LEAF" if leaf else modes[node % len(modes)],)
            row += (0, 0, 0) if leaf else (2 * node + 1, 2 * node + 2, node % 2)
            for values, value in zip(nodes.values(), row, strict=True):
                values.append(value)
            if leaf:
                leaves.append((tree, node))
    return {f"nodes_{name}": values for name, values in nodes.items()}, leaves


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_tree_regressor(aggregate: str) -> None:
    nodes, leaves = trees(5, 3, ["BRANCH_LEQ"], 1)
    target: dict[str, Any] = {
        "target_treeids": [tree for tree, _ in leaves for _ in range(2)],
        "target_nodeids": [node for _, node in leaves for _ in range(2)],
        "target_ids": [i for _ in leaves for i in range(2)],
        "target_weights": np.random.default_rng(29).standard_normal(2 * len(leaves)).astype(np.float32).tolist(),
    }
    x = X.copy()
    x[::7, 1] = np.nan
    check(
        "TreeEnsembleRegressor",
        x,
        n_targets=2,
        aggregate_function=aggregate,
        base_values=[0.5, -1.0],
        **nodes,
        **target,
    )


@pytest.mark.parametrize("mode", ["BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"])
def test_tree_comparisons(mode: str) -> None:
    nodes, leaves = trees(3, 2, [mode], 2)
    target: dict[str, Any] = {
        "target_treeids": [tree for tree, _ in leaves],
        "target_nodeids": [node for _, node in leaves],
        "target_ids": [0] * len(leaves),
        "target_weights": np.random.default_rng(29).standard_normal(len(leaves)).astype(np.float32).tolist(),
    }
    # Values that meet the splits exactly tell < from <=.
    x = np.array(nodes["nodes_values"], np.float32).reshape(-1, 3)[:7]
    check("TreeEnsembleRegressor", x, n_targets=1, **nodes, **target)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("classes", [3, 4])
def test_tree_classifier(classes: int, transform: str) -> None:
    nodes, leaves = trees(4, 2, ["BRANCH_LEQ"], 3)
    weights = np.random.default_rng(29).uniform(-1, 1, (len(leaves), classes)).astype(np.float32)
    labels = [7, -2, 4, 11][:classes]
    given: dict[str, Any] = {
        "class_treeids": [tree for tree, _ in leaves for _ in range(classes)],
        "class_nodeids": [node for _, node in leaves for _ in range(classes)],
        "class_ids": [i for _ in leaves for i in range(classes)],
        "class_weights": weights.reshape(-1).tolist(),
    }
    check(
        "TreeEnsembleClassifier",
        X,
        2,
        classlabels_int64s=labels,
        post_transform=transform,
        **nodes,
        **given,
    )


def test_two_scores_for_two_classes() -> None:
    nodes, leaves = trees(3, 2, ["BRANCH_LEQ"], 8)
    owners = [owner for owner in leaves for _ in range(2)]
    weights = np.random.default_rng(9).standard_normal(len(owners)).astype(np.float32)
    given: dict[str, Any] = {
        "class_treeids": [tree for tree, _ in owners],
        "class_nodeids": [node for _, node in owners],
        "class_ids": [0, 1] * len(leaves),
        "class_weights": weights.tolist(),
        "classlabels_int64s": [5, 9],
    }
    node = helper.make_node("TreeEnsembleClassifier", ["x"], ["label", "scores"], domain=DOMAIN, **nodes, **given)
    results = hip_compiler.compile(model_of(node, X, ["label", "scores"], 3)).run({"x": X})
    assert set(results["label"]) == {5, 9}
    np.testing.assert_array_equal(results["label"], np.array([5, 9])[results["scores"].argmax(1)])


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("low", [0.0, -1.0])
def test_one_score_for_two_classes(low: float, transform: str) -> None:
    nodes, leaves = trees(1 if low == 0 else 4, 3, ["BRANCH_LEQ"], 4)
    given: dict[str, Any] = {
        "class_treeids": [tree for tree, _ in leaves],
        "class_nodeids": [node for _, node in leaves],
        "class_ids": [0] * len(leaves),
        "class_weights": np.random.default_rng(6).uniform(low, 1, len(leaves)).astype(np.float32).tolist(),
    }
    check("TreeEnsembleClassifier", X, 2, classlabels_int64s=[5, 9], post_transform=transform, **nodes, **given)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodes_truenodeids": [0, 0, 0]}, "descendant|no trees"),
        ({"nodes_falsenodeids": [9, 0, 0]}, "no node of it"),
        ({"nodes_modes": ["BRANCH_ODD", "LEAF", "LEAF"]}, "do not describe nodes"),
        ({"target_ids": [0, 5]}, "target that is not there"),
    ],
)
def test_broken_trees(change: dict[str, Any], words: str) -> None:
    nodes, _ = trees(1, 1, ["BRANCH_LEQ"], 5)
    target: dict[str, Any] = {
        "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0],
    }  # fmt: skip
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain=DOMAIN, n_targets=1, **{**nodes, **target, **change}
    )
    with pytest.raises(hip_compiler.HipCompilerError, match=words):
        hip_compiler.compile(model_of(node, X, ["y"], 3)).run({"x": X})


@pytest.mark.parametrize("low", [0.0, -1.0])
@pytest.mark.parametrize("scored", [[1], [0, 2], [1, 2, 3]])
def test_classes_without_scores(scored: list[int], low: float) -> None:
    """Of two classes the second alone; and of more classes those that no leaf names are never chosen."""
    nodes, leaves = trees(2, 2, ["BRANCH_LEQ"], 4)
    owners = [owner for owner in leaves for _ in scored]
    weights = np.random.default_rng(6).uniform(low, -0.125 if low and len(scored) > 1 else 0.5, len(owners))
    given: dict[str, Any] = {
        "class_treeids": [tree for tree, _ in owners],
        "class_nodeids": [node for _, node in owners],
        "class_ids": scored * len(leaves),
        "class_weights": weights.astype(np.float32).tolist(),
    }
    if scored == [1, 2, 3]:
        # A class that only some leaves name.
        given["class_ids"] = [4 if i % 9 == 0 else c for i, c in enumerate(given["class_ids"])]
    labels = [5, 9, -3, 2, 8][: max(given["class_ids"]) + 1]
    check("TreeEnsembleClassifier", X, 2, classlabels_int64s=labels, post_transform="LOGISTIC", **nodes, **given)


def test_one_weighted_sum_for_two_classes() -> None:
    for transform in ("NONE", "LOGISTIC"):
        check(
            "LinearClassifier", X, 2, 1,
            coefficients=[1.0, -2.0, 0.5], intercepts=[0.1], classlabels_ints=[4, 9], post_transform=transform,
        )  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
def test_linear_classifier(transform: str) -> None:
    coefficients = np.random.default_rng(29).standard_normal(9).astype(np.float32).tolist()
    labels = [3, 1, 2]
    check(
        "LinearClassifier", X, 2, 1,
        coefficients=coefficients, intercepts=[0.1, 0.2, -0.3], classlabels_ints=labels, post_transform=transform,
    )  # fmt: skip


def test_linear_regressor() -> None:
    check("LinearRegressor", X, 1, 1, coefficients=[1.0, -2.0, 0.5, 3.0, 1.0, 1.0], intercepts=[0.5, -0.5], targets=2)
    check("LinearRegressor", X, 1, 1, coefficients=[1.0, -2.0, 0.5], intercepts=[0.5])


def test_feature_transforms() -> None:
    check("Scaler", X, 1, 1, offset=[0.5, 0.0, -1.0], scale=[2.0, 3.0, 0.5])
    check("Scaler", np.arange(12).reshape(4, 3), 1, 1, offset=[0.5], scale=[2.0])
    check("Scaler", X.astype(np.float64) + 1e9, 1, 1, offset=[1e9], scale=[2.0])
    for norm in ("L1", "L2", "MAX"):
        check("Normalizer", np.abs(X), 1, 1, norm=norm)
    check("Binarizer", X, 1, 1, threshold=0.25)
    missing = X.copy()
    missing[::3, 1] = np.nan
    check("Normalizer", missing, 1, 1, norm="MAX")
    check("Imputer", missing, 1, 1, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float("nan"))
    check("Imputer", np.arange(12).reshape(4, 3), 1, 1, imputed_value_int64s=[77], replaced_value_int64=4)


@pytest.mark.parametrize("widths", [[3, 2, 4], [2, 4, 5]])
def test_feature_vectorizer(widths: list[int]) -> None:
    """Widths that are those of the inputs; and others, which cut and fill up."""
    more = (X[:, :2] * 3, np.arange(160, dtype=np.float32).reshape(40, 2, 2))
    check("FeatureVectorizer", X, 1, 1, more=more, inputdimensions=widths)


def test_vectors_of_features_are_rows() -> None:
    more = (np.arange(2, dtype=np.int64),)
    check("FeatureVectorizer", np.arange(3, dtype=np.int64), 1, 1, more=more, inputdimensions=[3, 2])


def test_label_encoder_and_one_hot_encoder() -> None:
    x = np.random.default_rng(29).integers(-3, 6, (5, 4))
    check("LabelEncoder", x, 1, 2, keys_int64s=[5, -3, 0, 2], values_floats=[1.5, 2.5, 3.5, 4.5], default_float=-7.0)
    check("LabelEncoder", x, 1, 2, keys_int64s=[5, -3, 0, 2], values_int64s=[10, 20, 30, 40])
    floats = np.array([[1.5, np.nan], [0.0, -2.0]], np.float32)
    check("LabelEncoder", floats, 1, 4, keys_floats=[float("nan"), -2.0, 1.5], values_int64s=[1, 2, 3], default_int64=9)
    check("OneHotEncoder", x[0], 1, 1, cats_int64s=[2, -1, 5, 0])


def test_an_unknown_category_can_be_an_error() -> None:
    node = helper.make_node("OneHotEncoder", ["x"], ["y"], domain=DOMAIN, cats_int64s=[1, 2], zeros=0)
    session = hip_compiler.compile(model_of(node, np.array([1, 2]), ["y"], 1))
    np.testing.assert_array_equal(session.run({"x": np.array([2, 1])})["y"], [[0, 1], [1, 0]])
    with pytest.raises(hip_compiler.HipCompilerError, match="none of the categories"):
        session.run({"x": np.array([2, 3])})


def test_keys_of_another_kind_are_refused() -> None:
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain=DOMAIN, keys_strings=["a"], values_int64s=[1])
    with pytest.raises(hip_compiler.UnsupportedError, match="keys of string for int64"):
        hip_compiler.compile(model_of(node, np.array([1, 2]), ["y"], 2))


def test_a_report_says_what_to_do_about_maps() -> None:
    node = helper.make_node("ZipMap", ["x"], ["y"], domain=DOMAIN, classlabels_int64s=[1, 2, 3])
    model = model_of(node, X, [], 1)
    maps = helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, None))
    model.graph.output.append(helper.make_value_info("y", helper.make_sequence_type_proto(maps)))
    with pytest.raises(hip_compiler.UnsupportedError, match="zipmap=False, or make the tensor that it reads an output"):
        hip_compiler.compile(model)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_tf_idf(mode: str) -> None:
    node = helper.make_node(
        "TfIdfVectorizer", ["x"], ["y"], mode=mode, min_gram_length=1, max_gram_length=3, max_skip_count=2,
        ngram_counts=[0, 3, 7], ngram_indexes=[0, 1, 2, 3, 4, 5], pool_int64s=[4, 1, 2, 2, 1, 1, 3, 3, 1, 2],
        weights=[0.5, 2.0, 3.0, 1.5, 4.0, 0.25],
    )  # fmt: skip
    x = np.random.default_rng(29).integers(0, 5, (6, 9))
    model = model_of(node, x, ["y"], 1)
    actual = hip_compiler.compile(model).run({"x": x})["y"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(["y"], {"x": x})
    assert len(np.unique(expected)) > 3
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
