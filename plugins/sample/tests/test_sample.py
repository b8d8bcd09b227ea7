"""The plugin by itself: its pass on a few lines of IR, as a vendor would test it."""

from __future__ import annotations

import subprocess
import sys

IR = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %x, %x : tensor<4xf32>
  %1 = arith.mulf %0, %0 : tensor<4xf32>
  %2 = arith.addf %1, %0 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
"""


def hip_compiler(*arguments: str, stdin: str = "") -> str:
    command = [sys.executable, "-m", "hip_compiler.cli", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout


def test_the_plugin_is_found() -> None:
    assert "sample" in hip_compiler("plugins")
    assert "sample-count-hip-ops" in hip_compiler("slots")


def test_operations_are_counted() -> None:
    printed = hip_compiler("opt", "--pass-pipeline=sample-count-hip-ops{dialect=arith}", "-", stdin=IR)
    assert "sample.op_counts = {arith.addf = 2 : i64, arith.mulf = 1 : i64}" in printed
