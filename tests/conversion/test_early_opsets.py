"""Opsets 1 to 6: what differs from opset 7, each against NumPy; what was not compared is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import hip_compiler
from hip_compiler.core.conversion.early_opsets import RESTATED, SAME

RNG = np.random.default_rng(11)


def array(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def model(op: str, version: int, feeds: dict[str, np.ndarray], constants: dict[str, np.ndarray] | None = None,
          outputs: int = 1, **attributes: Any) -> onnx.ModelProto:  # fmt: skip
    names = [*feeds, *(constants or {})]
    results = [f"y{i}" if i else "y" for i in range(outputs)]
    node = helper.make_node(op, names, results, "node", **attributes)
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for n, a in feeds.items()]  # fmt: skip
    held = [onnx.numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    graph = helper.make_graph([node], "early", infos, [helper.make_empty_tensor_value_info("y")], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=4)


def run(op: str, version: int, feeds: dict[str, np.ndarray], **rest: Any) -> np.ndarray:
    return hip_compiler.compile(model(op, version, feeds, **rest)).run(feeds)["y"]


def refused(match: str, op: str, version: int, feeds: dict[str, np.ndarray], **rest: Any) -> None:
    with pytest.raises(hip_compiler.UnsupportedError, match=match):
        hip_compiler.compile(model(op, version, feeds, **rest))


@pytest.mark.parametrize(
    ("shape", "axis", "placed"),
    [
        ((4, 5), None, (1, 1, 4, 5)), ((3, 4), 1, (1, 3, 4, 1)), ((2,), 0, (2, 1, 1, 1)), ((5,), -1, (1, 1, 1, 5)),
        ((), None, ()), ((1, 1), None, ()), ((3, 1), 1, (1, 3, 1, 1)),
    ],
)  # fmt: skip
def test_the_right_operand_is_aligned_at_an_axis(shape: tuple[int, ...], axis: int | None, placed: Any) -> None:
    x, y = array(2, 3, 4, 5), array(*shape)
    attributes = {"broadcast": 1} | ({} if axis is None else {"axis": axis})
    got = run("Sub", 6, {"x": x, "z": y}, **attributes)
    np.testing.assert_array_equal(got, x - y.reshape(placed))


def test_comparisons_and_logic_align_as_well() -> None:
    x, y = array(2, 3, 4), array(3)
    np.testing.assert_array_equal(
        run("Greater", 1, {"x": x, "z": y}, broadcast=1, axis=1), np.greater(x, y.reshape(3, 1))
    )
    a, b = x > 0, y > 0
    np.testing.assert_array_equal(run("Or", 1, {"x": a, "z": b}, broadcast=1, axis=1), a | b.reshape(3, 1))


def test_operands_that_differ_need_the_attribute() -> None:
    refused("without broadcasting", "Add", 6, {"x": array(2, 3), "z": array(3)})
    refused("differ", "Max", 6, {"x": array(2, 3), "z": array(2, 1)})
    refused("axis 2 for", "Mul", 6, {"x": array(2, 3), "z": array(3)}, broadcast=1, axis=2)


def test_training_is_what_opset_6_defaults_to() -> None:
    x = array(2, 3, 4)
    parameters = {"s": array(3), "b": array(3), "m": array(3), "v": np.abs(array(3))}
    got = run("BatchNormalization", 6, {"x": x, **parameters}, is_test=1)
    s, b, m, v = (p.reshape(3, 1) for p in parameters.values())
    np.testing.assert_allclose(got, (x - m) / np.sqrt(v + 1e-5) * s + b, rtol=2e-5, atol=1e-6)
    refused("training mode", "BatchNormalization", 6, {"x": x, **parameters})
    refused("spatial", "BatchNormalization", 6, {"x": x, **parameters}, is_test=1, spatial=0)
    np.testing.assert_array_equal(run("Dropout", 6, {"x": x}, is_test=1), x)
    refused("training mode", "Dropout", 6, {"x": x})


def test_attributes_that_became_inputs() -> None:
    x = array(2, 6)
    np.testing.assert_array_equal(run("Reshape", 1, {"x": x}, shape=[0, 2, -1]), x.reshape(2, 2, 3))
    np.testing.assert_array_equal(
        run("Pad", 1, {"x": x}, paddings=[0, 1, 1, 2], value=3.0), np.pad(x, ((0, 1), (1, 2)), constant_values=3.0)
    )
    tiles = {"t": np.array([3], np.float32), "a": np.array([1], np.float32)}
    np.testing.assert_array_equal(run("Tile", 1, {"x": x}, constants=tiles), np.tile(x, (1, 3)))
    image = array(1, 2, 3, 4)
    np.testing.assert_array_equal(
        run("Upsample", 1, {"x": image}, height_scale=2.0, width_scale=3.0), image.repeat(2, 2).repeat(3, 3)
    )
    refused("bilinear", "Upsample", 1, {"x": image}, height_scale=2.0, width_scale=2.0, mode="bilinear")


def test_defaults_that_changed() -> None:
    x = np.array([-2.0, 1.5, np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(run("Clip", 1, {"x": x}, min=-1.0, consumed_inputs=[0]), np.maximum(x, -1))
    np.testing.assert_array_equal(run("Clip", 6, {"x": x}, min=-1.0), np.clip(x, -1, np.finfo(np.float32).max))
    finite = x[:2].astype(np.float64)
    for version, alpha, gamma in ((1, 1.6732, 1.0507), (6, 1.67326319217681884, 1.05070102214813232)):
        expected = gamma * np.where(finite > 0, finite, alpha * np.expm1(finite))
        np.testing.assert_allclose(run("Selu", version, {"x": x[:2]}), expected, rtol=3e-7)
    a, b = array(2, 3), array(2, 2)
    np.testing.assert_array_equal(run("Concat", 1, {"x": a, "z": b}), np.concatenate([a, b], 1))


def test_a_cast_names_its_target() -> None:
    x = np.array([1.75, -3.5, 300], np.float32)
    got = run("Cast", 5, {"x": x}, to="INT32")
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, [1, -3, 300])
    refused("element type", "Cast", 5, {"x": x}, to="INT33")


def test_slopes_are_per_channel() -> None:
    x, slope = array(2, 3, 4, 4), array(3)
    expected = np.where(x < 0, x * slope.reshape(3, 1, 1), x)
    np.testing.assert_array_equal(run("PRelu", 6, {"x": x, "s": slope}), expected)
    np.testing.assert_array_equal(run("PRelu", 6, {"x": x, "s": slope[:1]}), np.where(x < 0, x * slope[0], x))


def test_the_summand_of_gemm() -> None:
    a, b, full, row = array(3, 4), array(4, 5), array(3, 5), array(5)
    np.testing.assert_allclose(run("Gemm", 6, {"a": a, "b": b, "c": full}), a @ b + full, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(
        run("Gemm", 6, {"a": a, "b": b, "c": row}, broadcast=1), a @ b + row, rtol=2e-5, atol=1e-5
    )
    refused("without broadcasting", "Gemm", 6, {"a": a, "b": b, "c": row})


def test_recurrent_layers_are_those_of_opset_7() -> None:
    x, w, r = array(3, 2, 4), array(1, 5, 4), array(1, 5, 5)
    hidden, states = np.zeros((2, 5)), []
    for step in x.astype(np.float64):
        hidden = np.tanh(step @ w[0].T + hidden @ r[0].T)
        states.append(hidden)
    got = run("RNN", 1, {"x": x, "w": w, "r": r}, hidden_size=5, output_sequence=1)
    np.testing.assert_allclose(got[:, 0], states, rtol=1e-4, atol=1e-5)


def test_softmax_flattens() -> None:
    x = array(2, 3, 4)
    e = np.exp(x.reshape(2, -1).astype(np.float64))
    np.testing.assert_allclose(run("Softmax", 6, {"x": x}), (e / e.sum(1, keepdims=True)).reshape(x.shape), rtol=1e-5)


def test_what_was_not_compared_is_refused() -> None:
    assert not SAME & set(RESTATED)
    refused("this version", "MaxRoiPool", 1, {"x": array(1, 1, 4, 4), "r": array(1, 5)}, pooled_shape=[1, 1])
    refused("this version", "ThresholdedRelu", 6, {"x": array(3)})
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history()
             if not schema.domain and schema.since_version < 7}  # fmt: skip
    assert set(RESTATED) | SAME <= known


def test_simplification_leaves_early_operators_alone() -> None:
    """A sum with a constant that is aligned at an axis: later rules would take it for a bias of the product."""
    a, b, c = array(3, 3), array(3, 3), array(3)
    nodes = [
        helper.make_node("MatMul", ["x", "b"], ["p"]),
        helper.make_node("Add", ["p", "c"], ["y"], broadcast=1, axis=0),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 3])],
        [helper.make_empty_tensor_value_info("y")],
        [onnx.numpy_helper.from_array(b, "b"), onnx.numpy_helper.from_array(c, "c")],
    )  # fmt: skip
    early = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=4)
    got = hip_compiler.compile(early).run({"x": a})["y"]
    np.testing.assert_allclose(got, a @ b + c[:, None], rtol=2e-5, atol=1e-5)
