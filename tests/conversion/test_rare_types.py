"""Element types that an operator has through others: against ONNX's reference evaluator and NumPy."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import hip_compiler
from hip_compiler.dtypes import BY_NUMPY

RNG = np.random.default_rng(5)


def model(
    op: str, x: np.ndarray, constants: dict[str, np.ndarray], outputs: int = 1, **attributes: Any
) -> onnx.ModelProto:
    """One node of an input with unknown extents, and constants; a name that starts with _ is an absent input."""
    names = ["x", *("" if name.startswith("_") else name for name in constants)]
    held = [onnx.numpy_helper.from_array(a, n) for n, a in constants.items() if not n.startswith("_")]
    info = helper.make_tensor_value_info("x", BY_NUMPY[x.dtype].onnx, [f"d{axis}" for axis in range(x.ndim)])
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, **attributes)
    graph = helper.make_graph(
        [node], "g", [info], [helper.make_empty_tensor_value_info(name) for name in results], held
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


INTEGERS = [np.int16, np.uint16, np.int64, np.uint32, np.uint64]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 0.5), (1, 1, 3, 2)])
def test_resize_of_integers(dtype: Any, mode: str, scales: tuple[float, ...]) -> None:
    x = RNG.integers(0, 200, (1, 2, 4, 6)).astype(dtype)
    proto = model("Resize", x, {"_": x, "scales": np.array(scales, np.float32)}, mode=mode)
    wanted: Any = next(iter(ReferenceEvaluator(proto).run(None, {"x": x})))
    found = hip_compiler.compile(proto).run({"x": x})["y0"]
    assert found.dtype == dtype
    # A half that is not quite one in the last place goes one way or the other.
    np.testing.assert_allclose(found, wanted, rtol=0, atol=0 if mode == "nearest" else 1)
    assert (found == wanted).mean() > 0.95


@pytest.mark.parametrize("dtype", [np.uint64, np.int64, np.bool_, np.int16])
def test_picked_neighbours_keep_every_bit(dtype: Any) -> None:
    limits = np.array([0, 1]) if dtype is np.bool_ else np.array([np.iinfo(dtype).min, np.iinfo(dtype).max - 1], dtype)
    x = RNG.choice(limits, (1, 1, 3, 5)).astype(dtype)
    how: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    proto = model("Resize", x, {"_": x, "scales": np.array([1, 1, 2, 3], np.float32)}, **how)
    np.testing.assert_array_equal(hip_compiler.compile(proto).run({"x": x})["y0"], x.repeat(2, 2).repeat(3, 3))


WIDE = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.bool_]


def extremes(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers whose every bit counts: the limits of a type, and a few small ones."""
    limits = [0, 1] if dtype is np.bool_ else [np.iinfo(dtype).min, np.iinfo(dtype).max - 1, 3, 7]
    return RNG.choice(np.array(limits, dtype), shape)


@pytest.mark.parametrize("dtype", WIDE)
def test_columns_and_grids_of_integers_keep_every_bit(dtype: Any) -> None:
    x, columns = extremes(dtype, (1, 2, 4, 5)), extremes(dtype, (1, 8, 12))
    grid = RNG.uniform(-1.2, 1.2, (1, 3, 4, 2)).astype(np.float32)
    shapes = {"image": np.array([4, 5]), "block": np.array([2, 2])}
    for source, proto in (
        (x, model("GridSample", x, {"grid": grid}, mode="nearest")),
        (columns, model("Col2Im", columns, shapes)),
    ):
        with np.errstate(over="ignore"):
            wanted: Any = next(iter(ReferenceEvaluator(proto).run(None, {"x": source})))
        found = hip_compiler.compile(proto).run({"x": source})["y0"]
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_grids_between_integers_are_rounded(dtype: Any, mode: str) -> None:
    """ONNX's reference cuts the weights to integers; of doubles it does what it should."""
    x = RNG.integers(0, 256, (1, 2, 4, 5)).astype(dtype)
    grid = RNG.uniform(-0.9, 0.9, (1, 3, 4, 2)).astype(np.float32)
    proto, wide = model("GridSample", x, {"grid": grid}, mode=mode), x.astype(np.float64)
    between: Any = ReferenceEvaluator(model("GridSample", wide, {"grid": grid}, mode=mode)).run(None, {"x": wide})
    limits = np.iinfo(dtype)
    wanted = np.clip(np.rint(between[0]), limits.min, float(limits.max))
    found = hip_compiler.compile(proto).run({"x": x})["y0"]
    np.testing.assert_allclose(found.astype(float), wanted, atol=1)  # a half that is not quite one
    assert (found == wanted).mean() > 0.95


# ONNX's function body of ReduceLogSumExp says how integers go through double; for the others that is ours to say.
LOGARITHMS: dict[str, Any] = {
    "ReduceLogSum": lambda x: np.log(x.sum(1, keepdims=True)),
    "ReduceLogSumExp": lambda x: np.log(np.exp(x).sum(1, keepdims=True)),
    "Erf": np.vectorize(math.erf),
}


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("op", LOGARITHMS)
def test_functions_of_numbers_that_were_for_integers_too(op: str, dtype: Any) -> None:
    x = np.array([[3, 9, 27], [50, 40, 0], [6, 5, 1]], dtype)
    attributes: dict[str, Any] = {} if op == "Erf" else {"axes": [1]}
    proto = model(op, x, {}, **attributes)
    proto.opset_import[0].version = 11
    found = hip_compiler.compile(proto).run({"x": x})["y0"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, LOGARITHMS[op](x.astype(np.float64)).astype(dtype))
    proto.opset_import[0].version = 28 if op != "Erf" else 13
    with pytest.raises(hip_compiler.HipCompilerError):
        hip_compiler.compile(proto)


def test_interpolated_integers_stay_within_their_type() -> None:
    x = np.array([[[[0, 65535, 65535, 0]]]], np.uint16)
    proto = model("Resize", x, {"_": x, "scales": np.array([1, 1, 1, 3], np.float32)}, mode="cubic")
    found = hip_compiler.compile(proto).run({"x": x})["y0"]
    assert found.max() == 65535
    assert found.min() == 0
    wanted: Any = next(iter(ReferenceEvaluator(proto).run(None, {"x": x})))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz])
def test_what_is_no_number_among_floats_of_8_bits(dtype: Any) -> None:
    x = np.array([0.5, np.nan, -np.inf, np.inf, -448, 0], np.float32).astype(dtype)
    wide = x.astype(np.float32)
    for op, wanted in (("IsNaN", np.isnan(wide)), ("IsInf", np.isinf(wide))):
        np.testing.assert_array_equal(hip_compiler.compile(model(op, x, {})).run({"x": x})["y0"], wanted)


def test_unique_of_bools() -> None:
    x = np.array([True, False, True, True])
    found = list(hip_compiler.compile(model("Unique", x, {}, 4)).run({"x": x}).values())
    for got, wanted in zip(found, np.unique(x, True, True, True), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert found[0].dtype == np.bool_
