"""Whole models, compiled for GPUs, over the fake HIP and emulated GPUs, against the host target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper as helper
import onnx.numpy_helper as numpy_helper
import pytest

import hip_compiler
from hip_compiler.core.targets import gpu_target
from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime import DeviceArray, Session
from hip_compiler.runtime.native import FOLDER
from tests.fake_hip import FakeHip

pytestmark = pytest.mark.skipif(
    not (FOLDER / "kernels.pack").is_file(), reason="kernels.pack is not built: python kernels/build.py"
)


def model(nodes: list[Any], inputs: Mapping[str, Any], outputs: Mapping[str, Any], **constants: Any) -> onnx.ModelProto:
    """A graph over float inputs; `inputs` and `outputs` give (element type, shape)."""
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


FLOAT, HALF = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16


def mlp(kind: int = FLOAT) -> onnx.ModelProto:
    """tanh(relu(x w1 + b1) w2), rows unknown."""
    rng = np.random.default_rng(0)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Add", ["a", "b1"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "w2"], ["d"]),
        helper.make_node("Tanh", ["d"], ["y"]),
    ]
    weights = {"w1": rng.standard_normal((6, 9)), "b1": rng.standard_normal(9), "w2": rng.standard_normal((9, 4))}
    constants = {name: value.astype(dtype) for name, value in weights.items()}
    return model(nodes, {"x": (kind, ["n", 6])}, {"y": (kind, ["n", 4])}, **constants)


@pytest.fixture
def emulated(make_hip: Callable[..., FakeHip]) -> FakeHip:
    """A gfx1151 that executes machine code."""
    return make_hip(load=None)


def rows(count: int, columns: int = 6, dtype: Any = np.float32, seed: int = 1) -> np.ndarray:
    return np.random.default_rng([seed, count]).standard_normal((count, columns)).astype(dtype)


@pytest.mark.parametrize(("kind", "tolerance"), [(FLOAT, 1e-5), (HALF, 8e-3)])
def test_a_perceptron(emulated: FakeHip, kind: int, tolerance: float) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    built = mlp(kind)
    with (
        hip_compiler.compile(built) as host,
        hip_compiler.compile(built, "amdgpu", arch=("gfx1151",), graph_capture=True) as gpu,
    ):
        for count in (70, 3, 1, 3, 3):
            x = rows(count, dtype=dtype, seed=count)
            expected = host.run({"x": x})["y"]
            assert np.abs(expected.astype(np.float32)).max() > 0.1
            np.testing.assert_allclose(gpu.run({"x": x})["y"], expected, rtol=tolerance, atol=tolerance)
    # Its three runs of 3 rows are one first run, and two of a graph.
    assert emulated.calls.count("hipGraphLaunch") == 2


def cnn() -> onnx.ModelProto:
    """Two convolutions with pooling, a classifier, softmax; images unknown in number."""
    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "w2", "b2"], ["d"], pads=[1, 1, 1, 1], group=2),
        helper.make_node("Add", ["d", "c"], ["e"]),
        helper.make_node("GlobalAveragePool", ["e"], ["f"]),
        helper.make_node("Flatten", ["f"], ["g"]),
        helper.make_node("Gemm", ["g", "w3", "b3"], ["h"], transB=1),
        helper.make_node("Softmax", ["h"], ["y"], axis=-1),
    ]
    shapes = {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 4, 3, 3), "b2": (8,), "w3": (5, 8), "b3": (5,)}
    constants = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return model(nodes, {"x": (FLOAT, ["n", 3, 8, 8])}, {"y": (FLOAT, ["n", 5])}, **constants)


def test_a_convolutional_network(emulated: FakeHip) -> None:
    with hip_compiler.compile(cnn()) as host, hip_compiler.compile(cnn(), "amdgpu", arch=("gfx1151",)) as gpu:
        for count in (1, 2):
            x = np.random.default_rng(count).standard_normal((count, 3, 8, 8)).astype(np.float32)
            expected = host.run({"x": x})["y"]
            assert expected.max() > 0.3
            np.testing.assert_allclose(gpu.run({"x": x})["y"], expected, rtol=1e-4, atol=1e-6)
    assert any(name.startswith("conv") for name in emulated.launched())


def test_a_chain_of_elementwise_operations_is_one_launch(emulated: FakeHip) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["a"]),
        helper.make_node("Add", ["a", "row"], ["b"]),
        helper.make_node("Sigmoid", ["b"], ["c"]),
        helper.make_node("Sub", ["c", "x"], ["d"]),
        helper.make_node("Exp", ["d"], ["y"]),
    ]
    constants = {"scale": np.float32(1.5), "row": np.arange(6, dtype=np.float32)}
    built = model(nodes, {"x": (FLOAT, ["n", 6])}, {"y": (FLOAT, ["n", 6])}, **constants)
    with hip_compiler.compile(built) as host, hip_compiler.compile(built, "amdgpu", arch=("gfx1151",)) as gpu:
        for count in (1, 50):
            x = rows(count)
            np.testing.assert_allclose(gpu.run({"x": x})["y"], host.run({"x": x})["y"], rtol=1e-5)
    assert len(emulated.launches) == 2


def test_one_artifact_for_two_architectures(make_hip: Callable[..., FakeHip], tmp_path: Path) -> None:
    hip = make_hip("gfx1151", "gfx942:sramecc+:xnack-", "gfx1030", load=None)
    path = tmp_path / "m.hipc"
    built = mlp()
    x = rows(5)
    with hip_compiler.compile(built) as host:
        expected = host.run({"x": x})["y"]
    hip_compiler.compile(built, "amdgpu", arch=("gfx1151", "gfx942"), output=path).close()
    with hip_compiler.load(path, device=0) as first, hip_compiler.load(path, device=1) as second:
        for session in (first, second, first):
            np.testing.assert_allclose(session.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-5)
    assert {entry[0] for entry in hip.launches} == {0, 1}
    with pytest.raises(HipCompilerError) as caught:
        hip_compiler.load(path, device=2)
    assert caught.value.what == (
        "the device is gfx1030; the artifact has code for gfx1151, gfx942: compile the model again with --arch gfx1030"
    )


def test_a_machine_without_hip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HIPC_HIP_LIBRARY", raising=False)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    with pytest.raises(HipCompilerError, match=r"the HIP runtime is not found: libamdhip64\.so\.7"):
        hip_compiler.compile(mlp(), "amdgpu", arch=("gfx1151",), output=tmp_path / "m.hipc")
    # The artifact is whole: compiling needs no GPU.
    assert (tmp_path / "m.hipc" / "device" / "gfx1151.library").is_file()


def device_array(hip: FakeHip, array: np.ndarray) -> DeviceArray:
    address = hip.take(array.nbytes, 0)
    hip.memories[0].view(address, array.nbytes, "the test")[:] = np.frombuffer(array.tobytes(), np.uint8)
    return DeviceArray(address, array.shape, array.dtype, (10, 0))


def on_host(hip: FakeHip, array: DeviceArray) -> np.ndarray:
    view = hip.memories[0].view(array.address, array.nbytes, "the test")
    return view.view(array.dtype).reshape(array.shape).copy()


def test_inputs_and_outputs_that_stay_on_the_device(emulated: FakeHip) -> None:
    x = device_array(emulated, rows(8))
    y = device_array(emulated, np.zeros((8, 4), np.float32))
    stream = emulated.new(type(emulated.default_streams[0])(0))
    built = mlp()
    with (
        hip_compiler.compile(built) as host,
        hip_compiler.compile(built, "amdgpu", arch=("gfx1151",), graph_capture=True) as gpu,
    ):
        bound = gpu.bind_device({"x": x}, {"y": y}, stream)
        for number in range(3):
            values = rows(8, seed=number)
            emulated.memories[0].view(x.address, x.nbytes, "the test").view(np.float32)[:] = values.ravel()
            result = bound.run()["y"]
            emulated.hipStreamSynchronize(stream)
            assert result.address == y.address
            np.testing.assert_allclose(on_host(emulated, result), host.run({"x": values})["y"], rtol=1e-5, atol=1e-6)
        assert emulated.calls.count("hipGraphLaunch") == 2
        # Fewer rows in the same memory.
        bound.resize("x", x.reshaped((3, 6)))
        result = bound.run()["y"]
        emulated.hipStreamSynchronize(stream)
        assert result.shape == (3, 4)
        np.testing.assert_allclose(on_host(emulated, result), host.run({"x": values[:3]})["y"], rtol=1e-5, atol=1e-6)
        _refusals(gpu, bound, emulated, x, y)
    emulated.hipStreamDestroy(stream)
    for array in (x, y):
        emulated.hipFree(array.address)


def _refusals(gpu: Session, bound: Any, hip: FakeHip, x: DeviceArray, y: DeviceArray) -> None:
    with pytest.raises(HipCompilerError, match="do not name the model's outputs") as caught:
        gpu.bind_device({"x": x}, {"z": y})
    assert caught.value.details == ("missing: y", "unknown: z")
    with pytest.raises(HipCompilerError, match="has element type float16, not float32"):
        gpu.bind_device({"x": DeviceArray(x.address, x.shape, np.float16, (10, 0))}, {"y": y})
    with pytest.raises(HipCompilerError, match="does not start at a multiple of 64 bytes"):
        gpu.bind_device({"x": x}, {"y": DeviceArray(y.address + 4, (2, 4), np.float32, (10, 0))})
    small = gpu.bind_device({"x": x}, {"y": y.reshaped((2, 4))})
    with pytest.raises(HipCompilerError, match=r"output 'y': an array of shape \[2, 4\] has no room for \[8, 4\]"):
        small.run()
    bound.resize("x", DeviceArray(x.address, (8, 6), np.float32, (10, 0)))


def test_the_host_target_refuses_memory_of_a_device() -> None:
    array = DeviceArray(1 << 20, (8, 6), np.float32, (10, 0))
    with hip_compiler.compile(mlp()) as host:
        bound = host.bind_device({"x": array}, {"y": DeviceArray(1 << 20, (8, 4), np.float32, (10, 0))})
        with pytest.raises(HipCompilerError, match="input 'x' is in device memory; the host target takes host memory"):
            bound.run()


def test_a_platform_that_hip_does_not_have_stops_its_target_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIP_PLATFORM", "glide")
    target = gpu_target(frozenset())
    assert target.runtime_bitcode is not None
    with pytest.raises(HipCompilerError, match="HIP_PLATFORM='glide' is no platform of HIP"):
        target.runtime_bitcode()
