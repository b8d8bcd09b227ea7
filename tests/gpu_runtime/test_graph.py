"""Runs that repeat are replayed as one graph; runs that do not are done anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.fake_hip import FakeHip
from tests.gpu_runtime.harness import Context, DeviceArray, RunError, context
from tests.gpu_runtime.test_run import FILES, read, take, twice


def graphs(hip: FakeHip) -> tuple[int, int]:
    """Graphs made, and launches of graphs."""
    return hip.calls.count("hipGraphInstantiateWithFlags"), hip.calls.count("hipGraphLaunch")


def test_the_second_run_is_a_graph(hip: FakeHip) -> None:
    with context(FILES, capture=True) as state:
        for number in range(5):
            x = np.arange(6, dtype=np.float32) + number
            np.testing.assert_array_equal(twice(state, x), 4 * x)
        assert graphs(hip) == (1, 4)
        assert hip.calls.count("hipModuleLaunchKernel") == 4
        assert hip.launched() == ["twice"] * 10


def test_nothing_is_captured_unless_it_is_asked_for(hip: FakeHip) -> None:
    with context(FILES) as state:
        for _ in range(3):
            twice(state, np.ones(3, np.float32))
    assert graphs(hip) == (0, 0)


def test_extents_that_come_back(hip: FakeHip) -> None:
    with context(FILES, capture=True) as state:
        for count in (6, 3, 6, 3, 6, 3):
            x = np.arange(count, dtype=np.float32)
            np.testing.assert_array_equal(twice(state, x), 4 * x)
    assert graphs(hip) == (2, 4)


def test_more_kinds_of_runs_than_are_kept(hip: FakeHip) -> None:
    with context(FILES, capture=True) as state:
        for count in (9, 8, 7, 6, 5, 4, 9, 9, 4, 4):
            x = np.arange(count, dtype=np.float32)
            np.testing.assert_array_equal(twice(state, x), 4 * x)
    assert graphs(hip) == (2, 3)


def test_pointers_that_change(hip: FakeHip) -> None:
    sources = [take(hip, np.full(4, number + 1, np.float32)) for number in range(2)]
    with context(FILES, capture=True) as state:
        for number in (0, 0, 1, 0, 1, 1):
            found = twice(state, DeviceArray(sources[number], (4,), np.float32))
            np.testing.assert_array_equal(found, np.full(4, 4 * (number + 1), np.float32))
    assert graphs(hip) == (2, 4)
    for source in sources:
        hip.hipFree(source)


def run(state: Context, x: np.ndarray, second: int, *, reads: bool = False) -> list[np.ndarray]:
    """Two outputs: 2x, and `second` times as many kernels for the other."""
    (source,) = state.begin([x])
    state.launch("twice", source, state.output(0, x.shape), iterations=x.size)
    if reads:
        middle = state.address("hipc_pool", 0, 4 * x.size)
        state.launch("twice", source, middle, iterations=x.size)
        np.testing.assert_array_equal(read(state, middle, x.size), 2 * x)
    y = state.output(1, x.shape)
    state.call("hipc_copy", y, source, x.nbytes)
    for _ in range(second):
        state.launch("add_scaled", source, y, 0.5, iterations=x.size)
    state.end()
    return state.outputs


@pytest.mark.parametrize("counts", [(3, 3, 2, 2, 3), (1, 4, 1, 4, 4), (0, 0, 1, 0)])
def test_runs_that_part_on_the_way(hip: FakeHip, counts: tuple[int, ...]) -> None:
    with context(FILES, capture=True) as state:
        for number, second in enumerate(counts):
            x = np.arange(5, dtype=np.float32) + number
            first, other = run(state, x, second)
            np.testing.assert_array_equal(first, 2 * x)
            np.testing.assert_allclose(other, x * (1 + second / 2))


def test_what_the_host_reads_is_never_replayed(hip: FakeHip) -> None:
    with context(FILES, capture=True) as state:
        run(state, np.ones(3, np.float32), 1)
        for number in range(4):
            x = np.arange(3, dtype=np.float32) + number
            first, _ = run(state, x, 1, reads=True)
            np.testing.assert_array_equal(first, 2 * x)
    assert graphs(hip) == (0, 0)


def test_a_run_that_failed_is_not_kept(hip: FakeHip) -> None:
    with context(FILES, capture=True) as state:
        for number in range(3):
            (source,) = state.begin([np.full(3, number, np.float32)])
            state.launch("twice", source, state.output(0, (3,)), iterations=3)
            with pytest.raises(RunError):
                state.end(status=3)
        assert graphs(hip) == (0, 0)
        for number in range(3):
            x = np.full(3, number, np.float32)
            np.testing.assert_array_equal(twice(state, x), 4 * x)
        # In the midst of a replay nothing has been executed yet, and nothing is lost.
        state.begin([np.ones(3, np.float32)])
        with pytest.raises(RunError):
            state.end(status=3)
        np.testing.assert_array_equal(twice(state, np.ones(3, np.float32)), np.full(3, 4, np.float32))
    assert graphs(hip) == (1, 3)


def test_trimming_forgets_graphs(hip: FakeHip) -> None:
    with context(FILES, capture=True) as state:
        for _ in range(3):
            twice(state, np.ones(3, np.float32))
        state.call("hipc_trim")
        assert hip.held == 0
        for number in range(3):
            x = np.full(3, number, np.float32)
            np.testing.assert_array_equal(twice(state, x), 4 * x)
    assert graphs(hip) == (2, 4)


def test_on_the_stream_of_the_caller(hip: FakeHip) -> None:
    source, target = take(hip, np.ones(4, np.float32)), take(hip, np.zeros(4, np.float32))
    stream = hip.new(type(hip.default_streams[0])(0))
    with context(FILES, capture=True) as state:
        for number in range(4):
            hip.memories[0].view(source, 16, "the test").view(np.float32)[:] = number
            twice(state, DeviceArray(source, (4,), np.float32), outputs_on_device=[target], stream=stream)
            hip.hipStreamSynchronize(stream)
            assert (hip.memories[0].view(target, 16, "the test").view(np.float32) == 4 * number).all()
    assert graphs(hip) == (1, 3)
    hip.hipStreamDestroy(stream)
    for address in (source, target):
        hip.hipFree(address)


def test_runs_that_nobody_waits_for_have_a_graph_for_each_slot(hip: FakeHip) -> None:
    targets = [take(hip, np.zeros(4, np.float32)) for _ in range(2)]
    stream = hip.new(type(hip.default_streams[0])(0))
    with context(FILES, capture=True) as state:
        for number in range(6):
            x = np.full(4, number, np.float32)
            twice(state, x, outputs_on_device=[targets[number % 2]], stream=stream)
        hip.hipStreamSynchronize(stream)
        for number, target in zip((4, 5), targets, strict=True):
            assert (hip.memories[0].view(target, 16, "the test").view(np.float32) == 4 * number).all()
    assert graphs(hip) == (2, 4)
    hip.hipStreamDestroy(stream)
    for target in targets:
        hip.hipFree(target)


def test_a_graph_that_cannot_be_made_is_said(make_hip: Callable[..., FakeHip], monkeypatch: pytest.MonkeyPatch) -> None:
    hip = make_hip()
    monkeypatch.setattr(hip, "hipGraphInstantiateWithFlags", lambda *_: 900)
    with context(FILES, capture=True) as state:
        twice(state, np.ones(3, np.float32))
        with pytest.raises(
            RunError, match="making a graph executable failed on device 0: hipErrorStreamCaptureUnsupported"
        ):
            twice(state, np.ones(3, np.float32))
