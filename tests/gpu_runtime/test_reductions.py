"""Generated reductions on emulated GPUs: long ones are shared by lanes, of waves of either width."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper as helper
import pytest

import hip_compiler
from hip_compiler.runtime.native import FOLDER
from tests.fake_hip import FakeHip
from tests.gpu_runtime.test_models import model

pytestmark = pytest.mark.skipif(
    not (FOLDER / "kernels.pack").is_file(), reason="kernels.pack is not built: python kernels/build.py"
)
OPERATORS = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd")
TYPES: dict[int, float] = {
    onnx.TensorProto.FLOAT: 1e-5,
    onnx.TensorProto.FLOAT16: 4e-3,
    onnx.TensorProto.DOUBLE: 1e-12,
    onnx.TensorProto.INT64: 0.0,
    onnx.TensorProto.INT32: 0.0,
}


def reductions(kind: int, axes: list[int]) -> onnx.ModelProto:
    """Every reduction of x [n, 37, 80] over some axes."""
    operators = [name for name in OPERATORS if kind != onnx.TensorProto.INT64 or name != "ReduceMean"]
    nodes = [helper.make_node(name, ["x", "axes"], [name], keepdims=0) for name in operators]
    shape = [size for axis, size in enumerate(["n", 37, 80]) if axis not in axes]
    return model(nodes, {"x": (kind, ["n", 37, 80])}, dict.fromkeys(operators, (kind, shape)), axes=np.array(axes))


def draw(kind: int, count: int) -> Any:
    """Numbers near one, so that products stay finite."""
    rng = np.random.default_rng(count)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    if np.dtype(dtype).kind == "i":
        return rng.integers(-9, 9, (count, 37, 80)).astype(dtype)
    return (1 + 0.003 * rng.standard_normal((count, 37, 80))).astype(dtype)


@pytest.mark.parametrize(
    ("architecture", "axes", "kind"),
    [
        *(("gfx1151", [2], kind) for kind in TYPES),
        *(("gfx1151", axes, onnx.TensorProto.FLOAT) for axes in ([1, 2], [0, 1, 2], [1], [0])),
        *(
            ("gfx942", [2], kind)
            for kind in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
        ),
        ("gfx942", [0, 1, 2], onnx.TensorProto.INT64),
    ],
)
def test_reductions(make_hip: Callable[..., FakeHip], architecture: str, axes: list[int], kind: int) -> None:
    make_hip(architecture, load=None)
    built = reductions(kind, axes)
    with hip_compiler.compile(built) as host, hip_compiler.compile(built, "amdgpu", arch=(architecture,)) as gpu:
        for count in (1, 3):
            x = draw(kind, count)
            expected, actual = host.run({"x": x}), gpu.run({"x": x})
            for name, value in expected.items():
                np.testing.assert_allclose(actual[name], value, rtol=TYPES[kind], atol=0, err_msg=name)


def test_an_infinity_and_a_nan_stay(make_hip: Callable[..., FakeHip]) -> None:
    make_hip("gfx1151", load=None)
    built = reductions(onnx.TensorProto.FLOAT, [2])
    x = draw(onnx.TensorProto.FLOAT, 2)
    x[0, 0, 79], x[0, 1, 33], x[1, 2, 5] = np.nan, np.inf, -np.inf
    with hip_compiler.compile(built) as host, hip_compiler.compile(built, "amdgpu", arch=("gfx1151",)) as gpu:
        expected, actual = host.run({"x": x}), gpu.run({"x": x})
        for name, value in expected.items():
            np.testing.assert_allclose(actual[name], value, rtol=1e-5, err_msg=name)


def test_no_reduction_of_nothing_goes_wrong(make_hip: Callable[..., FakeHip]) -> None:
    make_hip("gfx1151", load=None)
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)]
    kind = onnx.TensorProto.FLOAT
    built = model(nodes, {"x": (kind, ["n", "m"])}, {"y": (kind, ["n"])}, axes=np.array([1]))
    with hip_compiler.compile(built, "amdgpu", arch=("gfx1151",)) as gpu:
        for shape in ((3, 0), (0, 5), (2, 1), (2, 33)):
            np.testing.assert_allclose(gpu.run({"x": np.ones(shape, np.float32)})["y"], np.full(shape[0], shape[1]))


def test_ptx_exchanges_lanes(tmp_path: Path) -> None:
    """What the NVIDIA platform runs: whole warps exchange their totals, without calls."""
    onnx.save(reductions(onnx.TensorProto.FLOAT, [2]), tmp_path / "model.onnx")
    command = [sys.executable, "-m", "hip_compiler", "compile", "model.onnx", "--target", "amdgpu", "--arch", "sm_90"]
    environment = {**os.environ, "HIP_PLATFORM": "nvidia", "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([*command, "-o", "out"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    (generated,) = (tmp_path / "out").glob("device/*.generated")
    text = generated.read_text(errors="replace")
    # A sum and a mean are one kernel.
    assert text.count("shfl.sync.bfly.b32") == 5 * (len(OPERATORS) - 1)
    assert "call.uni" not in text
