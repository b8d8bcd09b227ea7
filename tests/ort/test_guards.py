"""Where ONNX Runtime would go on without a word, or would fail far from the cause: the provider does not let it."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from hip_compiler.core.conversion import ops as _converters  # noqa: F401  (fills the converter table)
from hip_compiler.core.conversion.onnx_op import CONVERTERS
from hip_compiler.errors import HipCompilerError
from hip_compiler.ort import PROVIDER, compile_context, connect, library_path, register
from hip_compiler.ort.bridge import PROGRAMS
from tests.ort.models import (
    INNER,
    VERSION,
    check,
    islands,
    make,
    needs_outer_values,
    node,
    plain,
    product,
    session,
    source,
    values,
)
from tests.ort.test_overhead import build
from tests.ort.test_partial import branches

HOW = [
    pytest.param(False, id="devices"),
    pytest.param(
        True,
        id="name",
        marks=pytest.mark.skipif(
            VERSION < (1, 28, 0), reason="before 1.28 Python makes a CPU session of one whose named provider failed"
        ),
    ),
]


def usual(model: onnx.ModelProto, by_name: bool = False, **options: str) -> Any:
    """A session as programs make it, with Python's own fallback to the CPU left on."""
    if by_name:
        register()
        return onnxruntime.InferenceSession(source(model), providers=[(PROVIDER, options), "CPUExecutionProvider"])
    settings = onnxruntime.SessionOptions()
    settings.add_provider_for_devices(register(), options)
    return onnxruntime.InferenceSession(source(model), settings)


def test_a_run_that_fails_is_not_repeated_on_the_cpu() -> None:
    """Python does that for one kind of error, which is not the one that comes."""
    rows = make([node("Gather", "table i", "y", "rows")], {"i": (7, ["n"])}, {"y": ["n", 4]}, table=values(6, 4))
    made = usual(rows)
    for _ in range(2):
        with pytest.raises(Exception, match="status 3"):
            made.run(None, {"i": np.array([9])})
        assert made.get_providers()[0] == PROVIDER
    check(made, rows, {"i": np.array([5, 1])})


@pytest.mark.parametrize("by_name", HOW)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bogus": "1"}, "HIPC0001: there is no option 'bogus'"),
        ({"target": "abacus"}, "HIPC0502: there is no target 'abacus'"),
        ({"pipeline": "builtin.module(simplify-onnx)"}, "HIPC0"),
        ({"profile": "/no/such/folder/times.json"}, "HIPC0001: option profile"),
    ],
    ids=["option", "target", "pipeline", "profile"],
)
def test_a_session_that_cannot_be_is_an_error(options: dict[str, str], message: str, by_name: bool) -> None:
    gc.collect()
    held = len(PROGRAMS)
    with pytest.raises(Exception) as caught:
        usual(product(), by_name, **options)
    assert message in str(caught.value)
    # What was compiled before the error is given back.
    gc.collect()
    assert len(PROGRAMS) == held


def test_programs_made_before_an_error_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of three groups does not compile."""
    monkeypatch.delitem(CONVERTERS, ("", "Erf"))
    import hip_compiler.core.driver as driver

    compiled: list[int] = []
    real = driver.compile_model

    def second_fails(*arguments: Any, **options: Any) -> Any:
        compiled.append(1)
        if len(compiled) == 2:
            raise MemoryError("no room")
        return real(*arguments, **options)

    monkeypatch.setattr(driver, "compile_model", second_fails)
    gc.collect()
    held = len(PROGRAMS)
    with pytest.raises(Exception, match="MemoryError: no room"):
        usual(islands())
    gc.collect()
    assert len(compiled) == 2 and len(PROGRAMS) == held


def test_onnx_runtimes_own_guard_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entry that forbids nodes on the CPU: a whole model passes, one in part does not."""
    entry = "session.disable_cpu_ep_fallback"

    def make_session(model: onnx.ModelProto) -> Any:
        settings = onnxruntime.SessionOptions()
        settings.add_session_config_entry(entry, "1")
        settings.add_provider_for_devices(register(), {})
        return onnxruntime.InferenceSession(source(model), settings, enable_fallback=0)

    check(make_session(product()), product(), {"x": values(2, INNER)})
    monkeypatch.delitem(CONVERTERS, ("", "Erf"))
    with pytest.raises(Exception, match="CPU EP has been explicitly disabled"):
        make_session(product())


@pytest.mark.skipif(VERSION < (1, 24, 0), reason="ONNX Runtime before 1.24 does not tell which provider has a node")
def test_onnx_runtime_counts_what_the_line_counts(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(CONVERTERS, ("", "Erf"))
    settings = onnxruntime.SessionOptions()
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    settings.add_provider_for_devices(register(), {})
    made = onnxruntime.InferenceSession(source(islands()), settings)
    assert "assigned 4/6 nodes" in capfd.readouterr().err
    counts: dict[str, int] = {}
    for part in made.get_provider_graph_assignment_info():
        counts[part.ep_name] = counts.get(part.ep_name, 0) + len(part.get_nodes())
    assert counts == {PROVIDER: 4, "CPUExecutionProvider": 2}


Create = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p)
GetApi = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_uint32)


class Base(ctypes.Structure):
    """`OrtApiBase`."""

    _fields_ = [("get_api", GetApi), ("version", ctypes.c_void_p)]


@pytest.mark.parametrize("version", [b"1.22.1", b"1.23.0", b"1.19.2"])
def test_a_runtime_that_is_too_old_is_told_so(version: bytes) -> None:
    """1.23.0 has every function, and runs no model of which a part is compiled."""
    messages: list[bytes] = []
    asked: list[int] = []

    def create(code: int, text: bytes) -> int:
        messages.append(text)
        return 0x1234

    def get_api(wanted: int) -> int:
        asked.append(wanted)
        return ctypes.addressof(table) if wanted == 1 else 0

    text = ctypes.create_string_buffer(version)
    say, api, tell = Create(create), GetApi(get_api), ctypes.CFUNCTYPE(ctypes.c_size_t)(lambda: ctypes.addressof(text))
    table = (ctypes.c_void_p * 400)(ctypes.cast(say, ctypes.c_void_p).value)
    base = Base(api, ctypes.cast(tell, ctypes.c_void_p).value)
    make_factories = ctypes.CDLL(str(connect())).CreateEpFactories
    make_factories.restype = ctypes.c_size_t
    factories, count = (ctypes.c_void_p * 4)(), ctypes.c_size_t(9)
    status = make_factories(b"hip", ctypes.byref(base), None, factories, ctypes.c_size_t(4), ctypes.byref(count))
    assert status == 0x1234 and count.value == 0
    assert messages == [b"hip-compiler needs ONNX Runtime 1.23.1 or later"]
    # A version that a runtime does not have makes it write to the terminal: it is not asked for.
    assert asked == [1]


def test_the_path_of_the_library_is_whole() -> None:
    """ONNX Runtime looks for other paths beside its own library."""
    assert library_path().is_absolute() and connect() == library_path()


def test_attributes_of_every_kind_and_operands_that_are_absent(capfd: pytest.CaptureFixture[str]) -> None:
    """Numbers, text, lists of both and tensors arrive as they are; so does a missing operand between two others."""
    rng, hidden = np.random.default_rng(0), 5
    table = numpy_helper.from_array(np.array([0.5], np.float32), "fill")
    nodes = [
        helper.make_node("Clip", ["x", "", "top"], ["clipped"], name="clip"),
        helper.make_node(
            "LSTM", ["clipped", "w", "r", "", "", "start"], ["", "last"], name="lstm", hidden_size=hidden,
            activations=["HardSigmoid", "Tanh", "Affine"], activation_alpha=[0.3, 0.9], activation_beta=[0.4, 0.1],
            clip=3.0, direction="forward",
        ),
        helper.make_node("Shape", ["last"], ["shape"], name="shape"),
        helper.make_node("ConstantOfShape", ["shape"], ["half"], name="half", value=table),
        helper.make_node("Add", ["last", "half"], ["added"], name="add"),
        helper.make_node("Transpose", ["added"], ["y"], name="turn", perm=[2, 0, 1]),
    ]  # fmt: skip
    constants = {
        "w": rng.standard_normal((1, 4 * hidden, 3)),
        "r": rng.standard_normal((1, 4 * hidden, hidden)),
        "start": rng.standard_normal((1, 2, hidden)),
        "top": np.array(1.5),
    }
    model = make(
        nodes, {"x": [6, 2, 3]}, {"y": [hidden, 1, 2]}, **{n: v.astype(np.float32) for n, v in constants.items()}
    )
    check(session(model, {"strict": "1"}), model, {"x": values(6, 2, 3, seed=4)})
    assert "assigned" not in capfd.readouterr().err


@needs_outer_values
@pytest.mark.skipif(VERSION < (1, 32, 0), reason="1.28 writes no types of values that only the graphs of a node read")
def test_a_context_of_a_model_with_graphs_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime asks for a context of every graph; those of an If that stays have none."""
    monkeypatch.delitem(CONVERTERS, ("", "Erf"))
    model, path = branches("Erf", shared=False), tmp_path / "c.onnx"
    session(model, ep_context_enable="1", ep_context_file_path=str(path), ep_context_embed_mode="1")
    kinds = sorted(entry.op_type for entry in onnx.load(path).graph.node)
    assert kinds == ["EPContext", "EPContext", "If"]
    made = session(str(path))
    for flag in (True, False):
        feeds = {"x": values(3, INNER), "flag": np.array(flag)}
        expected = plain(model).run(None, feeds)[0]
        np.testing.assert_allclose(made.run(None, feeds)[0], expected, rtol=1e-4, atol=1e-5)


@needs_outer_values
def test_a_context_that_onnx_runtime_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves out constants that only the graphs of a node read, and finds it when it reads what it wrote."""
    monkeypatch.delitem(CONVERTERS, ("", "Erf"))
    onnx.save(branches("Erf"), tmp_path / "m.onnx")
    with pytest.raises(HipCompilerError, match="input 'c' of node") as caught:
        compile_context(tmp_path / "m.onnx", tmp_path / "c.onnx", embed=True)
    assert "cannot be made a context model" in str(caught.value)
    assert not (tmp_path / "c.onnx").exists()


def test_a_model_in_memory_with_its_data_elsewhere(tmp_path: Path) -> None:
    model = product()
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    content = (tmp_path / "m.onnx").read_bytes()
    settings = onnxruntime.SessionOptions()
    settings.add_session_config_entry("session.model_external_initializers_file_folder_path", str(tmp_path))
    settings.add_provider_for_devices(register(), {"strict": "1"})
    made = onnxruntime.InferenceSession(content, settings, enable_fallback=0)
    # The model's file may go: what was compiled has its own copy.
    (tmp_path / "weights").unlink()
    check(made, product(), {"x": values(2, INNER)})


def _child(connection: Any) -> None:
    made = session(product(), {"strict": "1", "num_threads": "1"})
    connection.send(made.run(None, {"x": values(3, INNER)})[0].tobytes())


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_in_a_process_that_python_starts(method: str) -> None:
    """Also from a process in which the provider is registered, and has sessions."""
    here = session(product(), {"strict": "1", "num_threads": "1"})
    expected = here.run(None, {"x": values(3, INNER)})[0].tobytes()
    code = f"""
import multiprocessing, sys
from tests.ort.models import INNER, product, session, values
from tests.ort.test_guards import _child

if __name__ == "__main__":
    made = session(product(), {{"num_threads": "1"}})
    made.run(None, {{"x": values(3, INNER)}})
    context = multiprocessing.get_context({method!r})
    mine, other = context.Pipe()
    process = context.Process(target=_child, args=(other,))
    process.start()
    other.close()
    sys.stdout.buffer.write(mine.recv())
    process.join(60)
    assert process.exitcode == 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == expected and multiprocessing.get_context(method)


def test_two_runtimes_in_one_process(tmp_path: Path) -> None:
    """Python's own, and the shared library that other packages load beside it: each has the provider by itself."""
    [runtime] = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
    onnx.save(product(), tmp_path / "m.onnx")
    context = compile_context(tmp_path / "m.onnx", tmp_path / "c.onnx", strict=1)
    host = build(
        tmp_path / "host.so", "-shared", "-fPIC", "-Dmain=run_host", Path(__file__).with_name("host.cpp"), "-ldl"
    )
    code = f"""
import ctypes, os, sys
import numpy as np
from tests.ort.models import INNER, product, session, values
feeds = {{"x": values(2, INNER)}}
made = session(product(), {{"strict": "1"}})
expected = made.run(None, feeds)[0]
words = [b"host", *(word.encode() for word in sys.argv[2:]), b"x", b"y", f"2x{{INNER}}".encode(), b"3"]
host = ctypes.CDLL(sys.argv[1])._Z8run_hostiPPc
for _ in range(2):
    with open({str(tmp_path / "in")!r}, "wb") as file:
        file.write(feeds["x"].tobytes())
    os.dup2(os.open({str(tmp_path / "in")!r}, os.O_RDONLY), 0)
    assert host(len(words), (ctypes.c_char_p * (len(words) + 1))(*words)) == 0
    assert (made.run(None, feeds)[0] == expected).all() and expected.any()
    again = session(product(), {{"strict": "1"}})
    assert (again.run(None, feeds)[0] == expected).all()
ctypes.CDLL(None).fflush(None)
"""
    words = [sys.executable, "-c", code, str(host), str(runtime), str(library_path()), str(context)]
    done = subprocess.run(words, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found = np.frombuffer(done.stdout, np.float32).reshape(2, 2, -1)
    [expected] = plain(product()).run(None, {"x": values(2, INNER)})
    for results in found:
        np.testing.assert_allclose(results, expected, rtol=1e-4, atol=1e-6)


def test_registering_again_and_again() -> None:
    """With sessions that live on, under other names too; in a process of its own."""
    code = """
import gc
import onnxruntime, numpy as np
import hip_compiler.ort as ort
from tests.ort.models import product, session
feeds = {"x": np.ones((2, 64), np.float32)}
kept, results = [], set()
for turn in range(4):
    assert len(ort.register()) == len(ort.register()) == 1
    onnxruntime.register_execution_provider_library(f"again {turn}", str(ort.library_path()))
    assert len(ort.register()) == 1
    made = session(product(), {"num_threads": "1"})
    results |= {run.run(None, feeds)[0].tobytes() for run in (*kept, made)}
    if turn % 2:
        kept.append(made)
    del made
    gc.collect()
    onnxruntime.unregister_execution_provider_library(f"again {turn}")
    onnxruntime.unregister_execution_provider_library(ort.PROVIDER)
    assert not [device for device in onnxruntime.get_ep_devices() if device.ep_name == ort.PROVIDER]
assert len(results) == 1 and len(kept) == 2
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_process_may_end_with_sessions() -> None:
    """Some of them in circles that nobody takes apart."""
    code = """
import numpy as np
from tests.ort.models import product, session
kept = []
for number in range(3):
    made = session(product())
    made.run(None, {"x": np.ones((2, 64), np.float32)})
    kept.append([made, kept])
print("end")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "end\n"
    assert done.returncode == 0, done.stderr
