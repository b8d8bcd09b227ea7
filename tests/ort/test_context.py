"""Context models: compiled here, run without Python, and refused where they do not fit."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from hip_compiler.core.conversion import ops as _converters  # noqa: F401  (fills the converter table)
from hip_compiler.core.conversion.onnx_op import CONVERTERS
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.ort import PROVIDER, compile_context, library_path, register
from hip_compiler.ort.context import _for_older_runtimes
from hip_compiler.toolchain import find_compiler, native_level
from hip_compiler.version import VERSION
from tests.ort.models import COLUMNS, INNER, check, islands, plain, product, session, values
from tests.runtime.test_native_artifact import with_index

ROOT = Path(__file__).resolve().parents[2]
# In a process of its own: neither hip-compiler nor MLIR is there.
ALONE = """
import sys
import numpy as np, onnxruntime
library, model, rows = sys.argv[1:]
onnxruntime.register_execution_provider_library("hip", library)
settings = onnxruntime.SessionOptions()
devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "HipExecutionProvider"]
settings.add_provider_for_devices(devices, {})
session = onnxruntime.InferenceSession(model, settings, enable_fallback=0)
x = np.random.default_rng(int(rows)).standard_normal((int(rows), 64)).astype(np.float32)
sys.stdout.buffer.write(session.run(None, {"x": x})[0].tobytes())
assert not {"hip_compiler", "torch_mlir", "llvmlite"} & sys.modules.keys()
"""


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "m.onnx"
    onnx.save(model, path)
    return path


def alone(context: Path, model: onnx.ModelProto, rows: int = 3) -> None:
    """Run a context model in a process without the compiler, and compare."""
    words = [sys.executable, "-c", ALONE, str(library_path()), str(context), str(rows)]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found = np.frombuffer(done.stdout, np.float32).reshape(rows, COLUMNS)
    expected = plain(model).run(None, {"x": values(rows, INNER, seed=rows)})[0]
    assert np.any(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def contexts(path: Path) -> list[onnx.NodeProto]:
    return [node for node in onnx.load(path).graph.node if node.op_type == "EPContext"]


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A context model with its native artifact beside it."""
    folder = tmp_path_factory.mktemp("context")
    return compile_context(saved(product(), folder), folder / "m_ctx.onnx", strict=1)


@pytest.mark.parametrize("embed", [False, True], ids=["beside", "embedded"])
def test_it_runs_without_the_compiler(tmp_path: Path, embed: bool) -> None:
    made = compile_context(saved(product(), tmp_path), tmp_path / "c.onnx", embed=embed, strict=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.onnx", *([] if embed else ["c_0.so"]), "m.onnx"]
    # Both files go where they are together.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for path in (made, *tmp_path.glob("*.so")):
        path.rename(elsewhere / path.name)
    alone(elsewhere / "c.onnx", product())


def test_registering_needs_no_compiler(context: Path) -> None:
    """`register()` where the MLIR bindings are missing: what was compiled before runs."""
    code = """
import sys
sys.modules["torch_mlir"] = sys.modules["mlir"] = None
import numpy as np, onnxruntime
import hip_compiler.ort
settings = onnxruntime.SessionOptions()
settings.add_provider_for_devices(hip_compiler.ort.register(), {"strict": "1"})
session = onnxruntime.InferenceSession(sys.argv[1], settings)
assert session.run(None, {"x": np.ones((2, 64), np.float32)})[0].any()
"""
    done = subprocess.run([sys.executable, "-c", code, str(context)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_command_line_makes_one(tmp_path: Path) -> None:
    path = saved(product(), tmp_path)
    words = [sys.executable, "-m", "hip_compiler.cli", "compile", str(path), "--ep-context", "--embed", "--strict"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"wrote {tmp_path / 'm_ctx.onnx'}\n"
    alone(tmp_path / "m_ctx.onnx", product())


def test_a_session_makes_one_while_it_runs_itself(tmp_path: Path) -> None:
    model, target = product(), tmp_path / "made.onnx"
    made = session(model, ep_context_enable="1", ep_context_file_path=str(target), ep_context_embed_mode="1")
    check(made, model, {"x": values(2, INNER)})
    alone(target, model)


def test_a_partial_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delitem(CONVERTERS, ("", "Erf"))
    made = compile_context(saved(islands(), tmp_path), tmp_path / "c.onnx")
    assert len(contexts(made)) == 3
    assert [node.op_type for node in onnx.load(made).graph.node].count("Erf") == 2
    alone(made, islands())
    with pytest.raises(HipCompilerError) as caught:
        compile_context(tmp_path / "m.onnx", tmp_path / "d.onnx", strict=1)
    assert caught.value.code == ErrorCode.UNSUPPORTED
    assert "Erf (erf/one)" in str(caught.value)
    assert not (tmp_path / "d.onnx").exists()
    capfd.readouterr()
    session(str(made))
    assert "assigned 3/5 nodes; on CPU: Erf (erf/one); Erf (" in capfd.readouterr().err
    refused(made, "HIPC0200: strict=1, but assigned 3/5 nodes; on CPU: Erf (erf/one)", strict="1")


def test_an_older_one_is_replaced_or_stays(tmp_path: Path) -> None:
    path = saved(product(), tmp_path)
    made = compile_context(path, tmp_path / "c.onnx", embed=True)
    before = made.read_bytes()
    with pytest.raises(HipCompilerError) as caught:
        compile_context(path, made, opt_level=7)
    assert caught.value.code == ErrorCode.USAGE
    assert made.read_bytes() == before
    compile_context(path, made)
    assert made.read_bytes() != before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["c.onnx", "c_0.so", "m.onnx"]


def test_nothing_to_compile_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for op in ("MatMul", "Erf", "Softmax"):
        monkeypatch.delitem(CONVERTERS, ("", op))
    monkeypatch.setattr("hip_compiler.core.conversion.converter.function_body", lambda op: None)
    with pytest.raises(HipCompilerError, match="no node that HipExecutionProvider can take"):
        compile_context(saved(product(), tmp_path), tmp_path / "c.onnx")


def test_a_program_without_python(tmp_path: Path, context: Path) -> None:
    """C++, compiled here, against the ONNX Runtime of the wheel."""
    [runtime] = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
    compiler = find_compiler()
    target = ["-target", f"{platform.machine()}-linux-gnu"] if compiler.is_zig else []
    program = tmp_path / "host"
    build = [*compiler.command, *target, "-std=c++20", "-O1", f"-I{ROOT / 'kernels' / 'ort_ep'}"]
    build += [str(Path(__file__).with_name("host.cpp")), "-o", str(program), "-ldl"]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    x = values(2, INNER, seed=4)
    words = [program, runtime, library_path(), context, "x", "y", f"2x{INNER}", "5"]
    ran = subprocess.run(list(map(str, words)), input=x.tobytes(), capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    found = np.frombuffer(ran.stdout, np.float32).reshape(2, COLUMNS)
    assert found.tobytes() == session(product()).run(None, {"x": x})[0].tobytes()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("abi 9", "it has runtime ABI version 9, this provider has "),
        ("version 99.0", f"it was made by hip-compiler 99.0, this provider is of {VERSION}"),
        ("architecture vax", "it is for vax, this machine is"),
        ("flags no_such_set", "this one lacks no_such_set"),
    ],
    ids=["abi", "version", "architecture", "cpu"],
)
def test_what_was_made_for_something_else_is_refused(context: Path, tmp_path: Path, line: str, message: str) -> None:
    changed = copied(context, tmp_path)
    library = changed.with_name(context.stem + "_0.so")
    library.write_bytes(with_index(library.read_bytes(), line.split()[0] + " ", line))
    refused(changed, "HIPC0601", message, str(library))


def copied(context: Path, folder: Path) -> Path:
    for path in (context, context.with_name(context.stem + "_0.so")):
        (folder / path.name).write_bytes(path.read_bytes())
    return folder / context.name


def refused(context: Path, *messages: str, **options: str) -> None:
    with pytest.raises(Exception) as caught:
        session(str(context), options)
    for message in messages:
        assert message in str(caught.value)


def test_one_for_a_level_of_cpus(tmp_path: Path) -> None:
    made = compile_context(saved(product(), tmp_path), tmp_path / "c.onnx", cpu=native_level().name)
    alone(made, product())
    with pytest.raises(HipCompilerError, match="cannot be made a context model"):
        compile_context(tmp_path / "m.onnx", tmp_path / "d.onnx", cpu="abacus")


def test_another_target_is_refused(context: Path) -> None:
    refused(context, "it was compiled for target 'host', the session asks for 'amdgpu'", target="amdgpu")


def test_damaged_ones_are_refused(context: Path, tmp_path: Path) -> None:
    changed = copied(context, tmp_path)
    library = changed.with_name(context.stem + "_0.so")
    library.write_bytes(library.read_bytes()[:-1])
    refused(changed, "no native artifact of hip-compiler, or damaged")
    library.unlink()
    refused(changed, str(library), "cannot be opened")


@pytest.mark.parametrize("name", ["../m_ctx_0.so", "/etc/passwd", ""])
def test_files_elsewhere_are_refused(context: Path, tmp_path: Path, name: str) -> None:
    model = onnx.load(context)
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "ep_cache_context":
            attribute.s = name.encode()
    changed = tmp_path / "changed.onnx"
    onnx.save(model, changed)
    refused(changed, "HIPC0600", "which is no file beside the model")


def test_other_providers_contexts_are_left_alone(context: Path, tmp_path: Path) -> None:
    model = onnx.load(context)
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "source":
            attribute.s = b"SomebodyElse"
    with pytest.raises(Exception) as caught:
        session(model)
    assert "HIPC06" not in str(caught.value)


def test_the_model_says_what_it_fits(context: Path) -> None:
    properties = {entry.key: entry.value for entry in onnx.load(context).metadata_props}
    assert f"version={VERSION}" in properties[f"ep_compatibility_info.{PROVIDER}"]


def test_options_of_a_run_reach_it(context: Path) -> None:
    made: Any = session(str(context), {"num_threads": "1", "strict": "1"})
    check_against = plain(product()).run(None, {"x": values(2, INNER)})[0]
    np.testing.assert_allclose(made.run(None, {"x": values(2, INNER)})[0], check_against, rtol=1e-4, atol=1e-6)
    register()
    with pytest.raises(Exception, match="there is no option 'bogus'"):
        session(str(context), {"bogus": "1"})


def test_one_in_memory(context: Path) -> None:
    """Its file is looked for where the session says that the model is, and nowhere else."""
    content = onnx.load(context)
    x = {"x": values(2, INNER)}
    made = session(content, ep_context_file_path=str(context))
    np.testing.assert_allclose(made.run(None, x)[0], plain(product()).run(None, x)[0], rtol=1e-4, atol=1e-6)
    with pytest.raises(Exception, match=r"\./m_ctx_0\.so cannot be opened"):
        session(content)


needs_model_compiler = pytest.mark.skipif(
    not hasattr(onnxruntime, "ModelCompiler"), reason="this ONNX Runtime has no ModelCompiler"
)


@needs_model_compiler
@pytest.mark.parametrize("embed", [False, True], ids=["beside", "embedded"])
def test_onnx_runtimes_own_compiler(tmp_path: Path, embed: bool) -> None:
    settings = onnxruntime.SessionOptions()
    settings.add_provider_for_devices(register(), {"strict": "1"})
    content = product().SerializeToString()
    compiler = onnxruntime.ModelCompiler(settings, content, embed_compiled_data_into_model=embed)
    compiler.compile_to_file(str(tmp_path / "made.onnx"))
    assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".onnx"] if embed else [".onnx", ".so"]
    alone(tmp_path / "made.onnx", product())
    if embed:
        in_memory = onnxruntime.ModelCompiler(settings, content, embed_compiled_data_into_model=True)
        (tmp_path / "bytes.onnx").write_bytes(in_memory.compile_to_bytes())
        alone(tmp_path / "bytes.onnx", product())


def test_whether_one_fits_can_be_asked(context: Path) -> None:
    from onnxruntime.capi import _pybind_state as state

    if not hasattr(state, "get_model_compatibility_for_ep_devices"):
        pytest.skip("this ONNX Runtime asks nobody whether a compiled model fits")
    properties = {entry.key: entry.value for entry in onnx.load(context).metadata_props}
    info = properties[f"ep_compatibility_info.{PROVIDER}"]
    ask, answers = state.get_model_compatibility_for_ep_devices, state.OrtCompiledModelCompatibility
    assert ask(register(), info) == answers.EP_SUPPORTED_OPTIMAL
    assert ask(register(), info.replace(VERSION, "99.0")) == answers.EP_SUPPORTED_PREFER_RECOMPILATION


def reordered(model: onnx.ModelProto) -> bytes:
    """The same model, its version in the middle of the file, where no program puts it."""
    fields = model.SerializeToString()
    assert fields[:2] == bytes([8, model.ir_version])
    return fields[2:] + fields[:2]


@pytest.mark.parametrize("version", [7, 10, 11])
@pytest.mark.parametrize("embed", [False, True], ids=["beside", "embedded"])
def test_older_runtimes_can_read_it(tmp_path: Path, version: int, embed: bool) -> None:
    """It has the version of the format of its source, or one that every supported runtime reads."""
    model = product()
    model.ir_version = version
    for number, content in enumerate((model.SerializeToString(), reordered(model))):
        (tmp_path / "m.onnx").write_bytes(content)
        made = compile_context(tmp_path / "m.onnx", tmp_path / f"c{number}.onnx", embed=embed, strict=1)
        assert onnx.load(made).ir_version == max(version, 10)
        alone(made, product())


def test_a_context_whose_version_is_elsewhere(tmp_path: Path) -> None:
    model = product()
    model.ir_version = 13
    path = tmp_path / "c.onnx"
    path.write_bytes(reordered(model))
    _for_older_runtimes(saved(product(), tmp_path), path)
    changed = onnx.load(path)
    assert changed.ir_version == 10
    changed.ir_version = 13
    assert changed == model
