"""Sessions of ONNX Runtime with the provider: results, ways to run, threads, errors, and what is given back."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import hip_compiler
from hip_compiler.ort import OPTIONS, PROVIDER, compile_context, connect, register
from hip_compiler.ort.bridge import PROGRAMS
from tests.ort.models import BY_NAME, COLUMNS, INNER, check, make, node, plain, product, session, source, values


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return product()


@pytest.fixture(scope="module")
def made(model: onnx.ModelProto) -> Any:
    return session(model)


@pytest.mark.parametrize("rows", [1, 7, 0, 33])
def test_results_at_every_extent(model: onnx.ModelProto, made: Any, rows: int) -> None:
    check(made, model, {"x": values(rows, INNER, seed=rows)})


def test_registering_again_adds_no_device() -> None:
    assert len(register()) == len(register()) == 1


def test_sessions_outlive_their_registration() -> None:
    """ONNX Runtime does not refuse to unregister a library that sessions use. In a process of its own."""
    code = """
import sys
import numpy as np, onnxruntime
import hip_compiler.ort
from tests.ort.models import product, session
feeds = {"x": np.ones((2, 64), np.float32)}
first = session(product())
expected = first.run(None, feeds)[0]
onnxruntime.unregister_execution_provider_library(hip_compiler.ort.PROVIDER)
assert (first.run(None, feeds)[0] == expected).all() and expected.any()
second = session(product())
del first
assert (second.run(None, feeds)[0] == expected).all()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("_", [BY_NAME])
def test_by_name(model: onnx.ModelProto, _: bool) -> None:
    register()
    named = onnxruntime.InferenceSession(
        source(model), providers=[(PROVIDER, {"opt_level": "1"}), "CPUExecutionProvider"]
    )
    check(named, model, {"x": values(3, INNER)})


def test_it_is_the_compilers_own_result(model: onnx.ModelProto, made: Any) -> None:
    x = values(9, INNER, seed=3)
    assert made.run(None, {"x": x})[0].tobytes() == hip_compiler.compile(model).run({"x": x})["y"].tobytes()


def test_bound_outputs(model: onnx.ModelProto, made: Any) -> None:
    """Memory of the caller's, aligned as the program wants it and not; and memory that holds the input."""
    square = make([node("MatMul", "x w", "a"), node("Add", "a x", "y")], {"x": [8, 8]}, {"y": [8, 8]}, w=values(8, 8))
    x = values(8, 8, seed=2)
    expected = plain(square).run(None, {"x": x})[0]
    bound = session(square)
    for shift in (0, 4, 64):
        memory = np.zeros(8 * 8 * 4 + 128, np.uint8)
        start = -memory.__array_interface__["data"][0] % 64 + shift
        target = memory[start : start + 256].view(np.float32).reshape(8, 8)
        for feed in (x, target):
            target[...] = x if feed is target else 0
            binding = bound.io_binding()
            binding.bind_cpu_input("x", feed)
            binding.bind_output("y", "cpu", 0, np.float32, (8, 8), target.__array_interface__["data"][0])
            bound.run_with_iobinding(binding)
            np.testing.assert_allclose(target, expected, rtol=1e-5, atol=1e-6)


def test_run_async(model: onnx.ModelProto, made: Any) -> None:
    x, done, results = values(4, INNER), threading.Event(), []

    def finished(outputs: Any, _: object, error: str) -> None:
        results.append((outputs, error))
        done.set()

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 2
    settings.add_provider_for_devices(register(), {})
    two_threads = onnxruntime.InferenceSession(source(model), settings)
    two_threads.run_async(None, {"x": x}, finished, None)
    assert done.wait(60)
    [(outputs, error)] = results
    assert not error
    np.testing.assert_array_equal(outputs[0], made.run(None, {"x": x})[0])


def test_eight_threads_on_one_session(model: onnx.ModelProto, made: Any) -> None:
    feeds = [{"x": values(1 + number, INNER, seed=number)} for number in range(8)]
    expected = [made.run(None, feed)[0].tobytes() for feed in feeds]
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(200):
            index = (number + turn) % 8
            if made.run(None, feeds[index])[0].tobytes() != expected[index]:
                wrong.append(index)

    crew = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    before = resident()
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert wrong == []
    # What a thread leaves behind is its stack, which the system keeps for the next one.
    assert resident() - before < 8 << 20


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("kind", ["compiled", "context"])
def test_fifty_sessions_leave_nothing_behind(tmp_path: Path, model: onnx.ModelProto, kind: str) -> None:
    gc.collect()
    held = len(PROGRAMS)
    x = {"x": values(2, INNER)}
    # The compile cache leaves the making of sessions, and not the memory of fifty compilations, to be measured.
    options = {"num_threads": "1"} | ({"cache_dir": str(tmp_path)} if kind == "compiled" else {})
    chosen: onnx.ModelProto | str = model
    if kind == "context":
        onnx.save(model, tmp_path / "m.onnx")
        chosen = str(compile_context(tmp_path / "m.onnx", tmp_path / "c.onnx", strict=1))
    expected = session(chosen, options).run(None, x)[0]

    def turn(count: int) -> int:
        for _ in range(count):
            np.testing.assert_array_equal(session(chosen, options).run(None, x)[0], expected)
        gc.collect()
        return resident()

    before = turn(15)
    # 40 KiB a session: less than a program, a thread's stack, or the constants of one.
    assert turn(50) - before < 2 << 20
    assert len(PROGRAMS) == held


def test_sessions_in_several_threads(model: onnx.ModelProto) -> None:
    """Compilations at one time, while another thread runs."""
    failures: list[BaseException] = []
    feeds = {"x": values(2, INNER)}

    def work() -> None:
        try:
            check(session(model), model, feeds)
        except BaseException as error:  # noqa: BLE001 - the thread's failure is the test's
            failures.append(error)

    crew = [threading.Thread(target=work) for _ in range(3)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert failures == []


def test_types_beyond_float() -> None:
    nodes = [
        node("Cast", "x", "a", to=10),
        node("Add", "a h", "half"),
        node("ArgMax", "x", "index", axis=1, keepdims=0),
        node("Greater", "x zero", "positive"),
    ]
    outputs = {"half": (10, ["n", 4]), "index": (7, ["n"]), "positive": (9, ["n", 4])}
    model = make(nodes, {"x": ["n", 4]}, outputs, h=np.array([[1, 2, 3, 4]], np.float16), zero=np.zeros((), np.float32))
    check(session(model, {"strict": "1"}), model, {"x": values(5, 4)}, 1e-3)


def test_an_error_of_the_run_names_the_node_and_does_not_run_elsewhere() -> None:
    model = make(
        [node("Gather", "table i", "y", "rows/gather")], {"i": (7, ["n"])}, {"y": ["n", 4]}, table=values(6, 4)
    )
    made = session(model)
    with pytest.raises(Exception, match="rows/gather"):
        made.run(None, {"i": np.array([1, 9])})
    np.testing.assert_array_equal(made.run(None, {"i": np.array([1, -1])})[0], values(6, 4)[[1, -1]])


def test_extents_that_contradict_each_other_are_an_error() -> None:
    model = make([node("Add", "a b", "y")], {"a": ["n"], "b": ["n"]}, {"y": ["n"]})
    with pytest.raises(Exception, match="input 'b' dimension 0 is 3"):
        session(model).run(None, {"a": values(2), "b": values(3)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bogus": "1"}, "HIPC0001: there is no option 'bogus'; options: target, device_id"),
        ({"opt_level": "9"}, "HIPC0001: option 'opt_level' is 0, 1, 2 or 3, not '9'"),
        ({"strict": "perhaps"}, "HIPC0001: option 'strict' is 0 or 1, not 'perhaps'"),
        ({"num_threads": "-2"}, "HIPC0001: option 'num_threads' is a number"),
        ({"graph_capture": "1"}, "HIPC0001: option 'graph_capture' is one of GPU targets"),
        ({"arch": "gfx942"}, "HIPC0001: option 'arch' is one of GPU targets"),
        ({"target": "abacus"}, "HIPC0502: there is no target 'abacus'"),
        ({"plugins": "nobody"}, "HIPC0401"),
        ({"pipeline": "builtin.module(no-such-pass)"}, "HIPC0301"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("by_name", [pytest.param(False, id="devices"), BY_NAME])
def test_options_that_cannot_be_taken_are_errors(
    model: onnx.ModelProto, options: dict[str, str], message: str, by_name: bool
) -> None:
    with pytest.raises(Exception) as caught:
        if by_name:
            register()
            onnxruntime.InferenceSession(source(model), providers=[(PROVIDER, options)], enable_fallback=0)
        else:
            session(model, options)
    assert message in str(caught.value)


def test_the_library_and_python_know_the_same_options() -> None:
    import ctypes

    name_of = ctypes.CDLL(str(connect())).hip_ep_option
    name_of.restype = ctypes.c_char_p
    names: list[str] = []
    while (name := name_of(len(names))) is not None:
        names.append(name.decode())
    assert names == [option.name for option in OPTIONS]


def test_compiled_models_are_kept_and_found_again(tmp_path: Path, model: onnx.ModelProto) -> None:
    options = {"cache_dir": str(tmp_path)}
    check(session(model, options), model, {"x": values(2, INNER)})
    [entry] = (tmp_path / "models").iterdir()
    changed = entry.stat().st_mtime_ns
    check(session(model, options), model, {"x": values(2, INNER)})
    assert [other.stat().st_mtime_ns for other in (tmp_path / "models").iterdir()] == [changed]


def test_other_weights_are_another_model(tmp_path: Path, model: onnx.ModelProto) -> None:
    """Constants are handed over by address; the cache goes by what is there."""
    options = {"cache_dir": str(tmp_path)}
    session(model, options)
    other = onnx.ModelProto()
    other.CopyFrom(model)
    other.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(values(INNER, COLUMNS, seed=9), "w"))
    check(session(other, options), other, {"x": values(2, INNER)})


@pytest.mark.parametrize("how", ["compiled", "not shared", "context"])
def test_a_cache_grows_in_its_own_buffer(how: str, tmp_path: Path) -> None:
    """Past and present of an attention in one buffer, step by step, as plain ONNX Runtime has it."""
    heads, size, room = 2, 16, 12
    attention = node(
        "GroupQueryAttention", "q k v past_k past_v last total", "y present_k present_v", "attention",
        domain="com.microsoft", num_heads=heads, kv_num_heads=heads,
    )  # fmt: skip
    cache = [1, heads, room, size]
    inputs: dict[str, Any] = {name: [1, "s", heads * size] for name in "qkv"}
    inputs |= {"past_k": cache, "past_v": cache, "last": (6, [1]), "total": (6, [])}
    model = make([attention], inputs, {"y": [1, "s", heads * size], "present_k": cache, "present_v": cache})
    assert hip_compiler.compile(model).metadata.shared == (("past_k", "present_k"), ("past_v", "present_v"))
    reference = plain(model)
    if how == "context":
        onnx.save(model, tmp_path / "m.onnx")
        made = session(str(compile_context(tmp_path / "m.onnx", tmp_path / "c.onnx", strict=1)))
    else:
        made = session(model, {"strict": "1", "kv_share": str(int(how == "compiled"))})
    buffers = {name: onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(cache, np.float32)) for name in ("k", "v")}
    own = {name: onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(cache, np.float32)) for name in ("k", "v")}
    for step, length in enumerate((3, 1, 1)):
        total = 3 + step
        feeds = {name: values(1, length, heads * size, seed=10 * step + ord(name)) for name in "qkv"}
        scalars = {"last": np.array([total - 1], np.int32), "total": np.array(total, np.int32)}
        results = []
        for runner, cached in ((made, buffers), (reference, own)):
            binding = runner.io_binding()
            for name, value in {**feeds, **scalars}.items():
                binding.bind_cpu_input(name, value)
            for name, value in cached.items():
                binding.bind_ortvalue_input(f"past_{name}", value)
                binding.bind_ortvalue_output(f"present_{name}", value)
            binding.bind_output("y")
            runner.run_with_iobinding(binding)
            results.append(binding.copy_outputs_to_cpu()[0])
        assert np.any(results[1])
        np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)
        for name in ("k", "v"):
            np.testing.assert_allclose(buffers[name].numpy()[:, :, :total], own[name].numpy()[:, :, :total], rtol=1e-5)
