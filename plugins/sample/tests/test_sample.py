"""The plugin by itself, as a vendor would test it: its pass on a few lines of IR, its operators in a small model."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper

import hip_compiler

IR = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %x, %x : tensor<4xf32>
  %1 = arith.mulf %0, %0 : tensor<4xf32>
  %2 = arith.addf %1, %0 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
"""


def command(*arguments: str, stdin: str = "") -> str:
    line = [sys.executable, "-m", "hip_compiler.cli", *arguments]
    return subprocess.run(line, input=stdin, capture_output=True, text=True, check=True).stdout


def test_the_plugin_is_found() -> None:
    assert "sample" in command("plugins")
    assert "sample-count-ops" in command("slots")


def test_operations_are_counted() -> None:
    printed = command("opt", "--pass-pipeline=sample-count-ops{dialect=arith}", "-", stdin=IR)
    assert "sample.op_counts = {arith.addf = 2 : i64, arith.mulf = 1 : i64}" in printed


@pytest.mark.parametrize(("target", "pipeline"), [("host", ""), ("sample-cpu", ""), ("host", "sample-pipeline")])
@pytest.mark.filterwarnings("ignore:.*replaces the built-in pipeline")
def test_its_operators_compute(target: str, pipeline: str) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy")
    nodes = [
        helper.make_node("Cbrt", ["x"], ["a"], domain="com.sample"),
        helper.make_node("Scale", ["a"], ["y"], domain="com.sample", factor=2.5),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.sample", 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets, ir_version=9)
    with hip_compiler.compile(model, target=target, pipeline=pipeline) as session:
        for n in (0, 1, 4000):
            feed = np.linspace(-8, 27, 3 * n, dtype=np.float32).reshape(n, 3)
            np.testing.assert_allclose(session.run({"x": feed})["y"], 2.5 * np.cbrt(feed), rtol=1e-5)
