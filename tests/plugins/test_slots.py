"""Each slot is where it says: a plugin dumps the IR at all seven while a model is compiled, and FileCheck reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from filecheck.matcher import Matcher
from filecheck.options import Options

from hip_compiler.slots import PipelineSlot
from tests.plugins.conftest import Distribution, Install

DUMPER = """
from dataclasses import dataclass


@dataclass(frozen=True)
class Dump:
    slot: str = ""

    def apply(self, op, context):
        with open(f"{os.environ['IMPORT_LOG']}.{self.slot}.mlir", "x") as file:
            file.write(str(op))
        with open(f"{os.environ['IMPORT_LOG']}.order", "a") as file:
            file.write(f"{self.slot}\\n")


@hookimpl
def hip_compiler_passes():
    return [PassContribution("dump", Dump, "")]


@hookimpl
def hip_compiler_slot_requests():
    return [SlotRequest(slot, f"dump{{slot={slot}}}") for slot in PipelineSlot]
"""
COMPILE = """
import numpy as np
from onnx import TensorProto, helper
from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.dialects.load import make_context
from hip_compiler.core.frontend import import_model
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.pipeline import plan_compile, run_plan
from hip_compiler.registry.registry import load_registry

x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 32]) for name in "xy")
w = helper.make_tensor("w", TensorProto.FLOAT, [32, 32], np.ones(1024, np.float32))
nodes = [
    helper.make_node("MatMul", ["x", "w"], ["a"], name="/matmul"),
    helper.make_node("Exp", ["a"], ["b"], name="/exp"),
    helper.make_node("Softmax", ["b"], ["y"], name="/softmax", axis=-1),
]
model = helper.make_model(
    helper.make_graph(nodes, "g", [x], [y], [w]), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
)
registry, options, pool = load_registry(), CompileOptions(), ConstantPool()
context = make_context(registry)
module = import_model(model, context, pool)
passes = PassContext(options, registry.targets["host"], dict(registry.ops), constants=pool)
run_plan(plan_compile(registry, options, context), module, passes, registry)
"""


CHECKS = {
    PipelineSlot.AFTER_SIMPLIFY_ONNX: """
CHECK-NOT: !hip.context
CHECK-NOT: "hip.
CHECK: func.func @main_graph(%arg0: tensor<?x32xf32>
CHECK: "onnx.MatMul"
CHECK: "onnx.Exp"
CHECK: "onnx.Softmax"
CHECK-NOT: "hip.
CHECK-NOT: linalg.
CHECK-NOT: memref
""",
    PipelineSlot.AFTER_ONNX_LOOP_OUTLINE: """
CHECK-NOT: "hip.
CHECK: func.func @main_graph(%arg0: !hip.context, %arg1: tensor<?x32xf32>
CHECK: "onnx.MatMul"
CHECK: "onnx.Exp"
CHECK: "onnx.Softmax"
CHECK-NOT: "hip.
CHECK-NOT: linalg.
CHECK-NOT: memref
""",
    PipelineSlot.AFTER_CONVERT_ONNX_TO_HIP: """
CHECK-NOT: "onnx.
CHECK-NOT: memref
CHECK: func.func @main_graph(%arg0: !hip.context, %arg1: tensor<?x32xf32>
CHECK: "hip.constant"()
CHECK: "hip.matmul"
CHECK: linalg.generic
CHECK: "hip.softmax"
CHECK-NOT: "onnx.
CHECK-NOT: memref
""",
    PipelineSlot.BEFORE_BUFFERIZATION: """
CHECK-NOT: "onnx.
CHECK-NOT: hip.constant
CHECK-NOT: memref
CHECK: func.func @main_graph(%arg0: !hip.context, %arg1: tensor<?x32xf32>
CHECK: "hip.get_constant"() {{.*}} -> tensor<
CHECK: "hip.matmul"{{.*}}tensor<
CHECK: "hip.softmax"{{.*}}tensor<
CHECK-NOT: hip.constant
CHECK-NOT: memref
""",
    PipelineSlot.AFTER_POOL_ALLOCS: """
CHECK-NOT: tensor
CHECK-NOT: memref.alloc
CHECK: func.func @main_graph(%arg0: !hip.context, %arg1: memref<?x32xf32>
CHECK-DAG: "hip.get_pool"
CHECK-DAG: "hip.alloc_output"
CHECK-DAG: "hip.matmul"{{.*}}memref<
CHECK-DAG: linalg.generic
CHECK-DAG: "hip.softmax"{{.*}}memref<
CHECK-NOT: tensor
CHECK-NOT: memref.alloc
""",
    PipelineSlot.BEFORE_CONVERT_HIP_TO_LLVM: """
CHECK-NOT: tensor
CHECK-NOT: linalg.
CHECK-NOT: llvm.func
CHECK-NOT: !llvm
CHECK: func.func @main_graph(%arg0: !hip.context, %arg1: memref<?x32xf32>
CHECK: "hip.matmul"
CHECK: "hip.launch"
CHECK: "hip.softmax"
CHECK-NOT: tensor
CHECK-NOT: linalg.
CHECK-NOT: llvm.func
CHECK-NOT: !llvm
""",
    PipelineSlot.AFTER_GENERATE_INTERFACE: """
CHECK-NOT: "hip.
CHECK-NOT: func.func
CHECK-NOT: memref
CHECK-DAG: llvm.call @hipc_matmul
CHECK-DAG: llvm.call @hipc_softmax
CHECK-DAG: llvm.func @inference_init
CHECK-DAG: llvm.func @inference_compute
CHECK-NOT: "hip.
CHECK-NOT: builtin.unrealized_conversion_cast
""",
}


@pytest.fixture(scope="module")
def dumps(install: Install) -> dict[str, Path]:
    site = install(Distribution("dumper", DUMPER))
    done = site.run("-c", COMPILE)
    assert done.returncode == 0, done.stderr
    assert (site.scratch / "imports.order").read_text().split() == list(PipelineSlot)
    return {slot: site.scratch / f"imports.{slot}.mlir" for slot in PipelineSlot}


@pytest.mark.parametrize("slot", PipelineSlot)
def test_what_a_slot_sees(dumps: dict[str, Path], slot: PipelineSlot, tmp_path: Path) -> None:
    checks = tmp_path / "checks"
    checks.write_text(CHECKS[slot])
    options = Options(match_filename=str(checks), input_file=str(dumps[slot]))
    assert Matcher.from_opts(options).run() == 0, dumps[slot].read_text()
