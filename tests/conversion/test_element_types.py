"""Inputs of several element types, and types that only some operators have: against ONNX's reference evaluator, which
computes with the same numbers in wider types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import hip_compiler
from hip_compiler.dtypes import BY_NUMPY

RNG = np.random.default_rng(8)
BF16 = ml_dtypes.bfloat16


def model(op: str, inputs: list[np.ndarray], outputs: int, opset: int, **attributes: Any) -> onnx.ModelProto:
    names = [f"i{i}" for i in range(len(inputs))]
    results = [f"o{i}" for i in range(outputs)]
    infos = [helper.make_tensor_value_info(n, BY_NUMPY[a.dtype].onnx, a.shape)
             for n, a in zip(names, inputs, strict=True)]  # fmt: skip
    node = helper.make_node(op, names, results, "node", **attributes)
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info(name) for name in results])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def run(op: str, inputs: list[np.ndarray], outputs: int, opset: int, **attributes: Any) -> list[np.ndarray]:
    proto = model(op, inputs, outputs, opset, **attributes)
    return list(hip_compiler.compile(proto).run({f"i{i}": array for i, array in enumerate(inputs)}).values())


def numbers(dtype: Any, *shape: int, low: float = -2.0) -> np.ndarray:
    return RNG.uniform(low, 2.0, shape).astype(dtype)


def channels(dtype: Any) -> list[np.ndarray]:
    return [numbers(dtype, 3), numbers(dtype, 3)]


Q = [numbers(np.float32, 1, 2, 3, 4) for _ in range(3)]
MASK = RNG.integers(0, 3, (3, 3))
X = (2, 3, 4)
ROWS: list[tuple[str, list[np.ndarray], int, dict[str, Any]]] = [
    *[("BatchNormalization", [numbers(x, *X), *channels(scale), *(abs(a) for a in channels(mean))], 1, {})
      for x, scale, mean in ((np.float64, np.float32, np.float32), (np.float32, np.float64, np.float32),
                             (np.float16, np.float16, np.float64), (BF16, np.float32, np.float32))],
    ("BatchNormalization", [numbers(np.float64, *X), *channels(np.float32), *(abs(a) for a in channels(np.float32))], 3,
     {"training_mode": 1}),
    *[("Attention", [*Q, MASK.astype(dtype)], 1, {}) for dtype in (np.int8, np.uint8, np.int32, np.float64)],
    *[("MeanVarianceNormalization", [numbers(dtype, 2, 3, 4, 5)], 1, {}) for dtype in (np.float64, np.float16, BF16)],
    ("MeanVarianceNormalization", [numbers(np.float64, 2, 3, 4)], 1, {"axes": [-1, 0]}),
    ("CenterCropPad", [numbers(np.float32, 4, 5), np.array([6, 3], np.int32)], 1, {}),
    ("DepthToSpace", [np.arange(48).reshape(1, 8, 2, 3).astype(BF16)], 1, {"blocksize": 2}),
    ("SpaceToDepth", [np.arange(48).reshape(1, 2, 4, 6).astype(BF16)], 1, {"blocksize": 2}),
    ("Transpose", [np.arange(48).reshape(1, 2, 2, 2, 2, 3).astype(BF16)], 1, {"perm": [0, 3, 4, 1, 5, 2]}),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ROWS)), ids=lambda i: f"{ROWS[i][0]}-{ROWS[i][1][0].dtype}-{i}")
def test_operators_of_several_types(number: int) -> None:
    op, inputs, outputs, attributes = ROWS[number]
    # ONNX's function body of MeanVarianceNormalization has constants of float, and no other type fits them.
    kind = np.float32 if op == "MeanVarianceNormalization" else np.float64
    wide = [a if np.issubdtype(a.dtype, np.integer) and op == "CenterCropPad" else a.astype(kind) for a in inputs]
    expected: Any = ReferenceEvaluator(model(op, wide, outputs, 23, **attributes)).run(
        None, {f"i{i}": array for i, array in enumerate(wide)}
    )
    found = run(op, inputs, outputs, 23, **attributes)
    assert found[0].dtype == inputs[0].dtype
    for got, wanted in zip(found, expected, strict=True):
        tolerance = {2: 2e-2, 4: 1e-5, 8: 1e-5}[got.dtype.itemsize]
        np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


def test_running_statistics_are_of_their_own_type() -> None:
    found = run("BatchNormalization", [numbers(np.float16, *X), *channels(np.float16), *channels(np.float32)], 3, 23,
                training_mode=1)  # fmt: skip
    assert [array.dtype for array in found] == [np.float16, np.float32, np.float32]


@pytest.mark.parametrize(("stash", "dtype"), [(1, np.float32), (16, BF16)])
def test_layer_normalization_keeps_statistics_as_it_is_told(stash: int, dtype: Any) -> None:
    x = numbers(np.float32, 2, 4)
    found = run("LayerNormalization", [x, np.ones(4, np.float32)], 3, 23, stash_type=stash)
    assert [array.dtype for array in found] == [np.float32, dtype, dtype]
    np.testing.assert_allclose(found[1].astype(float)[:, 0], x.mean(1), rtol=1e-2)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64, np.int8])
def test_shrinking_integers_by_what_is_none(dtype: Any) -> None:
    x = np.array([0, 1, 2, 3, 100], dtype)
    (found,) = run("Shrink", [x], 1, 23, lambd=1.5, bias=1.5)
    np.testing.assert_array_equal(found, np.array([0, 0, 0, 1, 98], dtype))


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 2.5), (0.5, 1.0), (2.0, -3.0)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_factors_of_products_of_integers(dtype: Any, alpha: float, beta: float) -> None:
    a, b, c = (RNG.integers(-9, 9, shape).astype(dtype) for shape in ((2, 3), (3, 4), (4,)))
    (found,) = run("Gemm", [a, b, c], 1, 13, alpha=alpha, beta=beta)
    np.testing.assert_array_equal(found, (alpha * (a.astype(float) @ b.astype(float)) + beta * c).astype(dtype))


@pytest.mark.parametrize("op", ["Add", "MatMul", "Max", "PRelu", "Less"])
def test_mixed_operands_are_in_the_report(op: str) -> None:
    inputs = [np.ones((2, 2), np.float32), np.ones((2, 2), np.int32)]
    with pytest.raises(hip_compiler.UnsupportedError, match="inputs 0 and 1 are of one element type"):
        run(op, inputs, 1, 21)


def test_powers_may_have_exponents_of_another_type() -> None:
    (found,) = run("Pow", [np.array([2, 3], np.float32), np.array([3, 2], np.int32)], 1, 21)
    np.testing.assert_array_equal(found, [8, 9])
