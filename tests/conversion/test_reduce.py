"""Reductions whose axes are data, against NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import hip_compiler
from hip_compiler.dtypes import BY_NAME
from hip_compiler.runtime import Session

KINDS = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean", "ReduceLogSumExp")


def oracle(kind: str, x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
    options: dict[str, Any] = {"axis": axes, "keepdims": keep}
    if kind == "ReduceLogSumExp":
        return np.log(np.exp(x.astype(np.float64)).sum(**options))
    function: Any = {"Sum": np.sum, "Max": np.max, "Min": np.min, "Prod": np.prod, "Mean": np.mean}[kind[6:]]
    return np.asarray(function(x, **options))


@cache
def session(kinds: Sequence[str], number_of_axes: int | None, dtype: str, noop: int = 0) -> Session:
    """All reductions of x [2, n, 4] along a list of axes; keepdims=0 where their number is known."""
    keep = int(number_of_axes is None)
    nodes = [
        helper.make_node(kind, ["x", "axes"], [f"y{i}"], keepdims=keep, noop_with_empty_axes=noop)
        for i, kind in enumerate(kinds)
    ]
    inputs = [
        helper.make_tensor_value_info("x", BY_NAME[dtype].onnx, [2, "n", 4]),
        helper.make_tensor_value_info("axes", TensorProto.INT64, [number_of_axes]),
    ]
    outputs = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(len(kinds))]
    graph = helper.make_graph(nodes, "reductions", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return hip_compiler.compile(model)


def numbers(dtype: str, extent: int = 3) -> np.ndarray:
    values = np.random.default_rng(7).uniform(-3, 5, (2, extent, 4))
    return (values if dtype in ("float", "float16") else np.rint(values)).astype(BY_NAME[dtype].numpy)


@pytest.mark.parametrize("axes", [(1,), (0, -1), (2, 2, 1), (-3, 1, 2)])
def test_axes_of_any_number(axes: tuple[int, ...]) -> None:
    x = numbers("float")
    results = session(KINDS, None, "float").run({"x": x, "axes": np.array(axes)})
    distinct = tuple({axis % 3 for axis in axes})
    for i, kind in enumerate(KINDS):
        expected = oracle(kind, x, distinct, keep=True)
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(results[f"y{i}"], expected, rtol=2e-5, atol=1e-5, err_msg=kind, strict=False)
        assert results[f"y{i}"].shape == expected.shape


@pytest.mark.parametrize("axes", [(1,), (0,), (-1,)])
def test_the_rank_follows_from_the_number_of_axes(axes: tuple[int, ...]) -> None:
    x = numbers("float", extent=5)
    results = session(KINDS, 1, "float").run({"x": x, "axes": np.array(axes)})
    for i, kind in enumerate(KINDS):
        expected = oracle(kind, x, axes, keep=False)
        np.testing.assert_allclose(results[f"y{i}"], expected, rtol=2e-5, atol=1e-5, err_msg=kind)
        assert results[f"y{i}"].shape == expected.shape


def test_integers_are_exact() -> None:
    kinds = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")
    x = numbers("int32")
    results = session(kinds, None, "int32").run({"x": x, "axes": np.array([1])})
    for i, kind in enumerate(kinds):
        np.testing.assert_array_equal(results[f"y{i}"], oracle(kind, x, (1,), keep=True).astype(np.int32))


def test_no_axes_are_all_axes_or_none() -> None:
    x = numbers("float")
    empty = np.array([], np.int64)
    everything = session(KINDS, None, "float").run({"x": x, "axes": empty})["y0"]
    np.testing.assert_allclose(everything, x.sum(keepdims=True), rtol=1e-5)
    kept = session(("ReduceSum",), None, "float", noop=1).run({"x": x, "axes": empty})["y0"]
    np.testing.assert_array_equal(kept, x)


def test_sums_over_nothing() -> None:
    x = np.empty((2, 0, 4), np.float32)
    results = session(KINDS, None, "float").run({"x": x, "axes": np.array([1])})
    np.testing.assert_array_equal(results["y0"], np.zeros((2, 1, 4)))
    np.testing.assert_array_equal(results["y1"], np.full((2, 1, 4), -np.inf))
    np.testing.assert_array_equal(results["y3"], np.ones((2, 1, 4)))


def test_nan_is_passed_on() -> None:
    x = numbers("float")
    x[0, 1, 2] = np.nan
    results = session(KINDS, None, "float").run({"x": x, "axes": np.array([1])})
    for kind in ("y1", "y2"):
        assert np.isnan(results[kind][0, 0, 2]) and np.isnan(results[kind]).sum() == 1


def test_axes_out_of_range_and_axes_given_twice() -> None:
    x = numbers("float")
    with pytest.raises(hip_compiler.HipCompilerError, match="out of range"):
        session(KINDS, None, "float").run({"x": x, "axes": np.array([3])})
    with pytest.raises(hip_compiler.HipCompilerError, match="given twice"):
        session(("ReduceSum",), 2, "float").run({"x": x, "axes": np.array([1, -2])})


def test_a_result_of_unknown_rank_is_refused() -> None:
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
        helper.make_tensor_value_info("axes", TensorProto.INT64, ["k"]),
    ]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    with pytest.raises(hip_compiler.UnsupportedError, match="number of axes"):
        hip_compiler.compile(model)
