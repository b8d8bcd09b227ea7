"""Model-local functions are inlined: attributes bound, names kept apart, versions kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.frontend import export_model, import_model
from hip_compiler.core.frontend import functions as functions_module
from hip_compiler.errors import ErrorCode, HipCompilerError

HEADER = '<ir_version: 9, opset_import: ["" : 18, "local" : 1]>'


def inlined(context: Any, text: str, expected: np.ndarray) -> str:
    """The inlined model of an input `X` computes what is expected; returns the module's text."""
    pool = ConstantPool()
    module = import_model(onnx.parser.parse_model(HEADER + text), context, pool)
    assert module.operation.verify()
    (actual,) = ReferenceEvaluator(export_model(module, pool)).run(None, {"x": X})
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-6)
    return str(module)


X = np.array([[-2.0, 0.5, 3.0]], np.float32)
H = -np.where(X < 0, X * 0.25, X)


def test_nested_functions_and_bound_attributes(context: Any) -> None:
    text = inlined(
        context,
        """
        net (float[1, 3] x) => (float[1, 3] y) {
            [first] h = local.outer <slope = 0.25> (x)
            [second] y = local.outer (h)
        }
        <domain: "local", opset_import: ["" : 18, "local" : 1]>
        outer <slope: float = 0.5> (a) => (c) {
            b = local.inner <alpha: float = @slope> (a)
            c = Neg (b)
        }
        <domain: "local", opset_import: ["" : 18]>
        inner <alpha> (a) => (b) { b = LeakyRelu <alpha: float = @alpha> (a) }
        """,
        -np.where(H < 0, H * 0.5, H),
    )
    assert "alpha = 2.500000e-01" in text and "alpha = 5.000000e-01" in text
    assert "outer" not in text and text.count("onnx.Neg") == 2


def test_attribute_that_is_not_given_is_left_out(context: Any) -> None:
    text = inlined(
        context,
        """
        net (float[1, 3] x) => (float[1, 3] y) { y = local.f (x) }
        <domain: "local", opset_import: ["" : 18]>
        f <alpha> (a) => (b) { b = LeakyRelu <alpha: float = @alpha> (a) }
        """,
        np.where(X < 0, X * 0.01, X),
    )
    assert "alpha" not in text


def test_subgraphs_in_functions_and_calls_in_subgraphs(context: Any) -> None:
    inlined(
        context,
        """
        net (float[1, 3] x) => (float[1, 3] y) {
            zero = Constant <value = float {0.0}> ()
            sum = ReduceSum <keepdims = 0> (x)
            c = Less (zero, sum)
            y = If (c) <
                then_branch = t () => (float[1, 3] a) { a = local.f (x) },
                else_branch = e () => (float[1, 3] b) { b = Identity (x) }>
        }
        <domain: "local", opset_import: ["" : 18]>
        f (x) => (y) {
            n = Constant <value = int64 {3}> ()
            true = Constant <value = bool {1}> ()
            y = Loop (n, true, x) <body = g (int64 i, bool c, float[1, 3] h) => (bool d, float[1, 3] z) {
                d = Identity (c)
                z = Add (h, x)
            }>
        }
        """,
        4 * X,
    )


def test_output_that_is_an_input_and_outputs_that_nobody_asks_for(context: Any) -> None:
    text = inlined(
        context,
        """
        net (float[1, 3] x) => (float[1, 3] y) {
            h, unused = local.f (x)
            same = local.g (h)
            y = Abs (same)
        }
        <domain: "local", opset_import: ["" : 18]>
        f (a) => (b, c) { b = Neg (a)  c = Abs (a) }
        <domain: "local", opset_import: ["" : 18]>
        g (a) => (a) { }
        """,
        np.abs(X),
    )
    assert "onnx.Identity" in text


def test_function_of_another_operator_set_version(context: Any) -> None:
    text = inlined(
        context,
        """
        net (float[1, 3] x) => (float[3] y) { h = local.f (x)  y = Abs (h) }
        <domain: "local", opset_import: ["" : 12]>
        f (a) => (b) { b = Squeeze <axes = [0]> (a) }
        """,
        np.abs(X[0]),
    )
    assert '"onnx.Squeeze"(%arg0) {axes = array<i64: 0>, hip.opset = 12 : i64}' in text
    assert text.count("hip.opset") == 1


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("f (a) => (b) { b = local.f (a) }", "calls itself"),
        ("f () => (b) { b = Constant <value_float = 1.0> () }", "the call has 1 inputs"),
    ],
)
def test_calls_that_are_refused(context: Any, body: str, words: str) -> None:
    text = f"""{HEADER}
        net (float[1, 3] x) => (float[1, 3] y) {{ y = local.f (x) }}
        <domain: "local", opset_import: ["" : 18, "local" : 1]>
        {body}"""
    with pytest.raises(HipCompilerError) as caught:
        import_model(onnx.parser.parse_model(text), context, ConstantPool())
    assert caught.value.code == ErrorCode.MODEL_INVALID and words in caught.value.what


def test_exponential_nesting_is_refused(
    context: Any, imported: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions_module, "INLINED_NODES", 100)
    levels = "".join(
        f'<domain: "local", opset_import: ["" : 18, "local" : 1]> f{n} (a) => (c) '
        f"{{ b = local.f{n + 1} (a)  c = local.f{n + 1} (b) }}\n"
        for n in range(8)
    )
    leaf = '<domain: "local", opset_import: ["" : 18]> f8 (a) => (b) { b = Neg (a) }'
    with pytest.raises(HipCompilerError, match="expand to more than 100 nodes"):
        imported(f"{HEADER} net (float[1, 3] x) => (float[1, 3] y) {{ y = local.f0 (x) }}\n{levels}{leaf}")
