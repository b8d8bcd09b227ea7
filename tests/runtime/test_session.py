"""Sessions: feeds in, outputs out, errors as sentences, nothing left behind."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hip_compiler.dtypes import DTYPES
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import Session
from tests.runtime import programs

Open = Callable[..., Session]


@pytest.fixture
def open_session(tmp_path: Path, runtime: Path) -> Open:
    def make(
        dtype: str = "float", shape: tuple[int | str, ...] = ("n",), program: bytes | None = None, threads: int = 1
    ) -> Session:
        artifact = programs.save(
            tmp_path / "m.hipc", program or programs.copy_program(dtype, len(shape)), programs.metadata(dtype, shape)
        )
        return Session(artifact, threads, runtime_bitcode=runtime)

    return make


def refused(session: Session, feeds: dict[str, Any], code: ErrorCode = ErrorCode.FEED, **options: Any) -> str:
    with pytest.raises(HipCompilerError) as caught:
        session.run(feeds, **options)
    assert caught.value.code == code
    return str(caught.value)


@pytest.mark.parametrize("dtype", [row for row in DTYPES if row.numpy is not None], ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (2, 3, 4)])
def test_every_type_and_rank(open_session: Open, dtype: Any, shape: tuple[int, ...]) -> None:
    count = int(np.prod(shape))
    values = (np.arange(count) % 2).reshape(shape).astype(dtype.numpy)
    with open_session(dtype.name, tuple(f"d{axis}" for axis in range(len(shape)))) as session:
        y = session.run({"x": values})["y"]
    assert y.dtype == dtype.numpy
    assert y.shape == shape
    assert y.tobytes() == values.tobytes()
    assert y.__array_interface__["data"][0] % 64 == 0


def test_every_extent_with_one_session(open_session: Open) -> None:
    with open_session(shape=("n", 3)) as session:
        for n in (1, 7, 0, 100, 7):
            x = np.random.default_rng(n).standard_normal((n, 3)).astype(np.float32)
            np.testing.assert_array_equal(session.run({"x": x})["y"], x)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32),
        lambda x: np.broadcast_to(x[:1], 8),
        lambda x: x[:4].tolist(),
        lambda x: Exporter(x),
        lambda x: Exporter(x[::2]),
    ],
    ids=["strided", "reversed", "misaligned", "broadcast", "list", "dlpack", "strided dlpack"],
)
def test_feeds_of_other_layouts(open_session: Open, make: Callable[[np.ndarray], Any]) -> None:
    fed = make(np.arange(16, dtype=np.float32))
    expected = np.array(fed.array if isinstance(fed, Exporter) else fed, np.float32)
    with open_session() as session:
        np.testing.assert_array_equal(session.run({"x": fed})["y"], expected)


class Exporter:
    """An array of another library: all it has is DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_outputs_are_dlpack_tensors(open_session: Open) -> None:
    with open_session() as session:
        y = session.run({"x": np.array([1, 2], np.float32)})["y"]
    np.testing.assert_array_equal(np.from_dlpack(y), [1, 2])


def test_wrong_names(open_session: Open) -> None:
    with open_session() as session:
        message = refused(session, {"xs": np.zeros(1, np.float32)})
        assert "missing: x: float[n]" in message
        assert "unknown: xs (did you mean x?)" in message
        assert "unknown: z" in refused(session, {"x": np.zeros(1, np.float32), "z": 1})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(2), "float64, the model takes float32"),
        (np.zeros(2, np.int32), "int32, the model takes float32"),
        (np.zeros(2, ">f4"), ">f4, the model takes float32"),
        (np.zeros((2, 2), np.float32), "rank 2 [2, 2]"),
        (np.float32(1), "rank 0 []"),
        ("text", "<U4"),
        ([[1], [2, 3]], "is not an array"),
        ([1j], "complex128"),
        (None, "object"),
    ],
)
def test_feeds_are_not_cast(open_session: Open, value: Any, words: str) -> None:
    with open_session() as session:
        assert words in refused(session, {"x": value})


@pytest.mark.parametrize(("value", "fits"), [([1, 255], True), ([256], False), ([-1], False), ([0.5], False)])
def test_numbers_must_fit(open_session: Open, value: list[float], fits: bool) -> None:
    with open_session("uint8") as session:
        if fits:
            np.testing.assert_array_equal(session.run({"x": value})["y"], value)
        else:
            refused(session, {"x": value})


def test_extents_must_fit(open_session: Open) -> None:
    with open_session(shape=("n", "n", 4)) as session:
        message = refused(session, {"x": np.zeros((2, 3, 5), np.float32)})
        assert "axis 1 has extent 3, but n is 2 in 'x' axis 0" in message
        assert "axis 2 has extent 5, the model takes 4" in message
        assert session.run({"x": np.zeros((2, 2, 4), np.float32)})["y"].shape == (2, 2, 4)
        refused(session, {"x": np.zeros((2, 3, 4), np.float32)})


def test_device_tensors_are_refused(open_session: Open) -> None:
    class OnDevice(Exporter):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 10, 0

    with open_session() as session:
        assert "is on ROCm, not on the CPU" in refused(session, {"x": OnDevice(np.zeros(1, np.float32))})


@pytest.mark.parametrize("start", range(0, 16, 4))
def test_outputs_into_the_callers_memory(open_session: Open, start: int) -> None:
    memory = np.zeros(64, np.float32)
    given = memory[start : start + 32]
    x = np.arange(32, dtype=np.float32)
    with open_session() as session:
        result = session.run({"x": x}, outputs={"y": given})
    assert result["y"] is given
    np.testing.assert_array_equal(given, x)
    assert not memory[:start].any()
    assert not memory[start + 32 :].any()


def test_output_over_its_own_input(open_session: Open) -> None:
    memory = np.arange(40, dtype=np.float32)
    expected = memory[:32].copy()
    with open_session() as session:
        session.run({"x": memory[:32]}, outputs={"y": memory[8:]})
    np.testing.assert_array_equal(memory[8:], expected)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"z": np.zeros(2, np.float32)}, "no output 'z'"),
        ({"y": np.zeros(2)}, "element type float64"),
        ({"y": np.zeros(4, np.float32)[::2]}, "not C-contiguous"),
        ({"y": np.zeros(3, np.float32)}, "shape [3], the output [2]"),
        ({"y": [0, 0]}, "list, not a NumPy array"),
    ],
)
def test_arrays_that_cannot_receive(open_session: Open, given: dict[str, Any], words: str) -> None:
    with open_session() as session:
        assert words in refused(session, {"x": np.zeros(2, np.float32)}, outputs=given)
        assert session.run({"x": np.ones(2, np.float32)})["y"].all()


def test_a_failing_operator_is_named(open_session: Open) -> None:
    with open_session(program=programs.failing_program()) as session:
        message = refused(session, {"x": np.zeros(1, np.float32)}, ErrorCode.RUN_FAILED)
    assert "node /a/b (MatMul)" in message
    assert "status 3: an index is outside its axis" in message


def test_memory_that_cannot_be_had(open_session: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> np.ndarray:
        raise MemoryError("too much")

    with open_session() as session:
        monkeypatch.setattr("hip_compiler.runtime.outputs.empty", fail)
        assert "no memory for output 'y'" in refused(session, {"x": np.zeros(1, np.float32)}, ErrorCode.RUN_FAILED)


def test_an_interrupt_in_the_allocator_is_raised(open_session: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> np.ndarray:
        raise KeyboardInterrupt

    with open_session() as session:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("hip_compiler.runtime.outputs.empty", interrupt)
            session.run({"x": [1.0]})
        assert session.run({"x": [1.0]})["y"] == [1]


def test_a_number_of_threads(open_session: Open) -> None:
    with pytest.raises(HipCompilerError, match="-1 is no number of threads"):
        open_session(threads=-1)


def test_arena_and_trim(open_session: Open) -> None:
    with open_session() as session:
        assert session.arena_bytes == 0
        session.run({"x": [1.0]})
        assert session.arena_bytes == 4096
        session.trim()
        assert session.arena_bytes == 0


def test_interface(open_session: Open) -> None:
    with open_session("bfloat16", ("batch", 4)) as session:
        (x,) = session.inputs
        (y,) = session.outputs
        assert (x.name, x.dtype.numpy, x.shape) == ("x", ml_dtypes.bfloat16, ("batch", 4))
        assert str(y) == "y: bfloat16[batch, 4]"
        assert repr(session) == "<Session test: x: bfloat16[batch, 4] -> y: bfloat16[batch, 4]>"


@pytest.mark.parametrize("how", ["close", "with", "drop"])
def test_cleanup_happens_once(open_session: Open, tmp_path: Path, how: str) -> None:
    log = tmp_path / "log"
    session = open_session(program=programs.copy_program(log=str(log)))
    y = session.run({"x": [3.0]})["y"]
    if how == "close":
        session.close()
        session.close()
    elif how == "with":
        with session:
            assert not log.exists()
    if how != "drop":
        refused(session, {"x": [3.0]}, ErrorCode.USAGE)
    del session
    gc.collect()
    assert log.read_text() == "c"
    assert y[0] == 3


def test_two_threads_share_a_session(open_session: Open) -> None:
    wrong: list[int] = []

    def work(number: int, session: Session) -> None:
        for step in range(200):
            n = (number + step) % 5 + 1
            x = np.full(n, number * 1000 + step, np.float32)
            if not np.array_equal(session.run({"x": x})["y"], x):
                wrong.append(step)

    with open_session() as session:
        threads = [threading.Thread(target=work, args=(number, session)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_sessions_leave_no_memory_behind(tmp_path: Path, runtime: Path) -> None:
    artifact = programs.save(tmp_path / "m.hipc")

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    def cycle(times: int) -> None:
        for _ in range(times):
            with Session(artifact, 1, runtime_bitcode=runtime) as session:
                session.run({"x": [1.0]})

    cycle(20)
    before = resident()
    cycle(200)
    # One page per session would be 800 kB.
    assert resident() - before < 400_000
