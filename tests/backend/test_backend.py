"""The ONNX Backend API: what it accepts, and the order of what it gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper

import hip_compiler.backend as backend
from hip_compiler.errors import ErrorCode, HipCompilerError, UnsupportedError

MODEL = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 17]>
    net (float[n, 3] b, float[n, 3] a) => (float[n, 3] z, float[n, 3] y) { y = Sub (b, a)  z = Abs (y) }
""")
B = np.array([[1.0, 2.0, 3.0]], np.float32)
A = np.array([[2.0, 0.5, -4.0]], np.float32)


def test_outputs_come_in_order_and_by_name() -> None:
    rep = backend.prepare(MODEL)
    for inputs in ([B, A], (B, A), {"a": A, "b": B}):
        z, y = outputs = rep.run(inputs)
        np.testing.assert_array_equal(y, B - A)
        np.testing.assert_array_equal(z, np.abs(B - A))
        assert outputs["y"] is y  # type: ignore[call-overload]


def test_run_model_and_run_node() -> None:
    (_, y) = backend.run_model(MODEL, [B, A])
    np.testing.assert_array_equal(y, B - A)
    node = helper.make_node("Clip", ["x", "", "top"], ["y"])
    (clipped,) = backend.run_node(node, [A, np.float32(1.0)])
    np.testing.assert_array_equal(clipped, np.minimum(A, 1))
    (squared,) = backend.run_node(helper.make_node("Mul", ["x", "x"], ["y"]), A, opset_version=14)
    np.testing.assert_array_equal(squared, A * A)


def test_devices() -> None:
    assert backend.supports_device("CPU") and backend.supports_device("CPU:0")
    assert not backend.supports_device("CUDA") and not backend.supports_device("nothing")
    assert backend.is_compatible(MODEL) and not backend.is_compatible(MODEL, "CUDA")
    with pytest.raises(HipCompilerError) as caught:
        backend.prepare(MODEL, "CUDA")
    assert caught.value.code == ErrorCode.TARGET_UNKNOWN


@pytest.mark.parametrize("inputs", [[B], [B, A, A], B])
def test_wrong_number_of_inputs(inputs: Any) -> None:
    with pytest.raises(HipCompilerError) as caught:
        backend.run_model(MODEL, inputs)
    assert caught.value.code == ErrorCode.FEED


def test_node_inputs_that_do_not_fit() -> None:
    node = helper.make_node("Add", ["x", "y"], ["z"])
    for inputs in ([A], {"x": A}, [A, np.array(["text"])]):
        with pytest.raises(HipCompilerError) as caught:
            backend.run_node(node, inputs)
        assert caught.value.code == ErrorCode.FEED


def test_what_cannot_be_compiled_is_reported() -> None:
    node = helper.make_node("ImageDecoder", ["x"], ["y"])
    with pytest.raises(UnsupportedError, match="pictures are decoded before the model"):
        backend.run_node(node, [np.zeros(4, np.uint8)])


def test_a_sequence_is_a_list() -> None:
    (found,) = backend.run_node(helper.make_node("SequenceConstruct", ["x", "x"], ["y"]), [A])
    assert len(found) == 2
    np.testing.assert_array_equal(found[1], A)
