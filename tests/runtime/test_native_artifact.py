"""Native artifacts: the JIT's results to the last bit, its rules for symbols, and what does not load says why."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import hip_compiler
from hip_compiler import knobs
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import Artifact, Bitcode, NativeArtifact, Session, link_native, native_file, publish
from hip_compiler.runtime.abi import ENTRY_POINTS, SERVICES
from hip_compiler.toolchain import levels, lld
from hip_compiler.version import VERSION
from tests.runtime import programs

RUNTIME = Bitcode("the runtime", programs.bitcode(programs.RUNTIME))


def artifact(folder: Path, program: bytes, *plugins: Bitcode, constants: bytes = b"", **fields: Any) -> Artifact:
    """An artifact with the small runtime of the tests."""
    return publish(
        programs.metadata(**fields),
        program,
        folder=folder / "m.hipc",
        plugins=plugins,
        runtime=RUNTIME,
        write_constants=(lambda path: path.write_bytes(constants)) if constants else None,
    )


def refused(code: ErrorCode, action: Callable[[], object]) -> str:
    with pytest.raises(HipCompilerError) as caught:
        action()
    assert caught.value.code == code
    return str(caught.value)


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """y = Softmax(Erf(x w)), with a constant that is large enough for constants.bin."""
    w = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Erf", ["a"], ["b"]),
        helper.make_node("Softmax", ["b"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(w, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture(scope="module")
def native(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("native") / "model.so"
    hip_compiler.compile(model, format="native", output=path).close()
    return path


def test_results_are_those_of_the_jit_to_the_last_bit(model: onnx.ModelProto, native: Path) -> None:
    with hip_compiler.compile(model) as jit, hip_compiler.load(native) as linked:
        assert linked.inputs == jit.inputs
        for rows in (1, 7, 0, 33):
            x = np.random.default_rng(rows).standard_normal((rows, 64)).astype(np.float32)
            expected = jit.run({"x": x})["y"]
            assert rows == 0 or np.any(expected)
            assert linked.run({"x": x})["y"].tobytes() == expected.tobytes()


def test_it_stands_alone(native: Path, tmp_path: Path) -> None:
    """A process without MLIR and without bitcode, and two artifacts that do not see each other's symbols."""
    with hip_compiler.load(native) as session:
        copy = session.save(tmp_path / "copy.so")
    code = """
import sys
sys.modules["torch_mlir"] = sys.modules["mlir"] = None
import numpy as np
import hip_compiler
first, second = (hip_compiler.load(path) for path in sys.argv[1:])
x = np.ones((2, 64), np.float32)
outputs = [session.run({"x": x})["y"] for session in (first, second)]
first.close()
outputs.append(second.run({"x": x})["y"])
assert all(output.tobytes() == outputs[0].tobytes() for output in outputs) and outputs[0].any()
"""
    done = subprocess.run([sys.executable, "-c", code, native, copy], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_replaced_file_is_loaded_anew_while_the_old_one_runs(tmp_path: Path) -> None:
    path = tmp_path / "model.so"
    sessions = []
    for value in (1.0, 2.0):
        constant = np.array([value], np.float32).tobytes()
        made = artifact(tmp_path / str(value), programs.affine_program(4), constants=constant)
        link_native(made, path)
        sessions.append(Session(path))
    thrice = Bitcode("vendor", programs.bitcode(THRICE), ("hipc_twice",))
    link_native(artifact(tmp_path / "3", programs.affine_program(4), thrice, constants=bytes(4)), path)
    sessions.append(Session(path))
    assert [session.run({"x": [10.0]})["y"].tolist() for session in sessions] == [[21], [22], [30]]


THRICE = "define float @hipc_twice(float %x) { %y = fmul float %x, 3.0 ret float %y }"


def test_constants_are_mapped_from_the_file(tmp_path: Path) -> None:
    constants = np.array([1, 2, 3], np.float32)
    made = artifact(tmp_path, programs.affine_program(12), constants=constants.tobytes())
    with Session(link_native(made)) as session:
        assert session.run({"x": [10.0, 20.0, 30.0]})["y"].tolist() == [21, 42, 63]


def test_one_for_a_level_runs_on_every_cpu_of_it(model: onnx.ModelProto, native: Path, tmp_path: Path) -> None:
    level = levels.native_level()
    with hip_compiler.compile(model, format="native", cpu=level.name, output=tmp_path / "level.so") as session:
        x = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
        with hip_compiler.load(native) as exact:
            np.testing.assert_allclose(session.run({"x": x})["y"], exact.run({"x": x})["y"], rtol=1e-5, atol=1e-7)
    made = NativeArtifact.load(tmp_path / "level.so")
    # Every one of them is an instruction set of this machine, and there are no others.
    assert set(made.flags) <= set(Path("/proc/cpuinfo").read_text().split())
    assert len(made.flags) == len(level.requires)


def test_an_unknown_cpu_lists_those_there_are(model: onnx.ModelProto) -> None:
    message = refused(ErrorCode.USAGE, lambda: hip_compiler.compile(model, format="native", cpu="abacus"))
    assert f"native, {levels.levels_of(levels.host_architecture())[0].name}" in message
    assert "format='native'" in refused(ErrorCode.USAGE, lambda: hip_compiler.compile(model, cpu="x86-64-v3"))


def test_an_override_of_a_plugin_wins(tmp_path: Path) -> None:
    plugin = Bitcode("vendor", programs.bitcode(THRICE), ("hipc_twice",))
    made = artifact(tmp_path, programs.affine_program(4), plugin, constants=bytes(4))
    with Session(link_native(made)) as session:
        assert session.run({"x": [5.0]})["y"] == [15]


def test_an_undeclared_override_is_refused(tmp_path: Path) -> None:
    weak = "define weak float @hipc_twice(float %x) { ret float %x }"
    made = artifact(tmp_path, programs.affine_program(4), Bitcode("vendor", programs.bitcode(weak)), constants=bytes(4))
    message = refused(ErrorCode.PLUGIN_CONFLICT, lambda: link_native(made))
    assert "hipc_twice is defined by the runtime and by vendor" in message


CALLS_VENDOR = """
    define i32 @hipc_trim(ptr %context) { %a = call i32 @vendor_number() ret i32 %a }
    declare i32 @vendor_number()
"""


def test_symbols_that_nobody_has_are_named(tmp_path: Path) -> None:
    plugin = Bitcode("vendor", programs.bitcode(CALLS_VENDOR), ("hipc_trim",))
    message = refused(ErrorCode.LINK, lambda: link_native(artifact(tmp_path, programs.copy_program(), plugin)))
    assert "1 symbol of the program cannot be resolved\n  vendor_number\n" in message


def test_thread_local_variables_are_refused(tmp_path: Path) -> None:
    text = """
        @vendor_counter = thread_local global i32 0
        define i32 @hipc_trim(ptr %context) { store i32 1, ptr @vendor_counter ret i32 0 }
    """
    plugin = Bitcode("vendor", programs.bitcode(text), ("hipc_trim",))
    message = refused(ErrorCode.LINK, lambda: link_native(artifact(tmp_path, programs.copy_program(), plugin)))
    assert "vendor_counter" in message


def test_a_declared_library_is_linked_and_found_again(tmp_path: Path) -> None:
    library = tmp_path / "vendor" / "libvendor.so"
    library.parent.mkdir()
    made = programs.bitcode("define i32 @vendor_number() { ret i32 0 }")
    lld.link_shared([_object(made)], library, exports=["vendor_number"])
    plugin = Bitcode("vendor", programs.bitcode(CALLS_VENDOR), ("hipc_trim",))
    native = link_native(artifact(tmp_path, programs.copy_program(), plugin, libraries=(str(library),)))
    with Session(native) as session:
        session.trim()
        assert session.run({"x": [4.0]})["y"] == [4]


def _object(bitcode: bytes) -> bytes:
    import llvmlite.binding as llvm

    from hip_compiler.runtime import cpu

    module = llvm.parse_bitcode(bitcode)
    machine = cpu.host().target_machine()
    module.triple = machine.triple
    return bytes(machine.emit_object(module))


def test_a_library_that_is_gone_is_named(tmp_path: Path) -> None:
    made = artifact(tmp_path, programs.copy_program(), libraries=(str(tmp_path / "libgone.so"),))
    assert "libgone.so" in refused(ErrorCode.LINK, lambda: link_native(made))


@pytest.mark.parametrize("linker", ["first found", "ziglang"])
@pytest.mark.parametrize("entry", ENTRY_POINTS)
def test_an_entry_point_that_is_missing_is_found_by_the_linker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, linker: str
) -> None:
    if linker == "ziglang":
        pytest.importorskip("ziglang", reason="the package ziglang is not installed")
        monkeypatch.setattr(lld, "find_linker", lambda: (sys.executable, "-m", "ziglang", "ld.lld"))
    made = artifact(tmp_path, programs.copy_program().replace(entry.encode(), entry[:-1].encode() + b"_"))
    message = refused(ErrorCode.LINK, lambda: link_native(made))
    assert f"1 symbol of the program cannot be resolved\n  {entry}" in message


def test_exports_come_out_of_a_static_library(tmp_path: Path) -> None:
    """Though nothing else in the program asks for them."""
    member = _object(programs.bitcode("define i32 @vendor_number() { ret i32 7 }"))
    header = f"{'a.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(member):<10}`\n".encode()
    (tmp_path / "lib.a").write_bytes(b"!<arch>\n" + header + member + b"\n" * (len(member) % 2))
    other = _object(programs.bitcode("define i32 @vendor_other() { ret i32 0 }"))
    lld.link_shared([other, tmp_path / "lib.a"], tmp_path / "l.so", exports=["vendor_other", "vendor_number"])
    assert ctypes.CDLL(str(tmp_path / "l.so")).vendor_number() == 7
    assert "vendor_gone" in refused(
        ErrorCode.LINK, lambda: lld.link_shared([other], tmp_path / "m.so", exports=["vendor_other", "vendor_gone"])
    )


def test_services_of_the_runtime_are_exported(native: Path) -> None:
    library = ctypes.CDLL(str(native))
    assert all(hasattr(library, name) for name in (*ENTRY_POINTS, *SERVICES))


def test_without_a_linker_it_says_where_it_looked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(knobs.LLD.name, raising=False)
    with pytest.MonkeyPatch.context() as without:
        without.setattr("importlib.util.find_spec", lambda name: None)
        message = refused(ErrorCode.NOT_BUILT, lld.find_linker)
    for word in ("HIPC_LLD", "ld.lld-22", "ld.lld", "ziglang", "pip install"):
        assert word in message
    monkeypatch.setenv(knobs.LLD.name, "no-such-lld")
    assert "no-such-lld" in refused(ErrorCode.NOT_BUILT, lld.find_linker)


def test_the_linker_of_ziglang_serves_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="the package ziglang is not installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(knobs.LLD.name, raising=False)
    assert lld.find_linker()[1:] == ("-m", "ziglang", "ld.lld")
    with Session(link_native(artifact(tmp_path, programs.copy_program()))) as session:
        assert session.run({"x": [1.0, 2.0]})["y"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("abi ", "abi 9", "has runtime ABI version 9"),
        ("version ", "version 99.0", "was made by hip-compiler 99.0, this one is " + VERSION),
        ("architecture ", "architecture vax", "is for vax, this machine is"),
        ("flags ", "flags no_such_set avx2", "this one lacks no_such_set"),
    ],
    ids=["abi", "version", "architecture", "cpu"],
)
def test_what_was_made_for_something_else_is_refused(
    native: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    changed = tmp_path / "changed.so"
    changed.write_bytes(with_index(native.read_bytes(), old, new))
    found = refused(ErrorCode.ABI_MISMATCH, lambda: NativeArtifact.load(changed))
    assert message in found
    assert str(changed) in found


def with_index(content: bytes, key: str, line: str) -> bytes:
    """The artifact with another line in its index."""
    start, length, mark = native_file._TRAILER.unpack(content[-native_file._TRAILER.size :])
    lines = content[start : start + length].decode().splitlines()
    index = "".join(f"{line if old.startswith(key) else old}\n" for old in lines).encode()
    return content[:start] + index + native_file._TRAILER.pack(start, len(index), mark)


@pytest.mark.parametrize("cut", [1, 20, 60000], ids=str)
def test_a_file_that_ends_early_is_refused(native: Path, tmp_path: Path, cut: int) -> None:
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(native.read_bytes()[:-cut])
    assert str(damaged) in refused(ErrorCode.ARTIFACT, lambda: hip_compiler.load(damaged))


def test_other_shared_libraries_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.so"
    lld.link_shared([_object(programs.bitcode("define i32 @f() { ret i32 0 }"))], other, exports=["f"])
    assert "no native artifact" in refused(ErrorCode.ARTIFACT, lambda: hip_compiler.load(other))


def test_an_unknown_format_lists_those_there_are(model: onnx.ModelProto) -> None:
    assert "bitcode, native" in refused(ErrorCode.USAGE, lambda: hip_compiler.compile(model, format="exe"))


def test_command_line(native: Path, model: onnx.ModelProto, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "m.onnx")

    def command(*words: str) -> str:
        line = [sys.executable, "-m", "hip_compiler.cli", *words]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "m.so" in command("compile", str(tmp_path / "m.onnx"), "--format", "native")
    assert "[1, 32]" in command("run", str(tmp_path / "m.so"))
    assert "x: float[n, 64]" in command("inspect", str(tmp_path / "m.so"))
