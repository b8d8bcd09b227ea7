"""Strings that are moved, compared and looked up, against ONNX Runtime; also such as the model does not name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import hip_compiler
from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime import Session
from tests.conversion.oracle import build, flag

WORDS = np.array([["red", "green"], ["blau", "red"], ["", "größer"]], object)

MOVES = {
    "Concat": "y = Concat <axis = 1> (x, x)",
    "Gather": "i = Constant <value_ints = [2, 0]> ()\n y = Gather (x, i)",
    "GatherElements": "i = Constant <value = int64[2, 2] {1, 0, 2, 2}> ()\n y = GatherElements (x, i)",
    "Reshape": "s = Constant <value_ints = [-1]> ()\n y = Reshape (x, s)",
    "Slice": "a = Constant <value_ints = [1]> ()\n b = Constant <value_ints = [3]> ()\n y = Slice (x, a, b)",
    "Split": "y, z = Split <axis = 1> (x)",
    "Transpose": "t = Transpose (x)\n y = Identity (t)",
    "Where": "w = Constant <value = string[2] {\"red\", \"new\"}> ()\n e = Equal (x, w)\n y = Where (e, w, x)",
    "Unsqueeze": "a = Constant <value_ints = [0]> ()\n y = Unsqueeze (x, a)",
    "Expand": "s = Constant <value_ints = [2, 3, 2]> ()\n y = Expand (x, s)",
    "Tile": "r = Constant <value_ints = [1, 2]> ()\n y = Tile (x, r)",
    "ScatterElements": "i = Constant <value = int64[1, 2] {2, 0}> ()\n u = Constant <value = string[1, 2] "
                       "{\"one\", \"red\"}> ()\n y = ScatterElements (x, i, u)",
    "Compress": "c = Constant <value = bool[3] {0, 1, 1}> ()\n y = Compress <axis = 0> (x, c)",
}  # fmt: skip


def _oracle(model: onnx.ModelProto) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _same(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    oracle = _oracle(model)
    names = [output.name for output in oracle.get_outputs()]
    with hip_compiler.compile(model) as session:
        found = session.run(feeds)
    for name, expected in zip(names, oracle.run(names, feeds), strict=True):
        assert found[name].dtype == expected.dtype, name
        if expected.dtype == object:
            assert found[name].shape == expected.shape
            assert found[name].reshape(-1).tolist() == expected.reshape(-1).tolist(), name
        else:
            np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)
    return found


@pytest.mark.parametrize("name", MOVES)
def test_strings_are_moved(name: str) -> None:
    # ONNX Runtime 1.32 loses strings in Gather.
    model = build(f"g (string[N, 2] x) => (y) {{ {MOVES[name]} }}", 19)
    results: Any = ReferenceEvaluator(model).run(None, {"x": WORDS})
    expected = np.asarray(results[0])
    with hip_compiler.compile(model) as session:
        found = session.run({"x": WORDS})["y"]
    assert found.dtype == object and found.shape == expected.shape
    assert found.reshape(-1).tolist() == expected.reshape(-1).tolist()


def test_strings_are_compared_with_each_other() -> None:
    graph = (
        "g (string[N] x, string[N] y, string[1] z) => (bool[N] e, bool[N] f) { e = Equal (x, y)\n f = Equal (x, z) }"
    )
    x, y, z = (np.array(words, object) for words in (["a", "unheard", "c"], ["b", "unheard", "C"], ["c"]))
    found = _same(build(graph, 19), {"x": x, "y": y, "z": z})
    assert found["e"].tolist() == [False, True, False] and found["f"].tolist() == [False, False, True]


def test_strings_are_states_and_results_of_branches() -> None:
    graph = """
    g (string[N] x, int64 M, bool c) => (s, y) {
        more = Constant <value_strings = ["more"]> ()
        s = Loop (M, , x) <body = b (int64 i, bool go, string[K] a) => (bool on, string[L] next) {
            on = Identity (go)
            next = Concat <axis = 0> (a, more) }>
        y = If (c) <then_branch = t () => (string[K] p) { p = Identity (x) },
                    else_branch = e () => (string[L] q) { q = Identity (more) }>
    }
    """
    for side in (True, False):
        feeds = {"x": np.array(["new", "more"], object), "M": np.asarray(2), "c": flag(side)}
        with hip_compiler.compile(build(graph)) as session:
            found = session.run(feeds)
        assert found["s"].tolist() == ["new", "more", "more", "more"]
        assert found["y"].tolist() == (["new", "more"] if side else ["more"])


def test_sequences_of_strings() -> None:
    graph = "g (seq(string[N]) s, string[M] x) => (seq(string[N]) t) { t = SequenceInsert (s, x) }"
    with hip_compiler.compile(build(graph)) as session:
        found = session.run({"s": [["a", "b"], ["c"]], "x": ["a"]})["t"]
    assert [part.tolist() for part in found] == [["a", "b"], ["c"], ["a"]]


# ---- ai.onnx.ml --------------------------------------------------------------------------------------------


def _ml(op: str, x: Any, outputs: int = 1, version: int = 3, **attributes: Any) -> dict[str, Any]:
    names = [f"y{i}" for i in range(outputs)]
    kind = onnx.TensorProto.STRING if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype)
    node = helper.make_node(op, ["x"], names, domain="ai.onnx.ml", **attributes)
    inputs = [helper.make_tensor_value_info("x", kind, ["N", *x.shape[1:]])]
    graph = helper.make_graph([node], "ml", inputs, [helper.make_empty_tensor_value_info(name) for name in names])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return _same(helper.make_model(graph, opset_imports=imports, ir_version=8), {"x": x})


KEYS = ["green", "red", "", "blau"]
NUMBERS = np.array([[0.5, 2.0], [-1.5, 0.25], [3.0, -2.0], [0.0, 0.0]], np.float32)

ENCODERS: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
    "strings to integers": (WORDS, {"keys_strings": KEYS, "values_int64s": [3, 1, 4, 1], "default_int64": 9}),
    "strings to floats": (WORDS, {"keys_strings": KEYS, "values_floats": [0.5, 1.5, -2.0, 0.0]}),
    "strings to strings": (WORDS, {"keys_strings": KEYS, "values_strings": ["g", "r", "e", "red"]}),
    "integers to strings": (
        np.array([[1, 2], [7, 3]]),
        {"keys_int64s": [3, 1, 2], "values_strings": ["c", "a", "b"], "default_string": "none"},
    ),
    "floats to strings": (NUMBERS, {"keys_floats": [0.5, -2.0, 0.0], "values_strings": ["half", "less", "nothing"]}),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_label_encoders(name: str) -> None:
    x, attributes = ENCODERS[name]
    _ml("LabelEncoder", x, version=2, **attributes)


def test_a_label_encoder_of_tensors() -> None:
    keys = numpy_helper.from_array(np.array(KEYS, object), "keys")
    values = helper.make_tensor("values", onnx.TensorProto.INT64, [4], [3, 1, 4, 1])
    otherwise = helper.make_tensor("otherwise", onnx.TensorProto.INT64, [1], [9])
    _ml("LabelEncoder", WORDS, version=4, keys_tensor=keys, values_tensor=values, default_tensor=otherwise)


def test_categories() -> None:
    _ml("OneHotEncoder", WORDS, cats_strings=KEYS)
    mapped: dict[str, Any] = {"cats_strings": KEYS, "cats_int64s": [5, 6, 7, 8], "default_string": "none"}
    _ml("CategoryMapper", WORDS, **mapped)
    _ml("CategoryMapper", np.array([[8, 5], [1, 6]]), **mapped)


def test_n_grams_of_strings() -> None:
    node = helper.make_node(
        "TfIdfVectorizer", ["x"], ["y"], mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=1,
        ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3], pool_strings=["red", "blau", "", "green", "red"],
    )  # fmt: skip
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.STRING, ["N", 2])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert _same(model, {"x": WORDS})["y"].any()


def test_labels_of_classes() -> None:
    two, three = ["no", "yes"], ["small", "middle", "large"]
    found = _ml(
        "LinearClassifier", NUMBERS, 2, 1,
        coefficients=[1.0, 0.5, -1.0, 0.25, 0.0, 1.0], intercepts=[0.0, 0.5, -0.5], classlabels_strings=three,
    )  # fmt: skip
    assert len(set(found["y0"])) > 1
    found = _ml("LinearClassifier", NUMBERS, 2, 1, coefficients=[1.0, 0.5], intercepts=[0.1], classlabels_strings=two)
    assert set(found["y0"]) == set(two)
    tree: dict[str, Any] = {
        "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3,
        "nodes_values": [0.2, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "class_treeids": [0, 0, 0],
        "class_nodeids": [1, 2, 2], "class_ids": [0, 1, 2], "class_weights": [1.0, 0.25, 0.75],
    }  # fmt: skip
    found = _ml("TreeEnsembleClassifier", NUMBERS, 2, 1, classlabels_strings=three, **tree)
    assert set(found["y0"]) == {"small", "large"}
    machine: dict[str, Any] = {
        "kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "vectors_per_class": [1, 1], "rho": [0.1],
        "support_vectors": [1.0, 0.0, 0.0, 1.0], "coefficients": [1.0, -1.0],
    }  # fmt: skip
    found = _ml("SVMClassifier", NUMBERS, 2, 1, classlabels_strings=two, **machine)
    assert set(found["y0"]) == set(two)


# ---- what is refused ---------------------------------------------------------------------------------------

REFUSED = {
    "Cast": ("y = Cast <to = 7> (x)", "strings can be moved, compared and looked up"),
    "StringConcat": ("y = StringConcat (x, x)", "it makes strings"),
    "Unique": ("y = Unique (x)", "strings can be moved"),
    "Add": ("y = Add (x, x)", "strings can be moved"),
    "ScatterElements": (
        "i = Constant <value_ints = [0]> ()\n u = Constant <value_strings = [\"a\"]> ()\n"
        "y = ScatterElements <reduction = \"add\"> (x, i, u)",
        "reduction add of strings",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_changes_strings_is_refused(name: str) -> None:
    body, reason = REFUSED[name]
    with pytest.raises(HipCompilerError, match=reason):
        hip_compiler.compile(build(f"g (string[N] x) => (y) {{ {body} }}", 20))


def test_feeds_that_are_no_strings_are_refused() -> None:
    with hip_compiler.compile(build("g (string[N] x) => (string[N] y) { y = Identity (x) }")) as session:
        assert session.run({"x": [b"bytes", "text"]})["y"].tolist() == ["bytes", "text"]
        for given, reason in (
            (np.arange(2), "element type int64"),
            (np.array(["a", 3], object), "no string: 3"),
            ([b"\xff"], "no UTF-8"),
            ([["a"]], r"rank 2 .*, the model takes x: string\[N\]"),
            ([["a"], ["b", "c"]], "is not an array"),
        ):
            with pytest.raises(HipCompilerError, match=reason):
                session.run({"x": given})


def test_artifacts_keep_the_vocabulary(tmp_path: Path) -> None:
    graph = 'g (string[N] x) => (y) { w = Constant <value_strings = ["known"]> ()\n y = Concat <axis = 0> (x, w) }'
    with hip_compiler.compile(build(graph)) as session:
        saved = session.save(tmp_path / "model")
    with Session(saved) as loaded:
        assert [str(info) for info in (*loaded.inputs, *loaded.outputs)] == ["x: string[N]", "y: string[1 + N]"]
        assert loaded.run({"x": ["new", "known"]})["y"].tolist() == ["new", "known", "known"]
