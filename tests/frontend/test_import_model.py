"""What the importer makes of models, construct by construct."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hip_compiler.core.constants import INLINE_ELEMENTS, ConstantPool
from hip_compiler.core.frontend import import_model, verify_module
from hip_compiler.core.frontend.attributes import constant_array
from hip_compiler.core.frontend.inference import infer_graph
from hip_compiler.dtypes import BY_ONNX
from hip_compiler.errors import ErrorCode, HipCompilerError, Unsupported, UnsupportedError

Import = Callable[..., str]
Check = Callable[[str, str], None]


def test_interface_attributes_and_locations(
    imported: Import, filecheck: Check, context: Any, pool: ConstantPool
) -> None:
    model = """
        <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
        net (float[batch, 3, ?] x) => (float[batch, 3, ?] y) {
            [relu] h = Relu(x)
            [leaky] y = LeakyRelu<alpha = 0.5>(h)
        }"""
    text = imported(model, name="my net")
    filecheck(
        text,
        """
        CHECK: module attributes {onnx.model = "my net", onnx.opset = {ai.onnx = 17 : i64, com.microsoft = 1 : i64}}
        CHECK: func.func @main_graph(%arg0: tensor<?x3x?xf32> {onnx.dims = ["batch", "", ""], onnx.name = "x"})
        CHECK-SAME: -> (tensor<?x3x?xf32> {onnx.dims = ["batch", "", ""], onnx.name = "y"})
        CHECK: "onnx.Relu"(%arg0) : (tensor<?x3x?xf32>) -> tensor<?x3x?xf32>
        CHECK: "onnx.LeakyRelu"({{.*}}) {alpha = 5.000000e-01 : f32}
        """,
    )
    module = import_model(onnx.parser.parse_model(model), context, pool)
    assert 'loc("relu")' in module.operation.get_asm(enable_debug_info=True)


def test_every_kind_of_attribute(imported: Import) -> None:
    node = helper.make_node(
        "Everything", ["x"], ["y"], domain="test",
        i=3, f=0.5, s="text", ints=[1, -2], floats=[1.5], strings=["a", "b"],
        t=numpy_helper.from_array(np.array([1, 2], np.uint8)),
        tp=helper.make_tensor_type_proto(TensorProto.FLOAT, [2]),
    )  # fmt: skip
    node.attribute.append(helper.make_attribute("none", [], attr_type=onnx.AttributeProto.INTS))
    text = imported(_model([node]))
    for part in (
        'domain = "test"', "i = 3 : i64", "f = 5.000000e-01 : f32", 's = "text"', "ints = array<i64: 1, -2>",
        "floats = array<f32: 1.500000e+00>", 'strings = ["a", "b"]', "t = dense<[1, 2]> : tensor<2xui8>",
        "tp = tensor<2xf32>", "none = array<i64>",
    ):  # fmt: skip
        assert part in text


def test_absent_inputs_and_outputs(imported: Import, filecheck: Check) -> None:
    nodes = [
        helper.make_node("Clip", ["x", "", "top"], ["c"]),
        helper.make_node("Clip", ["c", "", "", ""], ["d"]),
        helper.make_node("LSTM", ["d", "w", "r"], ["", "h"], hidden_size=2),
        helper.make_node("Identity", ["h"], ["y"]),
    ]
    text = imported(_model(nodes, extra_inputs=[("top", []), ("w", [1, 8, 3]), ("r", [1, 8, 2])], shape=[4, 1, 3]))
    filecheck(
        text,
        """
        CHECK: %[[NONE:.*]] = "onnx.NoValue"() : () -> none
        CHECK: "onnx.Clip"(%arg0, %[[NONE]], %arg1)
        CHECK: "onnx.Clip"(%{{[0-9]+}}) : (tensor<4x1x3xf32>) -> tensor<4x1x3xf32>
        CHECK: "onnx.LSTM"
        CHECK-SAME: -> (none, tensor<1x1x2xf32>)
        """,
    )
    assert text.count("NoValue") == 1


@pytest.mark.parametrize("size", [INLINE_ELEMENTS, INLINE_ELEMENTS + 1])
def test_small_constants_are_inline_and_large_ones_in_the_pool(imported: Import, pool: ConstantPool, size: int) -> None:
    weights = np.arange(size, dtype=np.float32)
    text = imported(_model([helper.make_node("Add", ["x", "w"], ["y"])], [numpy_helper.from_array(weights, "w")]))
    if size <= INLINE_ELEMENTS:
        assert "value = dense<" in text and not pool.arrays
    else:
        assert f'"onnx.Constant"() {{buffer = "w"}} : () -> tensor<{size}xf32>' in text
        np.testing.assert_array_equal(pool.get("w"), weights)


def test_raw_data_is_not_copied_a_second_time(context: Any, pool: ConstantPool) -> None:
    weights = numpy_helper.from_array(np.ones(1000, np.float32), "w")
    import_model(_model([helper.make_node("Add", ["x", "w"], ["y"])], [weights]), context, pool)
    array = pool.get("w")
    assert not array.flags.owndata and not array.flags.writeable


def test_constant_nodes_of_every_spelling(context: Any, pool: ConstantPool) -> None:
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([5.0], np.float32), "v"),
        numpy_helper.from_array(np.array([[1, 0]], np.int64)),
        [2, 2],
    )
    spellings: dict[str, Any] = {
        "value": numpy_helper.from_array(np.array([[1.5]], np.float16)), "value_float": 2.5, "value_floats": [1.0, 2.0],
        "value_int": 3, "value_ints": [4, 5], "value_string": "six", "value_strings": ["seven", "eight"],
        "sparse_value": sparse,
    }  # fmt: skip
    nodes = [helper.make_node("Constant", [], [name], **{name: value}) for name, value in spellings.items()]
    module = import_model(_model(nodes, outputs=list(spellings)), context, pool)
    block = module.body.operations[0].regions[0].blocks[0]
    found = {name: constant_array(value, pool) for name, value in zip(spellings, _returned(block), strict=True)}
    expected: dict[str, np.ndarray] = {
        "value": np.array([[1.5]], np.float16),
        "value_float": np.array(2.5, np.float32),
        "value_floats": np.array([1, 2], np.float32),
        "value_int": np.array(3, np.int64),
        "value_ints": np.array([4, 5], np.int64),
        "value_string": np.array(b"six", object),
        "value_strings": np.array([b"seven", b"eight"], object),
        "sparse_value": np.array([[0, 0], [5, 0]], np.float32),
    }
    for name, array in expected.items():
        actual = found[name]
        assert actual is not None and actual.dtype == array.dtype and actual.shape == array.shape, name
        np.testing.assert_array_equal(actual, array)


def test_large_constant_node_goes_to_the_pool_once(imported: Import, pool: ConstantPool) -> None:
    weights = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    nodes = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(weights), name="the_constant"),
        helper.make_node("Add", ["x", "w"], ["y"]),
    ]
    text = imported(_model(nodes, shape=[5000]))
    assert '"onnx.Add"(%arg0, %0) : (tensor<5000xf32>, tensor<5000xf32>) -> tensor<5000xf32>' in text
    np.testing.assert_array_equal(pool.get("w"), weights)


@pytest.mark.parametrize("indices", [[[0, 1], [2, 0]], [1, 6]])
def test_sparse_initializer_becomes_dense(context: Any, pool: ConstantPool, indices: list[Any]) -> None:
    values = numpy_helper.from_array(np.array([7.0, 8.0], np.float32), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(indices, np.int64)), [3, 3])
    model = _model([helper.make_node("Add", ["x", "w"], ["y"])], shape=[3, 3])
    model.graph.sparse_initializer.append(sparse)
    module = import_model(model, context, pool)
    constant = module.body.operations[0].regions[0].blocks[0].operations[0]
    expected = np.array([[0, 7, 0], [0, 0, 0], [8, 0, 0]], np.float32)
    np.testing.assert_array_equal(constant_array(constant.operation.results[0], pool), expected)


def test_sparse_initializer_out_of_bounds(imported: Import) -> None:
    values = numpy_helper.from_array(np.array([7.0], np.float32), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([[0, 3]], np.int64)), [3, 3])
    model = _model([helper.make_node("Add", ["x", "w"], ["y"])])
    model.graph.sparse_initializer.append(sparse)
    assert _refused(imported, model).code == ErrorCode.MODEL_INVALID


def test_subgraphs_are_regions_that_capture_values(imported: Import, filecheck: Check) -> None:
    text = imported(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        net (bool c, float[2] x) => (float[2] y) {
            y = If (c) <
                then_branch = then_graph () => (float[2] t) { h = Neg(x)  t = Abs(h) },
                else_branch = else_graph () => (float[2] x) { }
            >
        }""".replace("(float[2] x) { }", "(float[2] e) { e = Identity(x) }")
    )
    filecheck(
        text,
        """
        CHECK: "onnx.If"(%arg0) ({
        CHECK-NEXT: %[[E:.*]] = "onnx.Identity"(%arg1)
        CHECK-NEXT: "onnx.Yield"(%[[E]]) : (tensor<2xf32>) -> ()
        CHECK-NEXT: }, {
        CHECK-NEXT: %[[H:.*]] = "onnx.Neg"(%arg1)
        CHECK-NEXT: %[[T:.*]] = "onnx.Abs"(%[[H]])
        CHECK-NEXT: "onnx.Yield"(%[[T]])
        CHECK-NEXT: }) {region_names = ["else_branch", "then_branch"]} : (tensor<i1>) -> tensor<2xf32>
        """,
    )


def test_loop_body_has_arguments(imported: Import) -> None:
    text = imported("""
        <ir_version: 8, opset_import: ["" : 17]>
        net (int64 n, bool c, float[2] x) => (float[2] y) {
            y = Loop (n, c, x) <body = b (int64 i, bool ci, float[2] a) => (bool co, float[2] z) {
                co = Identity(ci)  z = Add(a, x) }>
        }""")
    assert "^bb0(%arg3: tensor<i64>, %arg4: tensor<i1>, %arg5: tensor<2xf32>)" in text
    assert '"onnx.Add"(%arg5, %arg2)' in text


def test_subgraph_may_reuse_a_name_of_a_sibling(imported: Import) -> None:
    imported("""
        <ir_version: 8, opset_import: ["" : 17]>
        net (bool c, float[2] x) => (float[2] y) {
            y = If (c) <
                then_branch = t () => (float[2] h) { h = Neg(x) },
                else_branch = e () => (float[2] h) { h = Abs(x) }>
        }""")


def test_outputs_may_be_inputs_constants_and_repeated(imported: Import) -> None:
    model = _model([], [numpy_helper.from_array(np.array([1], np.float32), "w")], outputs=["x", "w", "x"])
    assert "return %arg0, %0, %arg0 : tensor<2xf32>, tensor<1xf32>, tensor<2xf32>" in imported(model)


def test_initializer_that_is_an_input_is_a_constant(imported: Import) -> None:
    model = _model(
        [helper.make_node("Add", ["x", "w"], ["y"])], [numpy_helper.from_array(np.array([1], np.float32), "w")]
    )
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [1]))
    text = imported(model)
    assert "@main_graph(%arg0: tensor<2xf32> {" in text and "%arg1" not in text


def test_wrong_declared_shapes_inside_do_not_count(imported: Import) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Abs", ["h"], ["y"])]
    model = _model(nodes)
    model.graph.value_info.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, [99]))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [77]))
    text = imported(model)
    assert "99" not in text and "77" not in text


def test_types_that_are_not_known_or_not_tensors(imported: Import) -> None:
    nodes = [
        helper.make_node("Mystery", ["x"], ["m"], domain="test"),
        helper.make_node("Cast", ["m"], ["f"], to=TensorProto.FLOAT16),
        helper.make_node("SequenceConstruct", ["x"], ["s"]),
        helper.make_node("SequenceAt", ["s", "i"], ["y"]),
    ]
    text = imported(_model(nodes, extra_inputs=[("i", [])]))
    assert "-> !onnx.unknown" in text and "-> tensor<*xf16>" in text and "-> !onnx.sequence" in text


@pytest.mark.parametrize("onnx_type", sorted(set(BY_ONNX) - {TensorProto.STRING}))
def test_every_element_type_survives(context: Any, onnx_type: int) -> None:
    numpy_type = helper.tensor_dtype_to_np_dtype(onnx_type)
    values = np.array([0, 1, 1, 0, 1], np.uint8).astype(numpy_type)
    for array in (values, np.tile(values, 9)[:43], values[:1], values[:0]):
        pool = ConstantPool()
        module = import_model(
            _model([], [numpy_helper.from_array(array, "w")], outputs=["w"], output_type=onnx_type), context, pool
        )
        found = constant_array(_returned(module.body.operations[0].regions[0].blocks[0])[0], pool)
        assert found is not None and found.dtype == array.dtype and found.shape == array.shape
        assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("numpy_type", [np.float32, np.float16, "bfloat16", np.float64])
def test_special_numbers_survive_inline(context: Any, numpy_type: Any) -> None:
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16) if numpy_type == "bfloat16" else np.dtype(numpy_type)
    with np.errstate(all="ignore"):
        array = np.array([np.inf, -np.inf, np.nan, -0.0, 1e-40, 0.1], np.float64).astype(kind)
    pool = ConstantPool()
    onnx_type = helper.np_dtype_to_tensor_dtype(kind)
    module = import_model(
        _model([], [numpy_helper.from_array(array, "w")], outputs=["w"], output_type=onnx_type), context, pool
    )
    found = constant_array(_returned(module.body.operations[0].regions[0].blocks[0])[0], pool)
    assert found is not None and not pool.arrays
    np.testing.assert_array_equal(found.view(np.uint8), array.view(np.uint8))


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([("Relu", ["h"], ["y"]), ("Relu", ["x"], ["h"])], "used before the node that produces it"),
        ([("Relu", ["ghost"], ["y"])], "nothing produces value 'ghost'"),
        ([("Relu", ["x"], ["y"]), ("Abs", ["x"], ["y"])], "two values are named 'y'"),
        ([("Relu", ["x"], ["x"]), ("Abs", ["x"], ["y"])], "two values are named 'x'"),
        ([("Re lu", ["x"], ["y"])], "no operator name"),
        ([("Constant", [], ["y"])], "one value attribute"),
    ],
)
def test_broken_graphs_are_refused(imported: Import, nodes: list[Any], words: str) -> None:
    error = _refused(imported, _model([helper.make_node(*node) for node in nodes]))
    assert error.code == ErrorCode.MODEL_INVALID and words in error.what and error.where


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.dims.__setitem__(0, 3), "holds 16 bytes"),
        (lambda t: t.dims.__setitem__(0, -4), "negative extent"),
        (lambda t: t.dims.__setitem__(0, 2**62), "holds 16 bytes"),
        (lambda t: t.ClearField("raw_data"), "no contents"),
        (lambda t: setattr(t, "data_type", 99), "element type 99"),
        (lambda t: t.segment.CopyFrom(TensorProto.Segment(begin=1)), "segmented"),
    ],
)
def test_broken_tensors_are_refused(imported: Import, change: Callable[[TensorProto], None], words: str) -> None:
    tensor = numpy_helper.from_array(np.arange(4, dtype=np.float32), "w")
    change(tensor)
    error = _refused(imported, _model([helper.make_node("Add", ["x", "w"], ["y"])], [tensor]))
    assert error.code == ErrorCode.MODEL_INVALID and words in error.what and "'w'" in error.where


@pytest.mark.parametrize("version", [0, 1000])
def test_operator_sets_out_of_range(imported: Import, version: int) -> None:
    model = _model([helper.make_node("Relu", ["x"], ["y"])], opset=version)
    error = _refused(imported, model)
    assert isinstance(error, UnsupportedError) and f"opset {version}" in str(error)
    findings: list[Unsupported] = []
    imported(model, findings=findings)
    assert [finding.opset for finding in findings] == [version]


def test_operator_set_that_is_not_imported(imported: Import) -> None:
    model = _model([helper.make_node("Relu", ["x"], ["y"])])
    del model.opset_import[:]
    assert "no version of the default operator set" in _refused(imported, model).what


@pytest.mark.parametrize(
    ("domain", "op"), [("", "RegexFullMatch"), ("ai.onnx.ml", "LabelEncoder"), ("ai.onnx.ml", "TreeEnsemble")]
)
def test_operators_that_crash_the_inference_of_onnx(domain: str, op: str) -> None:
    nodes = [
        helper.make_node("Mystery", ["x"], ["m"], domain="test"),
        helper.make_node(op, ["m"], ["y"], domain=domain),
    ]
    model = _model(nodes, opset=20)
    opsets = {"": 20, "ai.onnx.ml": 5}
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 5))
    graph = infer_graph(model, opsets).graph
    assert [(node.domain, node.op_type) for node in graph.node] == [("test", "Mystery"), (domain, op)]


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (helper.make_node("Add", ["x"], ["y"]), "it has 1 inputs; ONNX asks for 2"),
        (helper.make_node("Concat", ["x", "x"], ["y"]), "attribute 'axis' is required and missing"),
        (helper.make_node("Relu", ["x"], ["y"], slope=0.5), "attribute 'slope' that Relu does not have"),
        (
            helper.make_node("LeakyRelu", ["x"], ["y"], alpha=1),
            "'alpha' is of the wrong kind; ONNX asks for FLOAT",
        ),
        (helper.make_node("Add", ["", "x"], ["y"]), "input 'A' is required and absent"),
        (helper.make_node("Relu", ["x"], ["y", "z"]), "it has 2 outputs; ONNX asks for 1"),
        (helper.make_node("Transpose", ["x"], ["y"], perm=[0.5]), "attribute 'perm' is of the wrong kind"),
    ],
)
def test_nodes_that_break_their_schema(imported: Import, node: onnx.NodeProto, words: str) -> None:
    node.name = "the_node"
    error = _refused(imported, _model([node, helper.make_node("Abs", ["x"], ["other"])]))
    assert error.code == ErrorCode.MODEL_INVALID
    assert words in str(error) and "the_node" in str(error)


def test_operators_that_onnx_does_not_define_are_left_for_conversion(context: Any, pool: ConstantPool) -> None:
    nodes = [helper.make_node("Gelu", ["x"], ["a"]), helper.make_node("NoSuchOp", ["a"], ["b"])]
    nodes.append(helper.make_node("Other", ["b"], ["y"], domain="vendor", anything=1))
    module = import_model(_model(nodes), context, pool)
    reasons = [finding.reason for finding in verify_module(module)]
    assert reasons == ["Gelu exists from opset 20 on, not in opset 17", "ONNX defines no operator NoSuchOp"]


@pytest.mark.parametrize("place", ["node", "output", "attribute", "dimension", "graph"])
def test_names_that_are_no_text(imported: Import, place: str) -> None:
    model = _model([helper.make_node("LeakyRelu", ["x"], ["y"], name="node-AAAA", alpha=0.5)])
    model.graph.name = "graph-AAAA"
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "dimension-AAAA"
    model.graph.node[0].attribute[0].name = "attribute-AAAA"
    model.graph.node[0].output[0] = model.graph.output[0].name = "output-AAAA"
    data = model.SerializeToString().replace(f"{place}-AAAA".encode(), f"{place}-".encode() + b"\xff\xfe\xfd\xfc")
    with pytest.raises(HipCompilerError) as caught:
        imported(onnx.ModelProto.FromString(data))
    assert caught.value.code == ErrorCode.MODEL_INVALID and "no UTF-8 text" in caught.value.what


def test_given_message_is_not_modified(imported: Import) -> None:
    model = _model([helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Abs", ["h"], ["y"])])
    before = model.SerializeToString(deterministic=True)
    imported(model)
    assert model.SerializeToString(deterministic=True) == before


def test_import_is_quick(context: Any, pool: ConstantPool) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["v0"])]
    nodes += [helper.make_node("Add", [f"v{i}", "w"], [f"v{i + 1}"], name=f"add{i}") for i in range(1500)]
    nodes.append(helper.make_node("Abs", ["v1500"], ["y"]))
    model = _model(nodes, [numpy_helper.from_array(np.ones(2, np.float32), "w")])
    start = time.process_time()
    import_model(model, context, pool)
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"not a model at all", "no ONNX protobuf"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"<!doctype html><html>", "web page"),
        (b"\x08\x00\x00\x00ORTM0000", "ONNX Runtime's own format"),
        (b"\x08\x08", "no graph"),
    ],
)
def test_files_that_are_no_models(tmp_path: Path, context: Any, content: bytes, words: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(HipCompilerError) as caught:
        import_model(path, context, ConstantPool())
    assert caught.value.code == ErrorCode.MODEL_UNREADABLE
    assert words in caught.value.what and str(path) in caught.value.where


def test_cut_off_file(tmp_path: Path, context: Any) -> None:
    data = _model([helper.make_node("Relu", ["x"], ["y"])]).SerializeToString()
    with pytest.raises(HipCompilerError, match="cut off"):
        import_model(data[:-5], context, ConstantPool())


@pytest.mark.parametrize("name", ["missing.onnx", "."])
def test_paths_that_are_no_files(tmp_path: Path, context: Any, name: str) -> None:
    with pytest.raises(HipCompilerError) as caught:
        import_model(tmp_path / name, context, ConstantPool())
    assert caught.value.code == ErrorCode.MODEL_UNREADABLE


def test_path_bytes_and_message_give_the_same_module(tmp_path: Path, context: Any) -> None:
    model = _model([helper.make_node("Relu", ["x"], ["y"])])
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    texts = {
        str(import_model(source, context, ConstantPool(), name="net"))
        for source in (model, path, str(path), model.SerializeToString())
    }
    assert len(texts) == 1
    assert 'onnx.model = "net"' in str(import_model(path, context, ConstantPool()))


def _model(
    nodes: list[onnx.NodeProto],
    initializers: list[TensorProto] | None = None,
    *,
    outputs: list[str] | None = None,
    extra_inputs: list[tuple[str, list[int]]] | None = None,
    shape: list[int] | None = None,
    opset: int = 17,
    output_type: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """A model with float input `x` and output `y` (or the named ones)."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2] if shape is None else shape)]
    for name, extents in extra_inputs or []:
        inputs.append(
            helper.make_tensor_value_info(name, TensorProto.INT64 if name == "i" else TensorProto.FLOAT, extents)
        )
    results = [helper.make_tensor_value_info(name, output_type, None) for name in outputs or ["y"]]
    if outputs:
        for info in results:
            info.ClearField("type")
    graph = helper.make_graph(nodes, "net", inputs, results, initializers or [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _returned(block: Any) -> list[Any]:
    return list(block.operations[len(block.operations) - 1].operation.operands)


def _refused(imported: Import, model: onnx.ModelProto) -> HipCompilerError:
    with pytest.raises(HipCompilerError) as caught:
        imported(model)
    return caught.value
