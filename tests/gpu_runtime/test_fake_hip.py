"""The fake HIP finds misuse: each kind is an error of the call, and fails the test that made it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fake_hip import FakeHip
from tests.gpu_runtime.stub import GENERATED, code_object, loader


class Api:
    """The library as C sees it."""

    def __init__(self, path: Path, hip: FakeHip) -> None:
        self.library, self.hip = ctypes.CDLL(str(path)), hip
        hip.install(path)

    def call(self, name: str, *arguments: Any) -> int:
        return int(getattr(self.library, name)(*arguments))

    def make(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """A function that stores a handle or an address through its first argument."""
        result = ctypes.c_void_p()
        assert self.call(name, ctypes.byref(result), *arguments) == 0
        return result

    def memory(self, size: int) -> ctypes.c_void_p:
        return self.make("hipMalloc", ctypes.c_size_t(size))

    def stream(self) -> ctypes.c_void_p:
        return self.make("hipStreamCreateWithFlags", 1)


@pytest.fixture
def free_api(fake_library: Path) -> Api:
    """Two devices, whose findings are the test's affair."""
    return Api(fake_library, FakeHip(("gfx1151", "gfx1151"), load=loader(GENERATED)))


@pytest.fixture
def api(free_api: Api) -> Iterator[Api]:
    """The same; the test makes one finding."""
    yield free_api
    assert len(free_api.hip.findings) == 1, free_api.hip.findings


def the_finding(api: Api) -> str:
    (finding,) = api.hip.findings
    return finding


def test_double_free(api: Api) -> None:
    memory = api.memory(64)
    assert api.call("hipFree", memory) == 0
    assert api.call("hipFree", memory) == 1
    assert "was freed before" in the_finding(api)


def test_freeing_with_the_wrong_function(api: Api) -> None:
    assert api.call("hipHostFree", api.memory(64)) == 1
    assert "is not allocated" in the_finding(api)


def test_use_after_free(api: Api) -> None:
    memory, stream = api.memory(64), api.stream()
    assert api.call("hipFree", memory) == 0
    assert api.call("hipMemsetD8Async", memory, ctypes.c_uint8(0), ctypes.c_size_t(64), stream) == 700
    assert "use after free" in the_finding(api)


def test_freeing_waits_for_what_is_queued(free_api: Api) -> None:
    target, pinned = free_api.memory(64), free_api.make("hipHostMalloc", ctypes.c_size_t(64), 0)
    stream = free_api.stream()
    assert free_api.call("hipMemcpyHtoDAsync", target, pinned, ctypes.c_size_t(64), stream) == 0
    assert len(free_api.hip.objects[stream.value or 0].work) == 1
    assert free_api.call("hipHostFree", pinned) == 0
    assert not free_api.hip.objects[stream.value or 0].work and not free_api.hip.findings


def test_out_of_bounds(api: Api) -> None:
    source, target = api.memory(64), api.memory(32)
    assert api.call("hipMemcpyDtoDAsync", target, source, ctypes.c_size_t(64), api.stream()) == 700
    assert "read of 64 bytes" in the_finding(api)


def test_a_stream_that_was_destroyed(api: Api) -> None:
    stream = api.stream()
    assert api.call("hipStreamDestroy", stream) == 0
    assert api.call("hipStreamSynchronize", stream) == 400
    assert "was destroyed" in the_finding(api)


def test_a_stream_of_another_device(api: Api) -> None:
    stream = api.stream()
    assert api.call("hipSetDevice", 1) == 0
    assert api.call("hipStreamSynchronize", stream) == 400
    assert "a stream of device 0 while 1 is current" in the_finding(api)


def launch(api: Api, arguments: bytes, grid: int = 1, end: int = 3) -> int:
    image = ctypes.create_string_buffer(code_object(GENERATED), len(code_object(GENERATED)))
    module = api.make("hipModuleLoadData", image)
    function = api.make("hipModuleGetFunction", module, b"twice")
    block, size = ctypes.create_string_buffer(arguments, len(arguments)), ctypes.c_size_t(len(arguments))
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(block), 2, ctypes.addressof(size), end)
    return api.call("hipModuleLaunchKernel", function, grid, 1, 1, 256, 1, 1, 0, api.stream(), None, extra)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"arguments": bytes(20)}, "20 bytes of arguments, it takes 24"),
        ({"arguments": bytes(32)}, "32 bytes of arguments, it takes 24"),
        ({"arguments": bytes(24), "grid": 0}, "grid"),
        ({"arguments": bytes(24), "grid": 1 << 25}, "grid"),
        ({"arguments": bytes(24), "end": 0}, "extra array"),
    ],
)
def test_launches_that_cannot_be(api: Api, options: dict[str, Any], words: str) -> None:
    assert launch(api, **options) == 1
    assert words in the_finding(api)


def test_a_kernel_out_of_bounds_shows_at_the_wait(api: Api) -> None:
    assert launch(api, np.array([4096, 8192, 16], np.int64).tobytes()) == 0
    assert not api.hip.findings
    assert api.call("hipDeviceSynchronize") == 700
    assert "launch of twice" in the_finding(api)


@pytest.mark.parametrize("name", ["hipMalloc", "hipStreamSynchronize"])
def test_what_cannot_be_captured(api: Api, name: str) -> None:
    stream = api.stream()
    assert api.call("hipStreamBeginCapture", stream, 1) == 0
    result = ctypes.c_void_p()
    arguments = (ctypes.byref(result), ctypes.c_size_t(8)) if name == "hipMalloc" else (stream,)
    assert api.call(name, *arguments) == 900
    assert "captured" in the_finding(api)


Leak = Callable[[Api], object]


@pytest.mark.parametrize(
    ("leak", "words"),
    [
        (lambda api: api.memory(8), "1 blocks of memory"),
        (lambda api: api.stream(), "1 of Stream"),
        (lambda api: api.make("hipEventCreateWithFlags", 2), "1 of Event"),
        (lambda api: api.make("hipblasLtCreate"), "1 of Library"),
    ],
)
def test_leaks(free_api: Api, leak: Leak, words: str) -> None:
    leak(free_api)
    with pytest.raises(AssertionError, match=f"not given back: {words}"):
        free_api.hip.check()


def test_findings_fail_the_check(api: Api) -> None:
    assert api.call("hipFree", ctypes.c_void_p(640)) == 1
    with pytest.raises(AssertionError, match="is not allocated"):
        api.hip.check()
