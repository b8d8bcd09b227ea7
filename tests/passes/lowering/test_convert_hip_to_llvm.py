"""`convert-hip-to-llvm` on text, and runs that fail where they should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.errors import HipCompilerError

PIPELINE = "hip-outline-kernels,convert-hip-to-llvm"
SOFTMAX = """
func.func @main_graph(%ctx: !hip.context, %x: memref<?x64xf32>, %y: memref<?x64xf32>) {
  "hip.softmax"(%x, %y) {axis = 1 : i64} : (memref<?x64xf32>, memref<?x64xf32>) -> () loc("/layer/Softmax")
  return
}"""


def test_call_passes_descriptors_and_checks_its_status(passes: Any, check: Any) -> None:
    check(
        passes(SOFTMAX, PIPELINE).text,
        """
        CHECK-DAG: llvm.func @hipc_softmax(!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64) -> i32
        CHECK-DAG: llvm.mlir.global internal constant @[[PLACE:.*]]("/layer/Softmax (softmax)\\00")
        CHECK: func.func @main_graph(%[[CTX:.*]]: !llvm.ptr, %{{.*}}: memref<?x64xf32>, %{{.*}}) -> i32
        CHECK: "llvm.intr.memcpy"
        CHECK: %[[STATUS:.*]] = llvm.call @hipc_softmax(%[[CTX]],
        CHECK: %[[PLACED:.*]] = llvm.mlir.addressof @[[PLACE]]
        CHECK: llvm.cond_br %{{.*}}, ^[[NEXT:.*]], ^[[FAILED:.*]](%[[STATUS]], %[[PLACED]] : i32, !llvm.ptr)
        CHECK: ^[[NEXT]]:
        CHECK: return
        CHECK: ^[[FAILED]](%[[WHY:.*]]: i32, %[[WHERE:.*]]: !llvm.ptr):
        CHECK: %[[ENDED:.*]] = llvm.call @hipc_fail(%[[CTX]], %[[WHY]], %[[WHERE]])
        CHECK: return %[[ENDED]] : i32
        """,
    )


def test_absent_operand_is_null_and_dtypes_are_believed(passes: Any, check: Any) -> None:
    text = """
    func.func @main_graph(%ctx: !hip.context, %a: memref<4x4xi8>, %b: memref<4x4xi8>, %y: memref<4x4xi8>) {
      "hip.matmul"(%a, %b, %y) {operandSegmentSizes = array<i32: 1, 1, 0, 0, 1>, dtypes = array<i64: 2, 3, 3>}
        : (memref<4x4xi8>, memref<4x4xi8>, memref<4x4xi8>) -> ()
      return
    }"""
    # dtype in the low half, rank in the high half of the second word.
    rows = "\n".join(
        f"CHECK-DAG: dense<[0, {dtype | 2 << 32}, 4, 4, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0, 0, 0]>" for dtype in (2, 3)
    )
    check(passes(text, PIPELINE).text, f"{rows}\nCHECK: llvm.mlir.zero : !llvm.ptr\nCHECK: llvm.call @hipc_matmul")


def test_kernel_takes_bare_pointers(passes: Any, check: Any) -> None:
    text = """
    func.func @main_graph(%ctx: !hip.context, %x: memref<64xf32>, %n: index) {
      %y = memref.alloc() : memref<64xf32>
      linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]}
          ins(%x : memref<64xf32>) outs(%y : memref<64xf32>) {
      ^bb0(%in: f32, %out: f32):
        linalg.yield %in : f32
      }
      return
    }"""
    check(
        passes(text, "hip-outline-kernels,convert-scf-to-cf,convert-hip-to-llvm").text,
        """
        CHECK: llvm.call @hipc_launch(%{{.*}}) : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64) -> ()
        CHECK: llvm.func internal @kernel_0(%{{.*}}: !llvm.ptr {llvm.noalias, llvm.readonly},
        CHECK-SAME: !llvm.ptr {llvm.noalias}, %{{.*}}: i64, %{{.*}}: i64) attributes {no_inline}
        CHECK: llvm.func internal @kernel_0_entry(%[[ARGS:.*]]: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64)
        CHECK: llvm.load %[[ARGS]]
        CHECK: llvm.call @kernel_0(%{{.*}}, %{{.*}}, %[[BEGIN]], %[[END]])
        """,
    )


def test_operation_without_lowering_is_refused(passes: Any) -> None:
    text = """
    func.func @main_graph(%ctx: !hip.context) {
      %c = "hip.constant"() {value = dense<1.0> : tensor<2xf32>} : () -> tensor<2xf32>
      return
    }"""
    with pytest.raises(HipCompilerError, match=r"hip\.constant has no lowering"):
        passes(text, PIPELINE)


CHECKED = """{header} {{
func.func @main_graph(%ctx: !hip.context, %x: memref<?xf32>, %limit: memref<i64>) -> memref<?xf32> {{
  %zero = arith.constant 0 : index
  %n = memref.dim %x, %zero : memref<?xf32>
  %wide = memref.load %limit[] : memref<i64>
  %most = arith.index_cast %wide : i64 to index
  %fits = arith.cmpi sle, %n, %most : index
  "hip.check"(%fits) {{message = "more elements than the limit"}} : (i1) -> () loc("/Check")
  %y = memref.alloc(%n) : memref<?xf32>
  memref.copy %x, %y : memref<?xf32> to memref<?xf32>
  return %y : memref<?xf32>
}}
}}"""


def test_check_fails_the_run(run_text: Any, graph_interface: Any) -> None:
    header = graph_interface({"x": ("f4", ["n"]), "limit": ("i8", [])}, {"y": ("f4", ["n"])})
    text = CHECKED.format(header=header)
    x = np.arange(5, dtype=np.float32)
    found = run_text(text, {"x": x, "limit": np.array(5, np.int64)})
    np.testing.assert_array_equal(found["y"], x)
    with pytest.raises(HipCompilerError) as caught:
        run_text(text, {"x": x, "limit": np.array(4, np.int64)})
    assert "more elements than the limit" in str(caught.value)
    assert "/Check" in str(caught.value)


CALLS = """{header} {{
func.func private @double(%ctx: !hip.context, %x: memref<?xf32>, %again: i1) -> memref<?xf32> {{
  "hip.check"(%again) {{message = "not again"}} : (i1) -> () loc("/Inner")
  %zero = arith.constant 0 : index
  %n = memref.dim %x, %zero : memref<?xf32>
  %y = memref.alloc(%n) : memref<?xf32>
  linalg.generic {{indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]}}
      ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {{
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %in : f32
    linalg.yield %sum : f32
  }}
  return %y : memref<?xf32>
}}
func.func @main_graph(%ctx: !hip.context, %x: memref<?xf32>, %times: memref<i64>) -> memref<?xf32> {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %five = arith.constant 5 : index
  %n = memref.dim %x, %zero : memref<?xf32>
  %wide = memref.load %times[] : memref<i64>
  %count = arith.index_cast %wide : i64 to index
  %many = arith.cmpi sgt, %count, %five : index
  %last = scf.for %i = %zero to %count step %one iter_args(%state = %x) -> (memref<?xf32>) {{
    %again = arith.cmpi slt, %i, %five : index
    %next = func.call @double(%ctx, %state, %again) : (!hip.context, memref<?xf32>, i1) -> memref<?xf32> loc("/Loop")
    scf.yield %next : memref<?xf32>
  }}
  %chosen = scf.if %many -> (memref<?xf32>) {{
    scf.yield %last : memref<?xf32>
  }} else {{
    %copy = memref.alloc(%n) : memref<?xf32>
    memref.copy %last, %copy : memref<?xf32> to memref<?xf32>
    scf.yield %copy : memref<?xf32>
  }}
  return %chosen : memref<?xf32>
}}
}}"""


def test_loops_branches_and_calls(run_text: Any, graph_interface: Any) -> None:
    header = graph_interface({"x": ("f4", ["n"]), "times": ("i8", [])}, {"y": ("f4", ["n"])})
    text = CALLS.format(header=header)
    x = np.arange(1, 1200, dtype=np.float32)
    for times in (0, 1, 4):
        found = run_text(text, {"x": x, "times": np.array(times, np.int64)})
        np.testing.assert_array_equal(found["y"], x * 2**times)
    with pytest.raises(HipCompilerError) as caught:
        run_text(text, {"x": x, "times": np.array(6, np.int64)})
    for word in ("not again", "/Inner", "/Loop"):
        assert word in str(caught.value)
