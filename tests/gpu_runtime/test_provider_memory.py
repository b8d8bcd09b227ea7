"""Sessions of ONNX Runtime whose tensors are on a GPU: devices, allocators, copies; over the fake HIP, emulated."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import hip_compiler
from hip_compiler.core.conversion import ops as _converters  # noqa: F401  (fills the converter table)
from hip_compiler.core.conversion.onnx_op import CONVERTERS
from hip_compiler.errors import HipCompilerError
from hip_compiler.ort import PROVIDER, library_path, register
from hip_compiler.runtime import empty
from hip_compiler.runtime.native import FOLDER
from tests.fake_hip import FakeHip
from tests.gpu_runtime.stub import LIBRARY, StubCode
from tests.gpu_runtime.test_models import mlp, rows
from tests.llm.decoder import Decoder
from tests.ort.models import VERSION, make, node, plain, source, values

pytestmark = pytest.mark.skipif(
    not (FOLDER / "kernels.pack").is_file(), reason="kernels.pack is not built: python kernels/build.py"
)
AMD = 0x1002
CAPACITY, TOKENS = 6, (5, 17, 80, 11, 3)
MakeHip = Callable[..., FakeHip]


@pytest.fixture(scope="module", autouse=True)
def known_before() -> None:
    """The registration that lasts as long as the process is from before there are GPUs."""
    register()


@pytest.fixture
def gpus(make_hip: MakeHip) -> Iterator[FakeHip]:
    """Two GPUs that ONNX Runtime knows, and as long as it knows them."""
    hip = make_hip("gfx1151", "gfx1151", load=None)
    onnxruntime.register_execution_provider_library("hip with GPUs", str(library_path()))
    yield hip
    gc.collect()
    onnxruntime.unregister_execution_provider_library("hip with GPUs")


def on(devices: list[Any], model: Any, **options: str) -> Any:
    """A session on devices."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.add_provider_for_devices(devices, {"strict": "1", **options})
    made = onnxruntime.InferenceSession(source(model), settings, enable_fallback=0)
    assert made.get_providers()[0] == PROVIDER
    return made


def check(made: Any, counts: tuple[int, ...] = (7, 3, 3)) -> None:
    for count in counts:
        x = rows(count, seed=count)
        [expected] = plain(mlp()).run(None, {"x": x})
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(made.run(None, {"x": x})[0], expected, rtol=1e-5, atol=1e-5)


def test_every_gpu_is_a_device(gpus: FakeHip) -> None:
    [host], [first], [second] = register(), register(0), register(1)
    kinds = onnxruntime.OrtHardwareDeviceType
    assert host.device.type == kinds.CPU and "device_id" not in host.ep_metadata
    assert [device.ep_metadata["device_id"] for device in (first, second)] == ["0", "1"]
    assert first.ep_metadata["architecture"] == "gfx1151" and first.ep_metadata["name"] == "fake GPU"
    if VERSION >= (1, 24, 0):
        assert {device.device.type for device in (first, second)} == {kinds.GPU}
    with pytest.raises(HipCompilerError, match=r"no GPU 2\n  why: HIP has 0, 1"):
        register(2)


def test_the_session_runs_on_the_device_that_it_was_given(gpus: FakeHip) -> None:
    check(on(register(1), mlp()))
    assert {entry[0] for entry in gpus.launches} == {1}
    assert {block.device for block in gpus.blocks.values()} <= {1, -1}
    gpus.launches.clear()
    check(on(register(0), mlp(), graph_capture="1"), (3, 3, 3, 3))
    assert {entry[0] for entry in gpus.launches} == {0}
    assert gpus.calls.count("hipGraphLaunch") > 0


@pytest.mark.parametrize(
    ("devices", "options", "message"),
    [
        ((0,), {"target": "host"}, "the session was given GPU 0, and target=host"),
        ((0,), {"device_id": "1"}, "the session was given GPU 0, and option device_id is 1"),
        ((0, 1), {}, "the session was given GPU 0, GPU 1: option device_id chooses one"),
    ],
    ids=["target", "number", "several"],
)
def test_options_that_contradict_the_device(
    gpus: FakeHip, devices: tuple[int, ...], options: dict[str, str], message: str
) -> None:
    if len(devices) > 1 and VERSION < (1, 27, 0):
        pytest.skip("ONNX Runtime before 1.27 refuses devices of different memory itself")
    with pytest.raises(Exception) as caught:
        on([device for number in devices for device in register(number)], mlp(), **options)
    assert f"HIPC0001: {message}" in str(caught.value)


@pytest.mark.skipif(VERSION < (1, 27, 0), reason="ONNX Runtime before 1.27 refuses devices of different memory itself")
def test_options_choose_among_devices(gpus: FakeHip) -> None:
    everything = [*register(), *register(0), *register(1)]
    check(on(everything, mlp()))
    assert not gpus.launches
    check(on(everything, mlp(), target="amdgpu", device_id="1"))
    assert {entry[0] for entry in gpus.launches} == {1}


def test_the_gpu_is_never_a_guess(gpus: FakeHip) -> None:
    """The device of the CPU, for a GPU target: tensors stay on the host, and programs run where the option says."""
    with pytest.raises(Exception, match="HIPC0001: this machine has 2 GPUs: option device_id"):
        on(register(), mlp(), target="amdgpu", arch="gfx1151")
    check(on(register(), mlp(), target="amdgpu", arch="gfx1151", device_id="1"))
    assert {entry[0] for entry in gpus.launches} == {1}


@pytest.mark.skipif(VERSION < (1, 25, 1), reason="ONNX Runtime before 1.25.1 knows no provider by its name")
def test_by_name_tensors_stay_on_the_host(gpus: FakeHip) -> None:
    """ONNX Runtime gives a provider that it finds by name the first of its devices, the CPU."""
    check(onnxruntime.InferenceSession(source(mlp()), providers=[PROVIDER], enable_fallback=0))
    assert not gpus.launches
    options = {"target": "amdgpu", "arch": "gfx1151", "device_id": "1"}
    check(onnxruntime.InferenceSession(source(mlp()), providers=[(PROVIDER, options)], enable_fallback=0))
    assert {entry[0] for entry in gpus.launches} == {1}


def test_tensors_on_the_device_are_used_where_they_are(gpus: FakeHip) -> None:
    made = on(register(1), mlp())
    x = rows(3)
    [expected] = plain(mlp()).run(None, {"x": x})
    fed = onnxruntime.OrtValue.ortvalue_from_numpy(x, "gpu", 1, AMD)
    made_there = onnxruntime.OrtValue.ortvalue_from_shape_and_type([3, 4], np.float32, "gpu", 1, AMD)
    assert fed.device_name() == made_there.device_name() != "cpu"
    binding = made.io_binding()
    binding.bind_ortvalue_input("x", fed)
    binding.bind_ortvalue_output("y", made_there)
    made.run_with_iobinding(binding)
    np.testing.assert_allclose(made_there.numpy(), expected, rtol=1e-5, atol=1e-5)
    gpus.copies.clear()
    made.run_with_iobinding(binding)
    assert gpus.copies == []
    np.testing.assert_allclose(made_there.numpy(), expected, rtol=1e-5, atol=1e-5)
    assert gpus.copies == [("hipMemcpyDtoHAsync", expected.nbytes)]


def test_an_input_may_be_the_memory_of_an_output(gpus: FakeHip) -> None:
    """Nothing says that it may be overwritten before it is read: it is not."""
    nodes = [node("MatMul", "x w", "a"), node("Add", "a x", "y")]
    square = make(nodes, {"x": [8, 8]}, {"y": [8, 8]}, w=values(8, 8))
    made = on(register(0), square)
    both = onnxruntime.OrtValue.ortvalue_from_numpy(values(8, 8, seed=2), "gpu", 0, AMD)
    [expected] = plain(square).run(None, {"x": values(8, 8, seed=2)})
    binding = made.io_binding()
    binding.bind_ortvalue_input("x", both)
    binding.bind_ortvalue_output("y", both)
    made.run_with_iobinding(binding)
    np.testing.assert_allclose(both.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_nodes_that_stay_on_the_cpu(gpus: FakeHip, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values go to the host and come back between what is compiled; some reach a program in memory of the host."""
    monkeypatch.delitem(CONVERTERS, ("", "Relu"))
    check(on(register(1), mlp(), strict="0"))
    assert {entry[0] for entry in gpus.launches} == {1}


def decoder() -> Decoder:
    return Decoder(layers=1, hidden=32, heads=2, shared=1, size=16, middle=48)


def mask(position: int) -> np.ndarray:
    return (np.arange(CAPACITY) <= position).astype(np.int64)[None]


def host_steps() -> list[np.ndarray]:
    """Logits of the host target, whose caches grow in place."""
    with hip_compiler.compile(decoder().model()) as host:
        caches = {}
        for name, cache in decoder().caches(CAPACITY).items():
            caches[name] = empty(cache.shape, cache.dtype)
            caches[name][...] = cache
        outputs = {name.replace("past", "present"): cache for name, cache in caches.items()}
        found = []
        for position, token in enumerate(TOKENS):
            feeds = {"input_ids": np.array([[token]]), "attention_mask": mask(position), **caches}
            found.append(host.run(feeds, outputs=outputs)["logits"].copy())
        return found


@pytest.mark.parametrize("accessible", ["1", "0"], ids=["inputs on the host", "inputs copied"])
def test_a_decoder_whose_caches_stay_on_the_device(gpus: FakeHip, accessible: str) -> None:
    """Token by token: ids and mask come from the host, logits go to it, and the caches do not move."""
    made = on(register(1), decoder().model(), graph_capture="1", host_accessible_inputs=accessible)
    caches = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy(cache, "gpu", 1, AMD)
        for name, cache in decoder().caches(CAPACITY).items()
    }
    assert caches and all(cache.device_name() != "cpu" for cache in caches.values())
    for position, (token, expected) in enumerate(zip(TOKENS, host_steps(), strict=True)):
        gpus.copies.clear()
        binding = made.io_binding()
        binding.bind_cpu_input("input_ids", np.array([[token]]))
        binding.bind_cpu_input("attention_mask", mask(position))
        for name, cache in caches.items():
            binding.bind_ortvalue_input(name, cache)
            binding.bind_ortvalue_output(name.replace("past", "present"), cache)
        binding.bind_output("logits")
        made.run_with_iobinding(binding)
        [logits] = (value for value in binding.get_outputs() if value.device_name() == "cpu")
        assert np.abs(expected).max() > 0.5
        np.testing.assert_allclose(logits.numpy(), expected, rtol=1e-5, atol=2e-6)
        # Small inputs in one copy of the program's own at most, or in one each; the logits; nothing else.
        down = [size for name, size in gpus.copies if name == "hipMemcpyDtoHAsync"]
        up = [size for name, size in gpus.copies if name == "hipMemcpyHtoDAsync"]
        assert down == [expected.nbytes]
        if accessible == "0":
            assert len(up) == 2
        else:
            assert len(up) <= 1
        assert not [size for name, size in gpus.copies if name == "hipMemcpyDtoDAsync"]
    assert all(np.abs(cache.numpy()).max() > 0.1 for cache in caches.values())
    assert gpus.calls.count("hipGraphLaunch") >= 1


def test_times_of_operators(gpus: FakeHip, tmp_path: Path) -> None:
    """Each is waited for, so that no run is replayed."""
    path = tmp_path / "times.json"
    made = on(register(1), mlp(), graph_capture="1", profile=str(path))
    check(made, (3, 3, 3, 3))
    assert "hipGraphLaunch" not in gpus.calls
    del made
    gc.collect()
    kernels = [event["name"] for event in json.loads(path.read_text()) if event["cat"] == "Kernel"]
    assert len(kernels) % 4 == 0 and sum(name.endswith("(matmul)") for name in kernels) == 8


def test_memory_is_reused_and_given_back(gpus: FakeHip) -> None:
    made = on(register(0), mlp(), host_accessible_inputs="0")
    for _ in range(3):
        check(made, (5,))
    before, calls = gpus.held, len(gpus.calls)
    check(made, (5, 5))
    assert gpus.held == before
    assert not {"hipMalloc", "hipFree", "hipHostMalloc"} & set(gpus.calls[calls:])
    del made
    gc.collect()
    assert gpus.held == 0


def test_the_nvidia_platform(make_hip: MakeHip, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CUDA's driver in the place of HIP: devices, tensors on them, and a context model that was compiled for one."""
    monkeypatch.setenv("HIP_PLATFORM", "nvidia")
    products = make([node("MatMul", "x v", "a", "first"), node("MatMul", "a w", "y")], {"x": ["n", 6]}, {"y": ["n", 5]},
                    v=values(6, 7), w=values(7, 5))  # fmt: skip
    onnx.save(products, tmp_path / "m.onnx")
    context = tmp_path / "c.onnx"
    # In a process of its own: targets are read once in each.
    command = [sys.executable, "-m", "hip_compiler.cli", "compile", str(tmp_path / "m.onnx"), "-o", str(context)]
    command += ["--ep-context", "--strict", "--target", "amdgpu", "--arch", "sm_90"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    gpus = make_hip("sm_80", "sm_90", load=lambda *_: StubCode(LIBRARY))
    onnxruntime.register_execution_provider_library("hip with NVIDIA's GPUs", str(library_path()))
    try:
        [device] = register(1)
        facts = {"device_id": "1", "name": "fake GPU", "architecture": "sm_90"}
        assert facts.items() <= device.ep_metadata.items()
        if VERSION >= (1, 24, 0):
            assert (device.device.vendor, device.device.vendor_id) == ("NVIDIA", 0x10DE)
        made = on([device], str(context))
        x = values(3, 6, seed=5)
        [expected] = plain(products).run(None, {"x": x})
        np.testing.assert_allclose(made.run(None, {"x": x})[0], expected, rtol=1e-5, atol=1e-5)
        fed = onnxruntime.OrtValue.ortvalue_from_numpy(x, "gpu", 1, AMD)
        result = onnxruntime.OrtValue.ortvalue_from_shape_and_type([3, 5], np.float32, "gpu", 1, AMD)
        binding = made.io_binding()
        binding.bind_ortvalue_input("x", fed)
        binding.bind_ortvalue_output("y", result)
        gpus.copies.clear()
        made.run_with_iobinding(binding)
        assert gpus.copies == []
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-5)
        assert {block.device for block in gpus.blocks.values()} <= {1, -1}
        # Whatever thread calls, its device is the one that it was.
        assert gpus.device == 0 and "cuCtxPopCurrent_v2" in gpus.calls and "hipSetDevice" not in gpus.calls
        with pytest.raises(Exception, match="the device is sm_80; the artifact has code for sm_90"):
            on(register(0), str(context))
        del made, binding, fed, result
    finally:
        gc.collect()
        onnxruntime.unregister_execution_provider_library("hip with NVIDIA's GPUs")


def test_memory_that_ran_out_is_an_error(make_hip: MakeHip) -> None:
    make_hip(load=None, memory=1 << 16)
    onnxruntime.register_execution_provider_library("hip with a small GPU", str(library_path()))
    try:
        with pytest.raises(Exception, match="memory ran out: there are no 4194304 bytes"):
            onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(1 << 20, np.float32), "gpu", 0, AMD)
        exact = onnxruntime.OrtValue.ortvalue_from_numpy(np.arange(8, dtype=np.float32), "gpu", 0, AMD)
        np.testing.assert_array_equal(exact.numpy(), np.arange(8, dtype=np.float32))
        del exact
    finally:
        onnxruntime.unregister_execution_provider_library("hip with a small GPU")
