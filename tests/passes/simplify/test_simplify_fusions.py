"""Patterns that exporters spell out become one operator again; anything else stays as it is."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.frontend import export_model, import_model
from hip_compiler.core.mlir import ir
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.simplify_onnx import SimplifyOnnx
from hip_compiler.registry.contributions import TargetContribution

Text = Callable[..., None]
Numbers = Callable[..., dict[str, int]]

WIDTH = 16
RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((2, 5, WIDTH)).astype(np.float32) * 3 + 1

CONSTANTS = """
    two = Constant <value = float {2.0}> ()
    half = Constant <value = float {0.5}> ()
    one = Constant <value = float {1.0}> ()
    three = Constant <value = float {3.0}> ()
    six = Constant <value = float {6.0}> ()
    zero = Constant <value = float {0.0}> ()
    eps = Constant <value = float {1e-5}> ()
    root2 = Constant <value = float {1.4142135}> ()
    inverse_root2 = Constant <value = float {0.70710677}> ()
    cubic = Constant <value = float {0.044715}> ()
    tanh_scale = Constant <value = float {0.7978846}> ()
    quick = Constant <value = float {1.702}> ()
    last = Constant <value = int64[1] {-1}> ()
    both = Constant <value = int64[2] {1, 2}> ()
"""


def model(body: str, *, opset: int = 24, dtype: str = "float", shape: str = f"batch, 5, {WIDTH}") -> onnx.ModelProto:
    """A model of `x` (and parameters `g`, `b` of the last axis) with the constants above."""
    text = f"""<ir_version: 10, opset_import: ["" : {opset}]>
        net ({dtype}[{shape}] x, {dtype}[{WIDTH}] g, {dtype}[{WIDTH}] b) => ({dtype}[{shape}] y) {{
        {CONSTANTS} {body} }}"""
    return onnx.parser.parse_model(text)


FEEDS = {
    "x": X,
    "g": RANDOM.standard_normal(WIDTH).astype(np.float32),
    "b": RANDOM.standard_normal(WIDTH).astype(np.float32),
}


SQUARES = (
    "s = Pow (d, two)",
    "s = Mul (d, d)",
    "k = Sub (x, m)  s = Pow (k, two)",
    "k = Cast <to = 1> (d)  s = Pow (k, two)",
)
ROOTS = ("r = Sqrt (e)", "r = Pow (e, half)")
QUOTIENTS = ("n = Div (d, r)", "i = Reciprocal (r)  n = Mul (d, i)", "i = Div (one, r)  n = Mul (i, d)")
EPILOGUES = ("p = Mul (n, g)  y = Add (p, b)", "p = Mul (g, n)  y = Add (b, p)", "y = Mul (n, g)", "y = Identity (n)")


@pytest.mark.parametrize(
    ("square", "root", "quotient", "epilogue"),
    [
        *itertools.product(SQUARES, ROOTS[:1], QUOTIENTS[:1], EPILOGUES[:1]),
        *itertools.product(SQUARES[:1], ROOTS, QUOTIENTS, EPILOGUES),
    ],
)
def test_layer_norm(check_numbers: Numbers, square: str, root: str, quotient: str, epilogue: str) -> None:
    body = f"""m = ReduceMean (x, last)  d = Sub (x, m)  {square}  v = ReduceMean (s, last)  e = Add (v, eps)
        {root}  {quotient}  {epilogue}"""
    assert check_numbers(model(body), FEEDS)["fuse-layer-norm"] == 1


def test_layer_norm_with_axes_as_an_attribute_and_over_two_axes(check_numbers: Numbers) -> None:
    body = """m = ReduceMean <axes = [2]> (x)  d = Sub (x, m)  s = Pow (d, two)  v = ReduceMean <axes = [-1]> (s)
        e = Add (v, eps)  r = Sqrt (e)  n = Div (d, r)  p = Mul (n, g)  y = Add (p, b)"""
    assert check_numbers(model(body, opset=17), FEEDS)["fuse-layer-norm"] == 1
    body = """m = ReduceMean (x, both)  d = Sub (x, m)  s = Pow (d, two)  v = ReduceMean (s, both)
        e = Add (v, eps)  r = Sqrt (e)  n = Div (d, r)  y = Mul (n, g)"""
    assert check_numbers(model(body), FEEDS)["fuse-layer-norm"] == 1


@pytest.mark.parametrize(
    "body",
    [
        # Another axis for the variance than for the mean.
        "m = ReduceMean (x, last)  d = Sub (x, m)  s = Pow (d, two)  v = ReduceMean (s, both)  e = Add (v, eps) "
        "r = Sqrt (e)  n = Div (d, r)  y = Mul (n, g)",
        # No mean is subtracted in the numerator.
        "m = ReduceMean (x, last)  d = Sub (x, m)  s = Pow (d, two)  v = ReduceMean (s, last)  e = Add (v, eps) "
        "r = Sqrt (e)  n = Div (x, r)  y = Mul (n, g)",
        # The mean of another value.
        "a = Abs (x)  m = ReduceMean (a, last)  d = Sub (x, m)  s = Pow (d, two)  v = ReduceMean (s, last) "
        "e = Add (v, eps)  r = Sqrt (e)  n = Div (d, r)  y = Mul (n, g)",
        # A third power.
        "m = ReduceMean (x, last)  d = Sub (x, m)  a = Abs (d)  s = Pow (a, three)  v = ReduceMean (s, last) "
        "e = Add (v, eps)  r = Sqrt (e)  n = Div (d, r)  y = Mul (n, g)",
        # Not the last axis.
        "ax = Constant <value = int64[1] {1}> ()  m = ReduceMean (x, ax)  d = Sub (x, m)  s = Pow (d, two) "
        "v = ReduceMean (s, ax)  e = Add (v, eps)  r = Sqrt (e)  n = Div (d, r)  y = Mul (n, g)",
    ],
)
def test_what_is_no_layer_norm(check_numbers: Numbers, body: str) -> None:
    assert "fuse-layer-norm" not in check_numbers(model(body), FEEDS)


def test_intermediate_result_that_is_an_output_stays(mlir_context: Any) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
        net (float[2, {WIDTH}] x, float[{WIDTH}] g) => (float[2, {WIDTH}] y, float[2, {WIDTH}] n) {{ {CONSTANTS}
        m = ReduceMean (x, last)  d = Sub (x, m)  s = Pow (d, two)  v = ReduceMean (s, last)  e = Add (v, eps)
        r = Sqrt (e)  n = Div (d, r)  y = Mul (n, g) }}"""
    source = onnx.parser.parse_model(text)
    pool = ConstantPool()
    module = import_model(source, mlir_context, pool)
    simplify(module, pool)
    feeds = {"x": X[0, :2], "g": FEEDS["g"]}
    for a, b in zip(evaluate(source, feeds), evaluate(export_model(module, pool), feeds), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_layer_norm_in_float64_keeps_its_digits(mlir_context: Any) -> None:
    body = """m = ReduceMean (x, last)  d = Sub (x, m)  s = Mul (d, d)  v = ReduceMean (s, last)
        c = CastLike (eps, v)  e = Add (v, c)  r = Sqrt (e)  y = Div (d, r)"""
    pool = ConstantPool()
    module = import_model(model(body, dtype="double"), mlir_context, pool)
    assert "fuse-layer-norm" not in simplify(module, pool)


@pytest.mark.parametrize(("quotient", "epilogue"), [*itertools.product(QUOTIENTS, EPILOGUES[2:])])
def test_rms_norm(quotient: str, epilogue: str) -> None:
    body = f"""d = Identity (x)  s = Pow (d, two)  v = ReduceMean (s, last)  e = Add (v, eps)  r = Sqrt (e)
        {quotient}  {epilogue}"""
    source = model(body)
    applied, actual, expected = simplified(source, FEEDS)
    assert applied["fuse-rms-norm"] == 1
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def gelu_bodies(gate: str) -> list[str]:
    return [
        f"{gate}  o = Add (f, one)  p = Mul (x, o)  y = Mul (p, half)",
        f"{gate}  o = Add (one, f)  p = Mul (o, half)  y = Mul (x, p)",
        f"{gate}  o = Add (f, one)  p = Mul (half, x)  y = Mul (p, o)",
        f"{gate}  o = Add (f, one)  p = Mul (x, o)  y = Div (p, two)",
    ]


ERF = ("q = Div (x, root2)  f = Erf (q)", "q = Mul (inverse_root2, x)  f = Erf (q)")
TANH = (
    "c = Pow (x, three)  k = Mul (cubic, c)  i = Add (x, k)  q = Mul (tanh_scale, i)  f = Tanh (q)",
    "a = Mul (x, x)  c = Mul (a, x)  k = Mul (c, cubic)  i = Add (k, x)  q = Mul (i, tanh_scale)  f = Tanh (q)",
    "a = Mul (x, x)  k = Mul (a, cubic)  i = Add (k, one)  u = Mul (x, tanh_scale)  q = Mul (u, i)  f = Tanh (q)",
)


@pytest.mark.parametrize("body", [body for gate in ERF for body in gelu_bodies(gate)])
def test_gelu(check_numbers: Numbers, body: str) -> None:
    assert check_numbers(model(body), FEEDS)["fuse-gelu"] == 1


@pytest.mark.parametrize("body", [body for gate in TANH for body in gelu_bodies(gate)])
def test_gelu_with_tanh(check_numbers: Numbers, body: str) -> None:
    assert check_numbers(model(body), FEEDS)["fuse-gelu"] == 1


@pytest.mark.parametrize(
    "body",
    [
        "q = Div (x, two)  f = Erf (q)  o = Add (f, one)  p = Mul (x, o)  y = Mul (p, half)",
        "q = Div (x, root2)  f = Erf (q)  o = Add (f, half)  p = Mul (x, o)  y = Mul (p, half)",
        "q = Div (x, root2)  f = Erf (q)  o = Add (f, one)  p = Mul (g, o)  y = Mul (p, half)",
        "q = Div (x, root2)  f = Tanh (q)  o = Add (f, one)  p = Mul (x, o)  y = Mul (p, half)",
        "q = Div (x, root2)  f = Erf (q)  o = Add (f, one)  p = Mul (x, o)  y = Mul (p, two)",
    ],
)
def test_what_is_no_gelu(check_numbers: Numbers, body: str) -> None:
    assert "fuse-gelu" not in check_numbers(model(body), FEEDS)


def test_gelu_is_marked_with_its_operator_set(check_text: Text) -> None:
    check_text(
        """
        %half = "onnx.Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
        %one = "onnx.Constant"() {value = dense<1.0> : tensor<1xf32>} : () -> tensor<1xf32>
        %root = "onnx.Constant"() {value = dense<1.41421354> : tensor<f32>} : () -> tensor<f32>
        %0 = "onnx.Div"(%x, %root) : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
        %1 = "onnx.Erf"(%0) : (tensor<?x4xf32>) -> tensor<?x4xf32>
        %2 = "onnx.Add"(%1, %one) : (tensor<?x4xf32>, tensor<1xf32>) -> tensor<?x4xf32>
        %3 = "onnx.Mul"(%x, %2) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
        %4 = "onnx.Mul"(%3, %half) : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x4xf32>
        return %4 : tensor<?x4xf32>
        // CHECK: func.func
        // CHECK-NEXT: %0 = "onnx.Gelu"(%arg0) {approximate = "none", hip.opset = 20 : i64}
        // CHECK-SAME: (tensor<?x4xf32>) -> tensor<?x4xf32>
        // CHECK-NEXT: return %0
        """,
        arguments="%x: tensor<?x4xf32>",
        results="tensor<?x4xf32>",
        opset=14,
    )


def test_constant_that_widens_the_shape_is_no_scalar(check_text: Text) -> None:
    check_text(
        """
        %half = "onnx.Constant"() {value = dense<0.5> : tensor<1x1x1xf32>} : () -> tensor<1x1x1xf32>
        %one = "onnx.Constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
        %root = "onnx.Constant"() {value = dense<1.41421354> : tensor<f32>} : () -> tensor<f32>
        %0 = "onnx.Div"(%x, %root) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
        %1 = "onnx.Erf"(%0) : (tensor<4xf32>) -> tensor<4xf32>
        %2 = "onnx.Add"(%1, %one) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
        %3 = "onnx.Mul"(%x, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        %4 = "onnx.Mul"(%3, %half) : (tensor<4xf32>, tensor<1x1x1xf32>) -> tensor<1x1x4xf32>
        return %4 : tensor<1x1x4xf32>
        // CHECK: "onnx.Erf"
        // CHECK: return %{{.*}} : tensor<1x1x4xf32>
        """,
        arguments="%x: tensor<4xf32>",
        results="tensor<1x1x4xf32>",
    )


@pytest.mark.parametrize(
    ("body", "alpha"),
    [
        ("s = Sigmoid (x)  y = Mul (x, s)", 1.0),
        ("s = Sigmoid (x)  y = Mul (s, x)", 1.0),
        ("q = Mul (x, quick)  s = Sigmoid (q)  y = Mul (x, s)", 1.702),
    ],
)
def test_swish(body: str, alpha: float) -> None:
    applied, actual, expected = simplified(model(body), FEEDS)
    assert applied["fuse-swish"] == 1
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(actual, X / (1 + np.exp(-alpha * X)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "a = Add (x, three)  c = Clip (a, zero, six)  m = Mul (x, c)  y = Div (m, six)",
        "a = Add (three, x)  c = Clip (a, zero, six)  k = Div (c, six)  y = Mul (x, k)",
        "h = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x)  y = Mul (h, x)",
    ],
)
def test_hard_swish(check_numbers: Numbers, body: str) -> None:
    applied = check_numbers(model(body, opset=22), FEEDS)
    assert applied.get("fuse-hard-swish", 0) + applied.get("fuse-swish", 0) == 1


@pytest.mark.parametrize(
    "body",
    [
        "a = Add (x, three)  c = Clip (a, zero, three)  m = Mul (x, c)  y = Div (m, six)",
        "h = HardSigmoid (x)  y = Mul (h, x)",
        "s = Sigmoid (g)  y = Mul (x, s)",
    ],
)
def test_what_is_no_gated_activation(check_numbers: Numbers, body: str) -> None:
    applied = check_numbers(model(body, opset=22), FEEDS)
    assert "fuse-hard-swish" not in applied and "fuse-swish" not in applied


def simplify(module: Any, pool: ConstantPool) -> dict[str, int]:
    context = PassContext(CompileOptions(), TargetContribution("none", "no target", Path), {}, constants=pool)
    SimplifyOnnx().apply(module.operation, context)
    assert module.operation.verify()
    report: dict[str, int] = context.reports["simplify-onnx"]
    return report


def evaluate(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    names = {info.name for info in proto.graph.input}
    return list(ReferenceEvaluator(proto).run(None, {k: v for k, v in feeds.items() if k in names}))


def simplified(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> tuple[dict[str, int], np.ndarray, np.ndarray]:
    """Rewrites, the simplified model's output and the original's, for operators that ONNX Runtime does not have."""
    context = ir.Context()
    context.enable_multithreading(False)
    pool = ConstantPool()
    module = import_model(proto, context, pool)
    applied = simplify(module, pool)
    return applied, evaluate(export_model(module, pool), feeds)[0], evaluate(proto, feeds)[0]
