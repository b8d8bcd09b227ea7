"""Runs: inputs to the device, kernels, outputs to the host, errors."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.fake_hip import FakeHip
from tests.gpu_runtime.harness import DEVICE, INTERNAL, UNSUPPORTED, Context, DeviceArray, RunError, context
from tests.gpu_runtime.stub import GENERATED, LIBRARY, code_object

FILES = {
    "device/index": b"gfx1151\n",
    "device/gfx1151.library": code_object(LIBRARY),
    "device/gfx1151.generated": code_object(GENERATED),
}


def twice(state: Context, x: np.ndarray | DeviceArray, **options: object) -> np.ndarray:
    """y = 2 (2 x), by way of the arena."""
    (source,) = state.begin([x], **options)  # type: ignore[arg-type]
    count = int(np.prod(x.shape))
    middle = state.address("hipc_pool", 0, 4 * count)
    state.launch("twice", source, middle, iterations=count)
    y = state.output(0, x.shape)
    state.launch("twice", middle, y, iterations=count)
    state.end()
    return state.outputs[0] if state.outputs else np.empty(0)


def test_host_to_host(hip: FakeHip) -> None:
    with context(FILES) as state:
        for count in (1, 300, 7):
            x = np.arange(count, dtype=np.float32) + 1
            np.testing.assert_array_equal(twice(state, x), 4 * x)
    assert hip.launched() == ["twice"] * 6


def test_an_artifact_without_generated_code(hip: FakeHip) -> None:
    files = {name: content for name, content in FILES.items() if "generated" not in name}
    with context(files) as state:
        with pytest.raises(RunError, match="there is no kernel twice for gfx1151 in the artifact") as caught:
            twice(state, np.ones(3, np.float32))
        assert caught.value.status == UNSUPPORTED
        state.function("hipc_end")(state.handle, 1)


def take(hip: FakeHip, value: np.ndarray, offset: int = 0) -> int:
    """Memory of the device with contents, taken as an application would."""
    address = hip.take(value.nbytes + offset, 0) + offset
    hip.memories[0].view(address, value.nbytes, "the test")[:] = np.frombuffer(value.tobytes(), np.uint8)
    return address


def contents(hip: FakeHip, address: int, count: int) -> np.ndarray:
    return hip.memories[0].view(address, 4 * count, "the test").view(np.float32).copy()


@pytest.mark.parametrize("offset", [0, 4])
def test_memory_of_the_device_and_a_stream_of_the_caller(hip: FakeHip, offset: int) -> None:
    x = np.arange(50, dtype=np.float32) + 1
    source = take(hip, x, offset)
    target = take(hip, np.zeros(50, np.float32))
    stream = hip.new(type(hip.default_streams[0])(0))
    with context(FILES) as state:
        for factor in (1, 3):
            hip.memories[0].view(source, 200, "the test").view(np.float32)[:] = factor * x
            twice(state, DeviceArray(source, (50,), np.float32), outputs_on_device=[target], stream=stream)
            # Nothing was waited for: the caller's stream is asynchronous.
            assert not (contents(hip, target, 50) == 4 * factor * x).any()
            hip.hipStreamSynchronize(stream)
            np.testing.assert_array_equal(contents(hip, target, 50), 4 * factor * x)
        # A run on the state's own stream is behind the one on the caller's, whose arena it uses, and is complete.
        twice(state, DeviceArray(source, (50,), np.float32), outputs_on_device=[target], stream=stream)
        np.testing.assert_array_equal(twice(state, x), 4 * x)
    assert "hipStreamWaitEvent" in hip.calls
    hip.hipStreamDestroy(stream)
    for address in (source - offset, target):
        hip.hipFree(address)


def test_a_run_is_prepared_while_the_device_is_at_the_last(hip: FakeHip) -> None:
    """Neither waits for the other, nor does one overwrite what the other reads; the third waits for the first."""
    targets = [take(hip, np.zeros(8, np.float32)) for _ in range(5)]
    stream = hip.new(type(hip.default_streams[0])(0))
    waited = []
    with context(FILES) as state:
        for number, target in enumerate(targets):
            twice(state, np.full(8, number + 1, np.float32), outputs_on_device=[target], stream=stream)
            waited.append(hip.calls.count("hipEventSynchronize"))
        hip.hipStreamSynchronize(stream)
        for number, target in enumerate(targets):
            np.testing.assert_array_equal(contents(hip, target, 8), np.full(8, 4 * (number + 1), np.float32))
    assert waited == [0, 0, 1, 2, 3]
    hip.hipStreamDestroy(stream)
    for target in targets:
        hip.hipFree(target)


def test_outputs_on_the_device_are_complete_without_a_stream(hip: FakeHip) -> None:
    target = take(hip, np.zeros(8, np.float32))
    with context(FILES) as state:
        twice(state, np.ones(8, np.float32), outputs_on_device=[target])
        np.testing.assert_array_equal(contents(hip, target, 8), np.full(8, 4, np.float32))
    hip.hipFree(target)


def test_large_inputs_and_outputs_go_in_pieces(make_hip: object) -> None:
    hip = make_hip(memory=1 << 30)  # type: ignore[operator]
    with context(FILES) as state:
        x = np.arange(17 << 20, dtype=np.float32)
        np.testing.assert_array_equal(twice(state, x), 4 * x)
        pinned = sum(block.array.size for block in hip.blocks.values() if block.device == -1)
        assert pinned <= 16 << 20


def test_empty_and_several_inputs(hip: FakeHip) -> None:
    with context(FILES) as state:
        a, b, c = np.ones(0, np.float32), np.arange(3, dtype=np.float32), np.full(70, 2, np.float32)
        state.begin([a])
        state.launch("twice", 0, state.output(0, (0,)), iterations=0)
        state.end()
        assert state.outputs[0].shape == (0,)
        state.io.inputs = None
    with context(FILES) as state:
        places = state.begin([b.reshape(1, 3, 1), c.reshape(70)][:1])
        assert all(place % 256 == 0 for place in places)
        state.end()
    assert hip.launched() == []


def test_scalars_and_copies_in_the_order_of_the_stream(hip: FakeHip) -> None:
    with context(FILES) as state:
        state.begin([])
        y = state.output(0, (4,), np.int64)
        for number, value in enumerate((-7, 5 << 32 | 5, 1 << 40, 3)):
            state.call("hipc_write", y + 8 * number, value, 8)
        z = state.output(1, (4,), np.int64)
        state.call("hipc_copy", z, y, 32)
        for width, value in ((1, -2), (2, 0x1234), (4, -9)):
            state.call("hipc_write", z + 8 * {1: 0, 2: 1, 4: 2}[width], value, width)
        state.end()
    np.testing.assert_array_equal(state.outputs[0], [-7, 5 << 32 | 5, 1 << 40, 3])
    low = [(-7 & ~0xFF | 0xFE), 5 << 32 | 0x1234, 1 << 40 | 0xFFFFFFF7, 3]
    np.testing.assert_array_equal(state.outputs[1], low)


def read(state: Context, device: int, count: int) -> np.ndarray:
    found = np.zeros(count, np.float32)
    state.call("hipc_read", found.ctypes, device, 4 * count)
    return found


def test_values_that_the_host_reads(hip: FakeHip) -> None:
    constants = np.arange(64, dtype=np.float32)
    with context(FILES | {"constants.bin": constants.tobytes()}, constants=256) as state:
        x = np.arange(5, dtype=np.float32)
        (source,) = state.begin([x])
        waits = hip.calls.count("hipStreamSynchronize")
        # Constants and inputs of the host are known without a wait.
        np.testing.assert_array_equal(read(state, state.address("hipc_constants") + 8, 3), [2, 3, 4])
        np.testing.assert_array_equal(read(state, source + 4, 2), [1, 2])
        assert hip.calls.count("hipStreamSynchronize") == waits
        middle = state.address("hipc_pool", 0, 8192)
        state.launch("twice", source, middle, iterations=5)
        np.testing.assert_array_equal(read(state, middle, 5), 2 * x)
        state.end()


def test_constants_arrive_in_pieces(hip: FakeHip) -> None:
    constants = np.random.default_rng(0).integers(0, 256, (17 << 20) + 5, dtype=np.uint8)
    with context(FILES | {"constants.bin": constants.tobytes()}, constants=constants.size) as state:
        device = state.address("hipc_constants")
        np.testing.assert_array_equal(hip.memories[0].view(device, constants.size, "the test"), constants)


def test_arguments_that_do_not_fit_a_kernel(hip: FakeHip) -> None:
    with context(FILES) as state:
        (source,) = state.begin([np.ones(4, np.float32)])
        with pytest.raises(RunError, match="kernel twice takes 3 arguments; 3 and the iterations") as caught:
            state.launch("twice", source, source, 1.0, iterations=4)
        assert caught.value.status == INTERNAL
        y = state.address("hipc_pool", 0, 64)
        state.call("hipc_copy", y, source, 16)
        state.launch("add_scaled", source, y, 0.5, iterations=4)
        np.testing.assert_array_equal(read(state, y, 4), np.full(4, 1.5, np.float32))
        state.end()


def test_a_kernel_that_fails(make_hip: object) -> None:
    hip = make_hip()  # type: ignore[operator]
    with context(FILES) as state:
        (source,) = state.begin([np.ones(4, np.float32)])
        y = state.output(0, (4,))
        state.launch("twice", source, y, iterations=4000)
        with pytest.raises(RunError, match="the run failed on device 0: hipErrorIllegalAddress") as caught:
            state.end()
        assert caught.value.status == DEVICE
        # The state is as good as before.
        np.testing.assert_array_equal(twice(state, np.ones(4, np.float32)), np.full(4, 4, np.float32))
    assert "read of 16000 bytes" in hip.findings.pop()


def test_memory_that_runs_out(make_hip: object) -> None:
    make_hip(memory=1 << 20)  # type: ignore[operator]
    with context(FILES) as state:
        state.begin([])
        with pytest.raises(RunError, match="no memory for an arena of 2097152 bytes"):
            state.address("hipc_pool", 0, 2 << 20)
        with pytest.raises(RunError, match="device 0 has no memory for 2097152 bytes of scratch"):
            state.address("hipc_scratch", 2 << 20)
        state.address("hipc_pool", 0, 1 << 19)
        state.function("hipc_end")(state.handle, 4)


def test_blocks_of_loops_are_used_again_and_given_back(hip: FakeHip) -> None:
    with context(FILES) as state:
        for _ in range(2):
            state.begin([])
            mark = state.number("hipc_mark")
            seen = set()
            for _ in range(5):
                block = state.address("hipc_alloc", 1000)
                seen.add(block)
                release = state.function("hipc_release", None)
                release(state.handle, ctypes.c_int64(mark), None, ctypes.c_int64(0))
            assert len(seen) == 1
            state.address("hipc_pool", 0, 5000)
            state.end()
        assert hip.calls.count("hipMalloc") == 2
        # The device gives multiples of 256 bytes.
        assert 0 < hip.held - state.number("hipc_arena_bytes") < 2 * 256
        state.call("hipc_trim")
        assert state.number("hipc_arena_bytes") == hip.held == 0
        assert state.number("hipc_arena_peak") > 0
