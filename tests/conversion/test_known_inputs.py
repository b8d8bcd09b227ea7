"""Inputs that broke other systems of this kind, as models: cases C3, C4, C6 and C7.

C1 (tests/llm/test_matmul_nbits.py) and C9 (tests/conversion/test_unsupported.py) are named where they belong.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import hip_compiler
from hip_compiler.dtypes import BY_NUMPY


def _extents(name: str, array: np.ndarray) -> list[int | str]:
    """Unknown, but for the last of three: heads are cut out of columns that the compiler knows."""
    return [extent if axis == 2 else f"{name}{axis}" for axis, extent in enumerate(array.shape)]


def run(op: str, feeds: dict[str, np.ndarray], constants: dict[str, np.ndarray] | None = None, domain: str = "",
        opset: int = 21, **attributes: Any) -> np.ndarray:  # fmt: skip
    """The first result of one node whose inputs have few extents known to the compiler."""
    held = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    names = [*feeds, *(constants or {})]
    infos = [
        helper.make_tensor_value_info(name, BY_NUMPY[array.dtype].onnx, _extents(name, array))
        for name, array in feeds.items()
    ]
    node = helper.make_node(
        op, ["" if name.startswith("_") else name for name in names], ["y"], domain=domain, **attributes
    )
    infos = [info for info in infos if not info.name.startswith("_")]
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info("y")], held)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    with hip_compiler.compile(helper.make_model(graph, opset_imports=imports, ir_version=10)) as session:
        return session.run({name: array for name, array in feeds.items() if not name.startswith("_")})["y"]


def test_case_c3_half_precision_scores_are_summed_and_scaled_in_single_precision() -> None:
    """[5,4096,64] x [5,64,4096] with numbers to 466: sums pass 65504, and do not once alpha has scaled them."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(0, 1, shape) for shape in ((5, 4096, 64), (5, 64, 4096)))
    a, b = ((x / np.abs(x).max() * 466).astype(np.float16) for x in (a, b))
    y = run("FusedMatMul", {"a": a, "b": b}, domain="com.microsoft", alpha=0.125)
    assert y.dtype == np.float16
    beyond = 0
    for batch in range(5):
        sums = a[batch].astype(np.float32) @ b[batch].astype(np.float32)
        beyond += int((np.abs(sums) > 65504).sum())
        wanted = sums * np.float32(0.125)
        assert np.abs(wanted).max() < 65504
        np.testing.assert_allclose(y[batch].astype(np.float32), wanted, rtol=2e-3, atol=2.0)
    assert beyond > 1000


def test_case_c3_prefill_of_a_large_layer_in_half_precision() -> None:
    """256 tokens of 64 query heads over 8 key heads of size 128, as in a network of 70 billion weights."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(0, 40, (1, 256, heads * 128)).astype(np.float16) for heads in (64, 8, 8))
    feeds: dict[str, np.ndarray] = {"q": q, "k": k, "v": v, "_past_k": q, "_past_v": q}
    feeds |= {"lens": np.array([255], np.int32), "total": np.array(256, np.int32)}
    y = run("GroupQueryAttention", feeds, domain="com.microsoft", num_heads=64, kv_num_heads=8).astype(np.float64)
    assert np.isfinite(y).all()
    heads = {n: x.reshape(256, -1, 128).swapaxes(0, 1).astype(np.float64) for n, x in (("q", q), ("k", k), ("v", v))}
    scores = heads["q"] @ np.repeat(heads["k"], 8, 0).swapaxes(-1, -2)
    assert np.abs(scores).max() > 65504  # before they are scaled
    scores = np.where(np.tril(np.ones((256, 256))) > 0, scores / np.sqrt(128), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ np.repeat(heads["v"], 8, 0)
    np.testing.assert_allclose(y.reshape(256, 64, 128).swapaxes(0, 1), wanted, rtol=4e-3, atol=0.1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_case_c4_softmax_covers_whole_rows_in_every_element_type(dtype: Any) -> None:
    x = np.random.default_rng(2).normal(0, 3, (3, 1000)).astype(dtype)
    y = run("Softmax", {"x": x})
    assert y.dtype == x.dtype
    e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(-1, keepdims=True))
    step = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(y.astype(np.float64), e / e.sum(-1, keepdims=True), rtol=4 * step, atol=1e-7)
    assert (y.astype(np.float64)[:, 500:] > 0).any(axis=1).all()


def test_case_c6_compress_keeps_260_of_280_rows() -> None:
    x, keep = np.random.default_rng(3).normal(size=(280, 3840)).astype(np.float32), np.arange(280) % 14 != 3
    y = run("Compress", {"x": x, "keep": keep}, axis=0)
    assert y.shape == (260, 3840)
    np.testing.assert_array_equal(y, x[keep])


@pytest.mark.parametrize("fed", [False, True])
def test_case_c7_blocks_of_scales_lie_along_their_axis(fed: bool) -> None:
    ramp = np.array([[1, 2, 3, 4]], np.int8)
    parts: dict[str, np.ndarray] = {"s": ramp.astype(np.float32), "z": ramp}
    x = np.full((1, 8), 9, np.int8)
    y = run("DequantizeLinear", {"x": x, **(parts if fed else {})}, None if fed else parts, axis=1, block_size=2)
    np.testing.assert_array_equal(y, [[8, 8, 14, 14, 18, 18, 20, 20]])
    # A short last block.
    y = run("DequantizeLinear", {"x": x[:, :7], **(parts if fed else {})}, None if fed else parts, axis=1, block_size=2)
    np.testing.assert_array_equal(y, [[8, 8, 14, 14, 18, 18, 20]])


@pytest.mark.parametrize("name", ["x", "w"])
def test_products_with_a_constant_vector(name: str) -> None:
    """It is a matrix of one column or row, of which the pool of constants knows nothing."""
    draw = np.random.default_rng(3)
    matrix, vector = draw.standard_normal((300, 300)).astype(np.float32), draw.standard_normal(300).astype(np.float32)
    fed, constants = ({"x": matrix}, {"w": vector}) if name == "w" else ({"w": matrix}, {"x": vector})
    expected = matrix @ vector if name == "w" else vector @ matrix
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    inputs = [helper.make_tensor_value_info(key, 1, array.shape) for key, array in fed.items()]
    kept = [onnx.numpy_helper.from_array(array, key) for key, array in constants.items()]
    graph = helper.make_graph([node], "vector", inputs, [helper.make_empty_tensor_value_info("y")], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    np.testing.assert_allclose(hip_compiler.compile(model).run(fed)["y"], expected, rtol=1e-4, atol=1e-4)
