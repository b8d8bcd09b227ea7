"""Case C9: everything a model needs and cannot have is in one report."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import hip_compiler


def five_faults() -> onnx.ModelProto:
    """An attribute variant, an operator, a domain, an element type and an opset that cannot be compiled."""
    nodes = [
        helper.make_node("Einsum", ["x"], ["a"], "letters", equation="ijk->i"),
        helper.make_node("ImageDecoder", ["bytes"], ["b"], "decode"),
        helper.make_node("Transmogrify", ["x"], ["t"], "magic", domain="com.example"),
        helper.make_node("Sin", ["whole"], ["s"], "sine_of_integers"),
    ]
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3]),
        helper.make_tensor_value_info("bytes", TensorProto.UINT8, [10]),
        helper.make_tensor_value_info("whole", TensorProto.INT32, [3]),
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("a", "b", "t", "s")]
    graph = helper.make_graph(nodes, "faults", values, outputs)
    imports = [helper.make_opsetid("", 99), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def test_one_report_lists_every_fault() -> None:
    with pytest.raises(hip_compiler.UnsupportedError) as caught:
        hip_compiler.compile(five_faults())
    report = str(caught.value)
    assert caught.value.code == hip_compiler.ErrorCode.UNSUPPORTED
    for words in ("opset 99", "letters: Einsum", "decode: ImageDecoder", "com.example::Transmogrify", "Sin"):
        assert words in report
    assert len(caught.value.findings) == 5


def test_what_depends_on_a_fault_is_not_reported_again() -> None:
    nodes = [
        helper.make_node("Transmogrify", ["x"], ["t"], "magic", domain="com.example"),
        helper.make_node("Relu", ["t"], ["r"], "after"),
        helper.make_node("Add", ["r", "x"], ["y"], "last"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    graph = helper.make_graph(nodes, "chain", [x], [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    with pytest.raises(hip_compiler.UnsupportedError) as caught:
        hip_compiler.compile(helper.make_model(graph, opset_imports=imports, ir_version=10))
    assert [finding.node for finding in caught.value.findings] == ["magic"]


def test_an_attribute_that_no_conversion_reads_is_an_error() -> None:
    node = helper.make_node("QuickGelu", ["x"], ["y"], "gelu", domain="com.microsoft", alpha=1.5, sharpness=2.0)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    graph = helper.make_graph([node], "g", [x], [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    with pytest.raises(hip_compiler.UnsupportedError, match="sharpness"):
        hip_compiler.compile(helper.make_model(graph, opset_imports=imports, ir_version=10))


def test_an_input_that_is_no_tensor_of_numbers_is_in_the_report() -> None:
    node = helper.make_node("Identity", ["x"], ["y"], "same")
    x = helper.make_tensor_value_info("x", TensorProto.COMPLEX64, [2])
    graph = helper.make_graph([node], "g", [x], [helper.make_tensor_value_info("y", TensorProto.COMPLEX64, [2])])
    with pytest.raises(hip_compiler.UnsupportedError, match="inputs must be tensors of numbers"):
        hip_compiler.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10))


@pytest.mark.parametrize(
    ("op", "domain", "opset", "words"),
    [
        ("Upsample", "", 13, "it is compiled as of opset 7 to 9"),
        ("Softmax", "com.example", 17, "in domain ai.onnx is compiled"),
        ("QuickGelu", "", 17, "in domain com.microsoft is compiled"),
        ("SkipLayerNormalisation", "com.microsoft", 17, "the nearest that is compiled is SkipLayerNormalization"),
        ("StringConcat", "", 20, "it makes strings"),
    ],
)
def test_the_report_names_what_comes_nearest(op: str, domain: str, opset: int, words: str) -> None:
    inputs = ["x"] * (2 if op in ("Upsample", "StringConcat") else 1)
    node = helper.make_node(op, inputs, ["y"], "odd", domain=domain)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    graph = helper.make_graph([node], "g", [x], [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    with pytest.raises(hip_compiler.HipCompilerError) as caught:
        hip_compiler.compile(helper.make_model(graph, opset_imports=imports, ir_version=10))
    assert words in str(caught.value)


def test_a_refused_element_type_comes_with_those_that_are_not() -> None:
    node = helper.make_node("Sin", ["x"], ["y"], "sine")
    x = helper.make_tensor_value_info("x", TensorProto.INT32, [2])
    graph = helper.make_graph([node], "g", [x], [helper.make_empty_tensor_value_info("y")])
    with pytest.raises(hip_compiler.UnsupportedError, match="it is for bfloat16, double, float, float16"):
        hip_compiler.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10))


def test_inputs_and_outputs_of_too_many_dimensions_are_in_the_report() -> None:
    node = helper.make_node("Unsqueeze", ["x", "axes"], ["y"], "longer")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1] * 8)
    axes = onnx.numpy_helper.from_array(np.array([0], np.int64), "axes")
    graph = helper.make_graph([node], "g", [x], [helper.make_empty_tensor_value_info("y")], [axes])
    with pytest.raises(hip_compiler.UnsupportedError, match="9 dimensions: inputs and outputs have at most 8"):
        hip_compiler.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10))


def test_an_input_that_no_conversion_reads_is_an_error() -> None:
    """Operators grow inputs at their end, which a converter of before knows nothing of."""
    node = helper.make_node("QuickGelu", ["x", "x"], ["y"], "gelu", domain="com.microsoft")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    graph = helper.make_graph([node], "g", [x], [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    with pytest.raises(hip_compiler.UnsupportedError, match="2 operands"):
        hip_compiler.compile(helper.make_model(graph, opset_imports=imports, ir_version=10))
    node.op_type = "BiasSplitGelu"
    node.input.append("x")
    graph = helper.make_graph([node], "g", [x], [helper.make_empty_tensor_value_info("y")])
    with pytest.raises(hip_compiler.UnsupportedError, match="input 2 is not handled"):
        hip_compiler.compile(helper.make_model(graph, opset_imports=imports, ir_version=10))
