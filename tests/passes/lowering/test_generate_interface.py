"""`generate-interface` on text, and the checks of a run's inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.errors import HipCompilerError

GRAPH = """{header} {{
func.func @main_graph(%ctx: !hip.context, %x: memref<?x4xf32>, %y: memref<?xf32>) -> memref<?x4xf32> {{
  %zero = arith.constant 0 : index
  %n = memref.dim %x, %zero : memref<?x4xf32>
  %z = memref.alloc(%n) : memref<?x4xf32>
  linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
                                   affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "parallel"]}}
      ins(%x, %y : memref<?x4xf32>, memref<?xf32>) outs(%z : memref<?x4xf32>) {{
  ^bb0(%a: f32, %b: f32, %out: f32):
    %sum = arith.addf %a, %b : f32
    linalg.yield %sum : f32
  }}
  return %z : memref<?x4xf32>
}}
}}"""


def header_of(graph_interface: Any) -> str:
    return graph_interface({"x": ("f4", ["n", 4]), "y": ("f4", ["n"])}, {"z": ("f4", ["n", 4])})


def test_entry_points(passes: Any, check: Any, graph_interface: Any) -> None:
    pipeline = "hip-use-output-allocator,hip-outline-kernels,convert-scf-to-cf,convert-hip-to-llvm,generate-interface"
    check(
        passes(GRAPH.format(header=header_of(graph_interface)), pipeline).text,
        """
        CHECK-DAG: llvm.mlir.global internal constant @[[TABLE:input_specs_.*]]() {
        CHECK-DAG: llvm.mlir.global internal constant @{{.*}}(dense<[-1, 4]> : tensor<2xi64>)
        CHECK-DAG: llvm.mlir.global internal constant @{{.*}}(dense<-1> : tensor<1xi64>)
        CHECK: func.func private @main_graph
        CHECK: func.func @inference_init(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr) -> i32
        CHECK: llvm.call @hipc_init
        CHECK: llvm.call @hipc_name_symbols
        CHECK: func.func @inference_compute(%[[STATE:.*]]: !llvm.ptr, %[[IO:.*]]: !llvm.ptr) -> i32
        CHECK: %[[SPECS:.*]] = llvm.mlir.addressof @[[TABLE]]
        CHECK: llvm.call @hipc_begin(%[[STATE]], %[[IO]], %[[SPECS]]
        CHECK: %[[STATUS:.*]] = {{.*}}call @main_graph(%[[STATE]],
        CHECK: llvm.call @hipc_end(%[[STATE]], %[[STATUS]])
        CHECK: func.func @inference_cleanup
        CHECK: func.func @inference_last_error
        CHECK: func.func @inference_get_metadata_json
        """,
    )


def test_inputs_reach_the_graph(run_text: Any, graph_interface: Any) -> None:
    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([10, 20, 30], np.float32)
    found = run_text(GRAPH.format(header=header_of(graph_interface)), {"x": x, "y": y})
    np.testing.assert_array_equal(found["z"], x + y[:, None])


def test_equal_symbols_must_be_equal(run_text: Any, graph_interface: Any) -> None:
    x, y = np.zeros((3, 4), np.float32), np.zeros(2, np.float32)
    with pytest.raises(HipCompilerError, match="fit"):
        run_text(GRAPH.format(header=header_of(graph_interface)), {"x": x, "y": y})


def test_interface_must_fit_the_graph(passes: Any, graph_interface: Any) -> None:
    header = graph_interface({"x": ("f4", ["n", 5]), "y": ("f4", ["n"])}, {"z": ("f4", ["n", 4])})
    with pytest.raises(HipCompilerError, match="input 'x' is memref"):
        passes(
            GRAPH.format(header=header),
            "hip-use-output-allocator,hip-outline-kernels,convert-scf-to-cf,convert-hip-to-llvm,generate-interface",
        )


def test_module_without_a_graph_is_refused(passes: Any) -> None:
    with pytest.raises(HipCompilerError, match="no graph"):
        passes("func.func @other() { return }", "generate-interface")
