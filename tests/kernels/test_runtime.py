"""The runtime core: inputs, outputs, errors, memory, threads."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest

from hip_compiler.runtime.abi import AllocateOutput, Files, Io, MapFile, Tensor
from tests.kernels.harness import InputSpec, KernelError, check, context, describe, library

LIB = library()
Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
INDEX, MEMORY, INPUT, OUTPUT, CONSTANTS = 3, 4, 5, 6, 7

Spec = tuple[str, int, Sequence[int]]


def begin(handle: ctypes.c_void_p, specs: Sequence[Spec], arrays: Sequence[np.ndarray], symbols: int = 0) -> None:
    """hipc_begin; raises the kept error."""
    keep = [(ctypes.c_int64 * max(len(dims), 1))(*dims) for _, _, dims in specs]
    table = (InputSpec * max(len(specs), 1))(
        *(
            InputSpec(name.encode(), dtype, len(dims), block)
            for (name, dtype, dims), block in zip(specs, keep, strict=True)
        )
    )
    inputs = (Tensor * max(len(arrays), 1))(*(describe(array) for array in arrays))
    io = Io(inputs, len(arrays), None, AllocateOutput())
    count, number = ctypes.c_int64(len(specs)), ctypes.c_int64(symbols)
    check(handle, LIB.hipc_begin(handle, ctypes.byref(io), table, count, number))


IDS: Spec = ("ids", 7, [-1, -2])
MASK: Spec = ("mask", 7, [-1, -2])


def test_inputs_that_fit() -> None:
    with context() as handle:
        begin(handle, [IDS, MASK, ("scale", 1, [])], [np.zeros((2, 8), np.int64)] * 2 + [np.zeros((), np.float32)], 2)
        begin(handle, [IDS], [np.zeros((0, 5), np.int64)], 2)
        assert LIB.hipc_last_error(handle) == b""


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.zeros((2, 8), np.int64)], "1 inputs were given; the model takes 2"),
        (
            [np.zeros((2, 8), np.int64), np.zeros((2, 8), np.float32)],
            "input 'mask' has element type float; the model takes int64",
        ),
        ([np.zeros((2, 8), np.int64), np.zeros(8, np.int64)], "input 'mask' has rank 1; the model takes rank 2"),
        (
            [np.zeros((2, 8), np.int64), np.zeros((2, 7), np.int64)],
            "input 'mask' dimension 1 is 7, but 'seq' is 8 in input 'ids'",
        ),
        (
            [np.zeros((2, 8), np.int64), np.zeros((3, 8), np.int64)],
            "input 'mask' dimension 0 is 3, but it must equal dimension 0 of input 'ids', which is 2",
        ),
        (
            [np.zeros((2, 8), np.int64), np.zeros((8, 2), np.int64).T],
            "input 'mask' is not contiguous in memory",
        ),
    ],
)
def test_inputs_that_do_not_fit(arrays: list[np.ndarray], message: str) -> None:
    names = (ctypes.c_char_p * 2)(None, b"seq")
    with context() as handle:
        LIB.hipc_name_symbols(handle, names, ctypes.c_int64(2))
        with pytest.raises(KernelError) as caught:
            begin(handle, [IDS, MASK], arrays, 2)
        assert (caught.value.status, caught.value.message) == (INPUT, message)


def test_static_extents() -> None:
    with context() as handle, pytest.raises(KernelError, match="input 'x' dimension 1 is 4; the model takes 3"):
        begin(handle, [("x", 1, [-1, 3])], [np.zeros((9, 4), np.float32)], 1)


def test_errors_are_kept_placed_and_bounded() -> None:
    with context() as handle:
        assert LIB.hipc_error(handle, INDEX, b"index %lld of %s", ctypes.c_int64(7), b"axis 1") == INDEX
        assert LIB.hipc_last_error(handle) == b"index 7 of axis 1"
        assert LIB.hipc_fail(handle, INDEX, b"/block/Gather (Gather)") == INDEX
        assert LIB.hipc_last_error(handle) == b"/block/Gather (Gather): index 7 of axis 1"
        LIB.hipc_error(handle, INDEX, b"%s", b"x" * 5000)
        assert LIB.hipc_last_error(handle) == b"x" * 1023
        begin(handle, [], [])
        assert LIB.hipc_last_error(handle) == b""
        assert LIB.hipc_fail(handle, 9, b"node") == 9
        assert LIB.hipc_last_error(handle) == b"node: failed with status 9"
        assert LIB.hipc_check(handle, 1, b"never") == 0
        assert LIB.hipc_check(handle, 0, b"extents 2 and 3 do not broadcast") == 2
        assert LIB.hipc_last_error(handle) == b"extents 2 and 3 do not broadcast"


def test_arena_grows_keeps_and_trims() -> None:
    with context() as handle:
        small = LIB.hipc_pool(handle, ctypes.c_int64(0), ctypes.c_int64(100))
        assert small % 64 == 0 and LIB.hipc_arena_bytes(handle) == 100
        assert LIB.hipc_pool(handle, ctypes.c_int64(0), ctypes.c_int64(50)) == small
        ctypes.memset(small, 7, 100)
        big = LIB.hipc_pool(handle, ctypes.c_int64(0), ctypes.c_int64(1 << 20))
        # What a run outgrew stays readable until the next run.
        assert big % 64 == 0 and ctypes.string_at(small, 100) == b"\7" * 100
        begin(handle, [], [])
        assert LIB.hipc_arena_bytes(handle) == 1 << 20
        other = LIB.hipc_pool(handle, ctypes.c_int64(1), ctypes.c_int64(64))
        assert other not in (small, big)
        assert LIB.hipc_scratch(handle, ctypes.c_int64(1000)) % 64 == 0
        peak = LIB.hipc_arena_peak(handle)
        assert peak == (1 << 20) + 64 + 1000
        assert LIB.hipc_trim(handle) == 0
        assert (LIB.hipc_arena_bytes(handle), LIB.hipc_arena_peak(handle)) == (0, peak)
        assert LIB.hipc_pool(handle, ctypes.c_int64(0), ctypes.c_int64(0)) is not None


def test_loops_release_what_they_do_not_pass_on() -> None:
    alloc, mark, release = LIB.hipc_alloc, LIB.hipc_mark, LIB.hipc_release
    alloc.restype, mark.restype, release.restype = ctypes.c_void_p, ctypes.c_int64, None

    def free(since: int, *kept: int) -> None:
        addresses = (ctypes.c_void_p * max(len(kept), 1))(*kept)
        release(handle, ctypes.c_int64(since), addresses, ctypes.c_int64(len(kept)))

    with context() as handle:
        before = alloc(handle, ctypes.c_int64(100))
        outer = mark(handle)
        state = alloc(handle, ctypes.c_int64(1000))
        inner = mark(handle)
        alloc(handle, ctypes.c_int64(10))
        part = alloc(handle, ctypes.c_int64(20)) + 16
        free(inner, part)
        assert LIB.hipc_arena_bytes(handle) == 1120
        free(outer, state, 0)
        assert LIB.hipc_arena_bytes(handle) == 1100
        ctypes.memset(before, 7, 100)
        ctypes.memset(state, 7, 1000)
        # An arena that a loop outgrows goes too.
        LIB.hipc_pool(handle, ctypes.c_int64(0), ctypes.c_int64(64))
        LIB.hipc_pool(handle, ctypes.c_int64(0), ctypes.c_int64(640))
        assert LIB.hipc_arena_bytes(handle) == 1100 + 64 + 640
        free(outer)
        assert LIB.hipc_arena_bytes(handle) == 100 + 640
        begin(handle, [], [])
        assert LIB.hipc_arena_bytes(handle) == 640


def test_arena_errors() -> None:
    with context() as handle:
        assert LIB.hipc_pool(handle, ctypes.c_int64(5000), ctypes.c_int64(1)) is None
        assert b"pool domain 5000" in LIB.hipc_last_error(handle)
        assert LIB.hipc_pool(handle, ctypes.c_int64(0), ctypes.c_int64(1 << 60)) is None
        assert LIB.hipc_last_error(handle) == b"no memory for an arena of %d bytes" % (1 << 60)
        assert LIB.hipc_scratch(handle, ctypes.c_int64(-1)) is None


def test_device_memory_is_refused() -> None:
    spec = (InputSpec * 1)(InputSpec(b"ids", 7, 1, (ctypes.c_int64 * 1)(-1)))
    ids = (Tensor * 1)(describe(np.zeros(4, np.int64)))
    counts = ctypes.c_int64(1), ctypes.c_int64(1)
    with context() as handle:
        io = Io(ids, 1, None, AllocateOutput(), (ctypes.c_uint8 * 1)(1))
        assert LIB.hipc_begin(handle, ctypes.byref(io), spec, *counts) == INPUT
        assert LIB.hipc_last_error(handle) == b"input 'ids' is in device memory; the host target takes host memory"
        io = Io(ids, 1, None, AllocateOutput(), (ctypes.c_uint8 * 1)(0), 1)
        assert LIB.hipc_begin(handle, ctypes.byref(io), spec, *counts) == OUTPUT
        assert b"outputs in device memory" in LIB.hipc_last_error(handle)
        io = Io(ids, 1, None, AllocateOutput(), (ctypes.c_uint8 * 1)(0), 0)
        assert LIB.hipc_begin(handle, ctypes.byref(io), spec, *counts) == 0
        assert LIB.hipc_end(handle, 0) == 0


def alloc_output(handle: ctypes.c_void_p, shape: Sequence[int], answer: int | None) -> tuple[int | None, list[object]]:
    """hipc_alloc_output of output 3 with an allocator that answers with an address; and what the allocator saw."""
    seen: list[object] = []

    def allocate(_: object, index: int, dtype: int, rank: int, extents: ctypes.Array[ctypes.c_int64]) -> int | None:
        seen.append((index, dtype, [extents[i] for i in range(rank)]))
        return answer

    io = Io(None, 0, None, AllocateOutput(allocate))
    assert LIB.hipc_begin(handle, ctypes.byref(io), None, ctypes.c_int64(0), ctypes.c_int64(0)) == 0
    block = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    return LIB.hipc_alloc_output(handle, ctypes.c_int64(3), 1, len(shape), block), seen


def test_outputs() -> None:
    with context() as handle:
        assert alloc_output(handle, [2, 5], 640) == (640, [(3, 1, [2, 5])])
        assert alloc_output(handle, [2, 5], None)[0] is None
        assert LIB.hipc_last_error(handle) == b"the caller gave no memory for output 3: float[2, 5]"
        assert alloc_output(handle, [2, 5], 648)[0] is None
        assert LIB.hipc_last_error(handle) == b"the caller's memory for output 3 is not 64-byte aligned"
        assert alloc_output(handle, [0, 5], None)[0] is not None
        assert alloc_output(handle, [-2], 640)[0] is None
        assert b"extent -2 in dimension 0" in LIB.hipc_last_error(handle)


def init(constants: bytes | None, needed: int, shift: int = 0) -> tuple[int, bytes, int | None]:
    """Status of hipc_init, its message, and the address of the constants; the asked-for file is checked."""
    block = np.zeros(len(constants or b"") + 128, np.uint8)
    start = block.ctypes.data + -block.ctypes.data % 64 + shift

    def map_file(_: object, name: bytes, size: ctypes.Array[ctypes.c_int64]) -> int | None:
        assert name == b"constants.bin"
        if constants is None:
            return None
        ctypes.memmove(start, constants, len(constants))
        size[0] = len(constants)
        return start

    handle = ctypes.c_void_p()
    function = MapFile(map_file)
    files = Files(None, function, 1)
    status = LIB.hipc_init(ctypes.byref(handle), ctypes.byref(files), ctypes.c_int64(needed))
    found = (status, LIB.hipc_last_error(handle), LIB.hipc_constants(handle))
    LIB.hipc_cleanup(handle)
    return found[0], found[1], None if found[2] is None else found[2] - start


def test_constants() -> None:
    assert init(b"a" * 64, 64) == (0, b"", 0)
    assert init(None, 0) == (0, b"", None)
    assert init(None, 8) == (CONSTANTS, b"constants.bin is missing from the artifact", None)
    assert init(b"a" * 8, 64) == (CONSTANTS, b"constants.bin has 8 bytes; the model reads 64", None)
    assert init(b"a" * 64, 64, shift=8)[0] == CONSTANTS


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("iterations", [0, 1, 2, 7, 1000, 12345])
def test_launch_runs_every_iteration_once(iterations: int, threads: int) -> None:
    counts = np.zeros(max(iterations, 1), np.int32)
    seen: set[int] = set()

    def kernel(arguments: int, first: int, last: int) -> None:
        assert arguments == 1234 and first < last
        counts[first:last] += 1
        seen.add(threading.get_ident())

    with context(threads) as handle:
        assert LIB.hipc_num_threads(handle) == threads
        for _ in range(3):
            LIB.hipc_launch(
                handle, Kernel(kernel), ctypes.c_void_p(1234), ctypes.c_int64(iterations), ctypes.c_int64(1 << 20)
            )
    assert (counts[:iterations] == 3).all()
    assert len(seen) <= threads


def test_small_launches_stay_on_the_calling_thread() -> None:
    chunks: list[tuple[int, int, int]] = []

    def kernel(_: int, first: int, last: int) -> None:
        chunks.append((first, last, threading.get_ident()))

    with context(2) as handle:
        LIB.hipc_launch(handle, Kernel(kernel), None, ctypes.c_int64(100), ctypes.c_int64(10))
    assert chunks == [(0, 100, threading.get_ident())]


def test_work_is_shared() -> None:
    seen: set[int] = set()

    def kernel(_: int, first: int, last: int) -> None:
        seen.add(threading.get_ident())
        deadline = time.monotonic() + 10
        # The first chunk waits for a second thread to join in.
        while len(seen) < 2 and time.monotonic() < deadline:
            time.sleep(0.001)

    with context(2) as handle:
        LIB.hipc_launch(handle, Kernel(kernel), None, ctypes.c_int64(8), ctypes.c_int64(1 << 20))
    assert len(seen) == 2


def test_launches_inside_launches_and_from_several_threads() -> None:
    lock = threading.Lock()
    total = 0

    def inner(_: int, first: int, last: int) -> None:
        nonlocal total
        with lock:
            total += last - first

    inner_kernel = Kernel(inner)
    with context(2) as handle:

        def outer(_: int, first: int, last: int) -> None:
            for _ in range(first, last):
                LIB.hipc_launch(handle, inner_kernel, None, ctypes.c_int64(50), ctypes.c_int64(1 << 20))

        outer_kernel = Kernel(outer)

        def run() -> None:
            for _ in range(5):
                LIB.hipc_launch(handle, outer_kernel, None, ctypes.c_int64(8), ctypes.c_int64(1 << 20))

        callers = [threading.Thread(target=run) for _ in range(3)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert total == 3 * 5 * 8 * 50


def test_idle_threads_sleep() -> None:
    def kernel(_: int, first: int, last: int) -> None:
        pass

    with context(2) as handle:
        LIB.hipc_launch(handle, Kernel(kernel), None, ctypes.c_int64(64), ctypes.c_int64(1 << 20))
        time.sleep(0.02)
        before = time.process_time()
        time.sleep(0.2)
        assert time.process_time() - before < 0.05


def test_threads_sleep_inside_a_long_run_and_after_it() -> None:
    """Workers wait awake for a run's next job, but not for long, and every run finds them again."""
    counts = np.zeros(3, np.int64)

    def kernel(_: int, begin_at: int, end: int) -> None:
        counts[run] += end - begin_at

    with context(2) as handle:
        for run in range(3):
            begin(handle, [], [])
            LIB.hipc_launch(handle, Kernel(kernel), None, ctypes.c_int64(64), ctypes.c_int64(1 << 20))
            if run == 1:
                before = time.process_time()
                time.sleep(0.2)
                assert time.process_time() - before < 0.1
            assert LIB.hipc_end(handle, 0) == 0
        before = time.process_time()
        time.sleep(0.2)
        assert time.process_time() - before < 0.1
    assert counts.tolist() == [64, 64, 64]


def test_contexts_come_and_go() -> None:
    total = 0
    lock = threading.Lock()

    def kernel(_: int, first: int, last: int) -> None:
        nonlocal total
        with lock:
            total += last - first

    function = Kernel(kernel)
    for _ in range(30):
        with context(2) as one, context(3) as two:
            for handle in (one, two):
                LIB.hipc_launch(handle, function, None, ctypes.c_int64(40), ctypes.c_int64(1 << 20))
    assert total == 30 * 2 * 40
    assert threading.active_count() < 20


def test_default_is_one_thread_per_core() -> None:
    with context(0) as handle:
        assert LIB.hipc_num_threads(handle) == len(os.sched_getaffinity(0))
