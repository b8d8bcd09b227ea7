"""Each slot is where it says: a plugin looks at the IR at all seven while a model is compiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hip_compiler.slots import PipelineSlot
from tests.plugins.conftest import Distribution, Install

WATCHER = """
import json
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Watch:
    slot: str = ""

    def apply(self, op, context):
        from hip_compiler.core.mlir import ir

        names, types, functions = Counter(), set(), []

        def visit(operation):
            names[operation.name] += 1
            types.update(str(value.type).split("<")[0] for value in [*operation.operands, *operation.results])
            if operation.name in ("func.func", "llvm.func"):
                functions.append(operation.attributes["sym_name"].value)
            return ir.WalkResult.ADVANCE

        op.walk(visit)
        # The context is the first argument of every function with a body from slot 1 on.
        text = str(op)
        with open(os.environ["IMPORT_LOG"] + ".json", "a") as file:
            entry = {"slot": self.slot, "ops": names, "types": sorted(types), "functions": functions}
            entry["context"] = "%arg0: !hip.context" in text
            file.write(json.dumps(entry) + "\\n")


@hookimpl
def hip_compiler_passes():
    return [PassContribution("watch", Watch, "")]


@hookimpl
def hip_compiler_slot_requests():
    return [SlotRequest(slot, f"watch{{slot={slot}}}") for slot in PipelineSlot]
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


@pytest.fixture(scope="module")
def seen(install: Install) -> dict[str, Any]:
    site = install(Distribution("watcher", WATCHER))
    done = site.run("-c", COMPILE)
    assert done.returncode == 0, done.stderr
    lines = Path(site.scratch, "imports.json").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    assert [entry["slot"] for entry in entries] == list(PipelineSlot)
    return {entry["slot"]: entry for entry in entries}


def ops(entry: Any, dialect: str) -> set[str]:
    return {name for name in entry["ops"] if name.startswith(f"{dialect}.")}


def test_after_simplify_onnx(seen: dict[str, Any]) -> None:
    entry = seen[PipelineSlot.AFTER_SIMPLIFY_ONNX]
    assert ops(entry, "onnx") >= {"onnx.MatMul", "onnx.Exp", "onnx.Softmax"}
    assert not ops(entry, "hip") and not entry["context"]


def test_after_onnx_loop_outline(seen: dict[str, Any]) -> None:
    entry = seen[PipelineSlot.AFTER_ONNX_LOOP_OUTLINE]
    assert ops(entry, "onnx") >= {"onnx.MatMul", "onnx.Exp", "onnx.Softmax"}
    assert not ops(entry, "hip") and entry["context"]


def test_after_convert_onnx_to_hip(seen: dict[str, Any]) -> None:
    entry = seen[PipelineSlot.AFTER_CONVERT_ONNX_TO_HIP]
    assert not ops(entry, "onnx")
    assert ops(entry, "hip") >= {"hip.matmul", "hip.softmax", "hip.constant"}
    assert ops(entry, "linalg") and "tensor" in entry["types"] and "memref" not in entry["types"]


def test_before_bufferization(seen: dict[str, Any]) -> None:
    entry = seen[PipelineSlot.BEFORE_BUFFERIZATION]
    assert ops(entry, "hip") >= {"hip.matmul", "hip.softmax"}
    assert "hip.constant" not in entry["ops"]
    assert "tensor" in entry["types"]


def test_after_pool_allocs(seen: dict[str, Any]) -> None:
    entry = seen[PipelineSlot.AFTER_POOL_ALLOCS]
    assert "tensor" not in entry["types"] and "memref" in entry["types"]
    assert ops(entry, "hip") >= {"hip.matmul", "hip.softmax", "hip.get_pool", "hip.alloc_output"}
    assert "memref.alloc" not in entry["ops"]


def test_before_convert_hip_to_llvm(seen: dict[str, Any]) -> None:
    entry = seen[PipelineSlot.BEFORE_CONVERT_HIP_TO_LLVM]
    assert ops(entry, "hip") >= {"hip.matmul", "hip.softmax"}
    assert not ops(entry, "linalg") and not ops(entry, "llvm")


def test_after_generate_interface(seen: dict[str, Any]) -> None:
    entry = seen[PipelineSlot.AFTER_GENERATE_INTERFACE]
    assert "inference_compute" in entry["functions"] and "inference_init" in entry["functions"]
    assert {name.split(".")[0] for name in entry["ops"]} == {"builtin", "llvm"}
