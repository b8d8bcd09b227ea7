"""GPUs from Python, through HIP's own bindings over the fake HIP: devices, memory, DLPack."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime import DeviceArray
from tests.fake_hip import FakeHip

pytest.importorskip("hip", reason="hip-python is not installed")


@pytest.fixture(scope="session")
def bindings(fake_library: Path) -> Iterator[None]:
    """hip-python finds the fake: it looks once in a process, in ROCM_PATH among others."""
    patch = pytest.MonkeyPatch()
    patch.setenv("ROCM_PATH", str(fake_library.parents[1]))
    yield
    patch.undo()


@pytest.fixture
def device(bindings: None, make_hip: Callable[..., FakeHip]) -> Any:
    """The module, over two devices."""
    from hip_compiler.runtime import device as module

    make_hip("gfx1151", "gfx942:sramecc+:xnack-")
    yield module
    gc.collect()


def test_devices(device: Any) -> None:
    first, second = device.devices()
    assert (first.number, first.architecture, first.wave, first.compute_units) == (0, "gfx1151", 32, 4)
    assert (second.number, second.architecture, second.wave, second.memory) == (1, "gfx942", 64, 1 << 28)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, ml_dtypes.bfloat16, np.bool_])
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 4)])
def test_there_and_back(device: Any, shape: tuple[int, ...], dtype: Any) -> None:
    value = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    for number in (0, 1):
        array = device.to_device(value, number)
        assert array.device == (10, number) and array.nbytes == value.nbytes
        np.testing.assert_array_equal(device.to_host(array), value)
        other = np.asarray(1 - value.astype(np.int64)).astype(dtype)
        device.copy_to_device(array, other)
        np.testing.assert_array_equal(device.to_host(array), other)
    with pytest.raises(HipCompilerError, match="does not fit"):
        device.copy_to_device(array, np.zeros((9,), dtype))


def test_memory_is_given_back_with_the_last_view(device: Any, make_hip: Callable[..., FakeHip]) -> None:
    hip = make_hip()
    array = device.empty((4, 8), np.float16)
    part = array.reshaped((2, 8))
    del array
    assert hip.held == 64
    with pytest.raises(HipCompilerError, match=r"an array of shape \[2, 8\] has no room for \[3, 8\]"):
        part.reshaped((3, 8))
    del part
    assert hip.held == 0


def test_pinned_memory_is_one_for_host_and_device(device: Any, make_hip: Callable[..., FakeHip]) -> None:
    hip = make_hip()
    host, reached = device.pinned((2, 3), np.int32)
    assert not host.any() and reached.device == (11, 0)
    host[1, 2] = 7
    assert hip.memories[0].view(reached.address, 24, "the test").view(np.int32)[5] == 7
    del host
    assert len(hip.blocks) == 1
    del reached
    gc.collect()
    assert not hip.blocks


def test_streams(device: Any, make_hip: Callable[..., FakeHip]) -> None:
    hip = make_hip("gfx1151", "gfx1151")
    stream = device.Stream(1)
    done: list[int] = []
    hip.objects[stream.address].work.append(lambda: done.append(1))
    stream.synchronize()
    assert done == [1] and hip.device == 0
    stream.close()
    stream.close()
    assert not hip.objects


def test_dlpack_out_and_in(device: Any, make_hip: Callable[..., FakeHip]) -> None:
    hip = make_hip()
    value = np.arange(6, dtype=np.float16).reshape(2, 3)
    array = device.to_device(value)
    taken = DeviceArray.from_dlpack(array)
    assert (taken.address, taken.shape, taken.device) == (array.address, (2, 3), (10, 0))
    assert taken.dtype == np.float16
    del array
    np.testing.assert_array_equal(device.to_host(taken), value)
    del taken
    gc.collect()
    assert hip.held == 0


class Foreign:
    """A tensor of another library."""

    def __init__(self, array: np.ndarray, kind: int) -> None:
        self.array, self.kind, self.streams = array, kind, list[object]()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, 0

    def __dlpack__(self, **options: Any) -> object:
        self.streams.append(options.get("stream"))
        return self.array.__dlpack__()


def test_tensors_of_other_libraries() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    tensor = Foreign(values, 2)
    found = DeviceArray.from_dlpack(tensor, stream=5)
    assert found.shape == (3, 4) and found.device == (2, 0) and tensor.streams == [5]
    assert found.address == values.__array_interface__["data"][0]
    with pytest.raises(HipCompilerError, match="the tensor has gaps"):
        DeviceArray.from_dlpack(Foreign(values[:, :2], 10))
    with pytest.raises(HipCompilerError, match="not in memory of a GPU"):
        DeviceArray.from_dlpack(Foreign(values, 1))


def test_errors_of_hip(device: Any) -> None:
    with pytest.raises(HipCompilerError, match="hipMalloc failed: hipErrorOutOfMemory"):
        device.empty((1 << 30,), np.float32)


def test_the_doctor_lists_gpus(device: Any) -> None:
    from hip_compiler.cli.doctor import _gpus

    assert _gpus() == "0: gfx1151 fake GPU (0 GiB), 1: gfx942 fake GPU (0 GiB)"


def test_the_doctor_says_why_there_is_no_gpu(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from hip_compiler.cli.doctor import _gpus, _try

    def missing(*_: object) -> object:
        raise RuntimeError("failed to dlopen 'libamdhip64.so'\nlooked in many places")

    monkeypatch.setattr(device, "_hip", lambda: type("hip", (), {"hipGetDeviceCount": missing}))
    reason = "the HIP runtime cannot be loaded: failed to dlopen 'libamdhip64.so'"
    assert _try("GPUs", _gpus, "absent") == ("GPUs", "absent", reason)
