"""`hip-use-output-allocator` on text, and with copies that must be made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.errors import HipCompilerError

SOFTMAX = '"hip.softmax"(%x, %a) {axis = 1 : i64} : (memref<?x64xf32>, memref<?x64xf32>) -> ()'


def graph(header: str, body: str, returned: str, types: str) -> str:
    return f"""{header} {{
    func.func @main_graph(%ctx: !hip.context, %x: memref<?x64xf32>) -> ({types}) {{
      %zero = arith.constant 0 : index
      %n = memref.dim %x, %zero : memref<?x64xf32>
      {body}
      return {returned} : {types}
    }}
    }}"""


def test_returned_buffer_is_the_output(passes: Any, check: Any, graph_interface: Any) -> None:
    header = graph_interface({"x": ("f4", ["n", 64])}, {"y": ("f4", ["n", 64])})
    text = graph(header, f"%a = memref.alloc(%n) : memref<?x64xf32>\n{SOFTMAX}", "%a", "memref<?x64xf32>")
    check(
        passes(text, "hip-use-output-allocator").text,
        """
        CHECK: func.func @main_graph(%arg0: !hip.context, %[[X:.*]]: memref<?x64xf32>) {
        CHECK: %[[Y:.*]] = "hip.alloc_output"(%{{.*}}) {dtype = 1 : i64, index = 0 : i64}
        CHECK: "hip.softmax"(%[[X]], %[[Y]])
        CHECK-NOT: memref.copy
        CHECK: return
        """,
    )


def test_view_of_the_whole_buffer_is_the_output(passes: Any, check: Any, graph_interface: Any) -> None:
    header = graph_interface({"x": ("f4", ["n", 64])}, {"y": ("f4", ["n", 8, 8])})
    body = f"""%a = memref.alloc(%n) : memref<?x64xf32>
      {SOFTMAX}
      %y = memref.expand_shape %a [[0], [1, 2]] output_shape [%n, 8, 8] : memref<?x64xf32> into memref<?x8x8xf32>"""
    check(
        passes(graph(header, body, "%y", "memref<?x8x8xf32>"), "hip-use-output-allocator").text,
        """
        CHECK: %[[Y:.*]] = "hip.alloc_output"{{.*}} -> memref<?x8x8xf32>
        CHECK: %[[A:.*]] = memref.reinterpret_cast %[[Y]] {{.*}} to memref<?x64xf32>
        CHECK: "hip.softmax"(%{{.*}}, %[[A]])
        CHECK-NOT: memref.copy
        """,
    )


def test_what_cannot_be_the_output_is_copied(run_text: Any, graph_interface: Any) -> None:
    shape = ["n", 64]
    outputs = {"twice": shape, "again": shape, "input": shape, "constant": [64], "part": ["n", 8]}
    header = graph_interface({"x": ("f4", shape)}, {name: ("f4", shape) for name, shape in outputs.items()})
    body = f"""%a = memref.alloc(%n) : memref<?x64xf32>
      {SOFTMAX}
      %c = "hip.get_constant"() {{offset = 0 : i64}} : () -> memref<64xf32>
      %part = memref.subview %a[0, 3] [%n, 8] [1, 2] : memref<?x64xf32> to memref<?x8xf32, strided<[64, 2], offset: 3>>
      %dense = memref.alloc(%n) : memref<?x8xf32>
      memref.copy %part, %dense : memref<?x8xf32, strided<[64, 2], offset: 3>> to memref<?x8xf32>"""
    types = "memref<?x64xf32>, memref<?x64xf32>, memref<?x64xf32>, memref<64xf32>, memref<?x8xf32>"
    x = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
    constant = np.arange(64, dtype=np.float32)
    found = run_text(graph(header, body, "%a, %a, %x, %c, %dense", types), {"x": x}, [constant])
    powers = np.exp(x.astype(np.float64))
    softmax = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(found["twice"], softmax, rtol=1e-5)
    np.testing.assert_array_equal(found["again"], found["twice"])
    np.testing.assert_array_equal(found["input"], x)
    np.testing.assert_array_equal(found["constant"], constant)
    np.testing.assert_array_equal(found["part"], found["twice"][:, 3:19:2])


def test_interface_that_does_not_fit_is_refused(passes: Any, graph_interface: Any) -> None:
    header = graph_interface({"x": ("f4", ["n", 64])}, {})
    with pytest.raises(HipCompilerError, match=r"returns 1 values, hip\.interface names 0 outputs"):
        passes(graph(header, "", "%x", "memref<?x64xf32>"), "hip-use-output-allocator")
