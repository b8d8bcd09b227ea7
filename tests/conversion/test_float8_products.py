"""Products of floats of 8 bits against NumPy and ml_dtypes: no other implementation of them runs here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

import hip_compiler
from tests.conversion.test_quantized import build, run

RNG = np.random.default_rng(6)
FLOATS_8 = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz]


def numbers(dtype: Any, *shape: int) -> np.ndarray:
    if np.issubdtype(dtype, np.integer):
        return RNG.integers(0, 6, shape).astype(dtype)
    return RNG.uniform(-4, 4, shape).astype(np.float32).astype(dtype)


def saturated(x: np.ndarray, dtype: Any) -> np.ndarray:
    """x in a float type of 8 bits, or rounded to an integer type; no further than its largest number."""
    if np.issubdtype(dtype, np.integer):
        return np.clip(np.rint(x), np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
    if np.dtype(dtype).itemsize == 1:
        largest = float(ml_dtypes.finfo(dtype).max)
        x = np.clip(x, -largest, largest)
    return x.astype(np.float32).astype(dtype)


@pytest.mark.parametrize("scales", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("left", "right", "out"),
    [*[(dtype, dtype, dtype) for dtype in FLOATS_8], (FLOATS_8[0], FLOATS_8[2], np.int8),
     (np.uint8, FLOATS_8[0], FLOATS_8[2]), (np.int8, np.uint8, FLOATS_8[1])],
)  # fmt: skip
def test_qlinear_matmul(left: Any, right: Any, out: Any, scales: Any) -> None:
    """Scales per row and column; a few results leave the range of their type."""
    a, b = numbers(left, 2, 3, 5), numbers(right, 5, 4)
    zeros = {"za": np.zeros(3, left), "zb": np.ones(4, right), "zy": np.zeros((), out)}
    sa, sb, sy = np.array([0.5, 0.25, 2], scales), np.array([1, 0.5, 0.125, 4], scales), np.array(0.25, scales)
    order, given = "a sa za b sb zb sy zy", zeros | {"sa": sa, "sb": sb, "sy": sy}
    found = run("QLinearMatMul", {"a": a, "b": b}, given, order)
    total = a.astype(np.float64) @ (b.astype(np.float64) - 1)
    factor = sa.astype(np.float64)[:, None] * sb.astype(np.float64) / float(sy)
    wanted = saturated((total * factor).astype(np.float32), out)
    assert found.dtype == np.dtype(out)
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
    assert len(np.unique(found.astype(np.float64))) > 6


def test_other_quantised_operators_have_no_floats() -> None:
    a, b = numbers(FLOATS_8[0], 2, 3), numbers(FLOATS_8[0], 3, 2)
    for op, order in (("MatMulInteger", "a b"), ("MatMulIntegerToFloat", "a b s s")):
        domain = "" if op == "MatMulInteger" else "com.microsoft"
        with pytest.raises(hip_compiler.UnsupportedError, match="float8e4m3fn is not defined for it"):
            run(op, {"a": a, "b": b}, {"s": np.ones((), np.float32)}, order, domain=domain)


EPILOGUES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "NONE": lambda x: x,
    "RELU": lambda x: np.maximum(x, 0),
    "GELU": lambda x: x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
}
E4M3, E5M2 = FLOATS_8[0], FLOATS_8[2]
GEMMS: list[tuple[Any, Any, Any, str, dict[str, Any]]] = [
    (E4M3, E4M3, np.float32, "a b", {"transB": 1}),
    (E4M3, E5M2, np.float16, "a b c sa sb", {"transA": 1, "alpha": 0.5, "beta": 2.0, "activation": "RELU"}),
    (E5M2, E4M3, E4M3, "a b - sa sb sy", {"transB": 1, "activation": "NONE"}),
    (E4M3, E4M3, E5M2, "a b c sa sb sy", {"transA": 1, "transB": 1, "beta": 1.0, "activation": "GELU"}),
    (np.float32, ml_dtypes.bfloat16, ml_dtypes.bfloat16, "a b c", {"activation": "GELU", "beta": 0.5}),
    (np.float16, np.float16, np.float32, "a b c", {"alpha": 3.0}),
]


@pytest.mark.parametrize(("left", "right", "out", "order", "attributes"), GEMMS)
def test_gemm_float8(left: Any, right: Any, out: Any, order: str, attributes: dict[str, Any]) -> None:
    """The last row gives C and leaves beta at its default, which is 0."""
    a, b = numbers(left, 3, 5), numbers(right, 5, 4)
    c, scales = numbers(np.float16, 3, 4), {"sa": 0.5, "sb": 4.0, "sy": 0.25}
    feeds = {"a": a.T.copy() if attributes.get("transA") else a, "b": b.T.copy() if attributes.get("transB") else b}
    feeds |= {"c": c} if "c" in order.split() else {}
    held = {name: np.array([value], np.float32) for name, value in scales.items() if name in order.split()}
    kind = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16,
            np.dtype(ml_dtypes.bfloat16): TensorProto.BFLOAT16, np.dtype(E4M3): TensorProto.FLOAT8E4M3FN,
            np.dtype(E5M2): TensorProto.FLOAT8E5M2}[np.dtype(out)]  # fmt: skip
    found = run("GemmFloat8", feeds, held, order, domain="com.microsoft", dtype=kind, **attributes)
    total = a.astype(np.float64) @ b.astype(np.float64) * attributes.get("alpha", 1.0)
    total *= (0.5 if "sa" in held else 1) * (4.0 if "sb" in held else 1)
    total += c.astype(np.float64) * attributes.get("beta", 0.0) if "c" in feeds else 0
    total = EPILOGUES[attributes.get("activation", "NONE")](total) * (0.25 if "sy" in held else 1)
    wanted = saturated(total, out)
    assert found.dtype == np.dtype(out)
    step = {4: 1e-6, 2: 1e-3, 1: 0.13}[np.dtype(out).itemsize]
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=step, atol=1e-6)
    assert len(np.unique(found.astype(np.float64))) > 4


@pytest.mark.parametrize(
    ("order", "attributes", "words"),
    [("a b - s", {}, "a scale of float"), ("a b", {"activation": "TANH"}, "activation TANH"),
     ("a b", {"dtype": TensorProto.DOUBLE}, "float to double"), ("a b", {"rowMajor": 1}, "rowMajor")],
)  # fmt: skip
def test_what_gemm_float8_refuses(order: str, attributes: dict[str, Any], words: str) -> None:
    feeds = {"a": numbers(np.float32, 2, 3), "b": numbers(np.float32, 3, 2)}
    model = build("GemmFloat8", feeds, {"s": np.array([2], np.float32)}, order, domain="com.microsoft", **attributes)
    with pytest.raises(hip_compiler.UnsupportedError, match=words):
        hip_compiler.compile(model)
