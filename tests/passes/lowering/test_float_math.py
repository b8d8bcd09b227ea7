"""Elementary functions against float64: units in the last place, and the values IEEE 754 and C give special cases."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from hip_compiler.core.passes.trigonometry import two_over_pi

FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erf": special.erf,
    "sin": np.sin,
    "cos": np.cos,
}
MAPS = 'indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]'


def graph(header: str, names: list[str], kind: str) -> str:
    """One output per function of the one input."""
    lines = [f"{header} {{", f"func.func @main_graph(%ctx: !hip.context, %x: memref<?x{kind}>) -> ("]
    lines.append(", ".join([f"memref<?x{kind}>"] * len(names)) + ") {")
    lines.append(f"%zero = arith.constant 0 : index\n%n = memref.dim %x, %zero : memref<?x{kind}>")
    for name in names:
        lines.append(
            f"%{name} = memref.alloc(%n) : memref<?x{kind}>\n"
            f"linalg.generic {{{MAPS}}} ins(%x : memref<?x{kind}>) outs(%{name} : memref<?x{kind}>) {{\n"
            f"^bb0(%in: {kind}, %out: {kind}):\n"
            f"  %value = math.{name} %in : {kind}\n  linalg.yield %value : {kind}\n}}"
        )
    lines.append(f"return {', '.join(f'%{name}' for name in names)} : ")
    lines.append(", ".join([f"memref<?x{kind}>"] * len(names)) + "\n}\n}")
    return "\n".join(lines)


def arguments() -> np.ndarray:
    generator = np.random.default_rng(1)
    special_values = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-45, 1e-40, 3.4e38, -3.4e38]
    edges = [88.72, 88.73, -87.33, -103.97, -104.1, 127.99, 128.0, -149.0, -150.5, 0.625, 0.921875, 4.0, 1e-8]
    return np.concatenate(
        [
            generator.integers(0, 2**32, 60_000, dtype=np.uint32).view(np.float32),
            generator.normal(size=40_000, scale=3).astype(np.float32),
            generator.uniform(-110, 110, 40_000).astype(np.float32),
            (1 + generator.normal(size=20_000, scale=0.01)).astype(np.float32),
            (np.arange(1, 20_000) * (np.pi / 2)).astype(np.float32),
            np.array(special_values + edges, np.float32),
        ]
    )


def test_functions_of_float(run_text: Any, graph_interface: Any) -> None:
    names = list(FUNCTIONS)
    header = graph_interface({"x": ("f4", ["n"])}, {name: ("f4", ["n"]) for name in names})
    x = arguments()
    found = run_text(graph(header, names, "f32"), {"x": x})
    for name, function in FUNCTIONS.items():
        with np.errstate(all="ignore"):
            exact = function(x.astype(np.float64))
            expected = exact.astype(np.float32)
        y = found[name]
        np.testing.assert_array_equal(np.isnan(y), np.isnan(expected), err_msg=name)
        infinite = np.isinf(expected)
        np.testing.assert_array_equal(y[infinite], expected[infinite], err_msg=name)
        finite = np.isfinite(expected)
        assert finite.sum() > 50_000
        assert np.abs(expected[finite]).max() > 0.9
        ulp = np.abs(np.spacing(expected[finite])).astype(np.float64)
        error = np.abs(y[finite].astype(np.float64) - exact[finite]) / ulp
        worst = int(np.argmax(error))
        assert error[worst] <= 2.5, f"{name}({x[finite][worst]!r}) is off by {error[worst]:.2f} ulp"
        zero = x == 0
        np.testing.assert_array_equal(np.signbit(y[zero]), np.signbit(expected[zero]), err_msg=name)


@pytest.mark.parametrize(("kind", "numpy_kind"), [("f16", "f2"), ("f64", "f8")])
def test_other_widths(run_text: Any, graph_interface: Any, kind: str, numpy_kind: str) -> None:
    names = ["exp", "log", "tanh", "erf", "sin"]
    header = graph_interface({"x": (numpy_kind, ["n"])}, {name: (numpy_kind, ["n"]) for name in names})
    x = np.linspace(0.01, 9, 700).astype(numpy_kind)
    found = run_text(graph(header, names, kind), {"x": x})
    for name in names:
        expected = FUNCTIONS[name](x.astype(np.float64))
        np.testing.assert_allclose(found[name].astype(np.float64), expected, rtol=2 * np.finfo(x.dtype).eps, atol=1e-7)


def test_library_functions(run_text: Any, graph_interface: Any) -> None:
    names = ["tan", "asin", "acos", "atan", "cbrt", "erfc", "sinh", "cosh"]
    header = graph_interface({"x": ("f4", ["n"])}, {name: ("f4", ["n"]) for name in names})
    x = np.linspace(-0.99, 0.99, 301, dtype=np.float32)
    found = run_text(graph(header, names, "f32"), {"x": x})
    references = {"tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "cbrt": np.cbrt}
    references |= {"erfc": special.erfc, "sinh": np.sinh, "cosh": np.cosh}
    for name in names:
        np.testing.assert_allclose(found[name], references[name](x.astype(np.float64)), rtol=1e-6, atol=1e-7)


def test_arithmetic_replaces_functions_in_kernels(passes: Any, check: Any, graph_interface: Any) -> None:
    header = graph_interface({"x": ("f4", ["n"])}, {"exp": ("f4", ["n"]), "tan": ("f4", ["n"])})
    lowered = passes(
        graph(header, ["exp", "tan"], "f32"), "hip-use-output-allocator,hip-outline-kernels,hip-expand-math"
    )
    check(
        lowered.text,
        """
        CHECK: func.func private @tanf(f32) -> f32
        CHECK: func.func private @kernel_0
        CHECK-NOT: math.exp
        CHECK: arith.shli
        CHECK: func.func private @kernel_1
        CHECK: call @tanf
        """,
    )


def test_table_of_two_over_pi() -> None:
    table = two_over_pi().view(np.uint64)
    for exponent in (150, 127, 200, 254):
        turns = 2 / math.pi * 2.0 ** (exponent - 150)
        window = int(table[2 * exponent]) / 2**62
        if turns < 4:
            assert window == pytest.approx(turns, rel=1e-15)
        assert 0 <= window < 4
        assert int(table[2 * exponent + 1]) < 2**32


def test_integer_powers(run_text: Any, graph_interface: Any) -> None:
    header = graph_interface({"x": ("i4", ["n"]), "e": ("i4", ["n"])}, {"y": ("i4", ["n"])})
    text = f"""{header} {{
    func.func @main_graph(%ctx: !hip.context, %x: memref<?xi32>, %e: memref<?xi32>) -> memref<?xi32> {{
      %zero = arith.constant 0 : index
      %n = memref.dim %x, %zero : memref<?xi32>
      %y = memref.alloc(%n) : memref<?xi32>
      linalg.generic {{indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>, affine_map<(d) -> (d)>],
                      iterator_types = ["parallel"]}}
          ins(%x, %e : memref<?xi32>, memref<?xi32>) outs(%y : memref<?xi32>) {{
      ^bb0(%a: i32, %b: i32, %out: i32):
        %power = math.ipowi %a, %b : i32
        linalg.yield %power : i32
      }}
      return %y : memref<?xi32>
    }}
    }}"""
    pairs = [(2, 10), (-3, 3), (7, 0), (0, 0), (5, 1), (1, -4), (-1, -3), (-1, -2), (2, -1), (0, 3), (46340, 2)]
    x, e = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    expected = [1024, -27, 1, 1, 5, 1, -1, 1, 0, 0, 46340**2]
    np.testing.assert_array_equal(run_text(text, {"x": x, "e": e})["y"], np.array(expected, np.int32))
