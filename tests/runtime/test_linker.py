"""Linking: overrides, conflicts, symbols that nobody has, and the runtime that models share."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import Bitcode, Session, cpu, native, objectfile
from hip_compiler.runtime.abi import ABI_VERSION
from hip_compiler.runtime.jit import Program
from hip_compiler.runtime.linker import LinkedObject, build_object
from tests.runtime import programs

RUNTIME = Bitcode("the runtime", programs.bitcode(programs.RUNTIME))
THRICE = "define float @hipc_twice(float %x) { %y = fmul float %x, 3.0 ret float %y }"


def link(*plugins: Bitcode, model: bytes | None = None, **options: Any) -> LinkedObject:
    return build_object(model or programs.copy_program(), RUNTIME, plugins, cpu.host(), **options)


def refused(code: ErrorCode, *plugins: Bitcode, **options: Any) -> str:
    with pytest.raises(HipCompilerError) as caught:
        link(*plugins, **options)
    assert caught.value.code == code
    return str(caught.value)


def plugin(name: str, text: str, *overrides: str) -> Bitcode:
    return Bitcode(name, programs.bitcode(text), overrides)


def test_only_what_is_used_is_kept() -> None:
    found = objectfile.symbols([link().image])
    assert found.defined == {
        "inference_init",
        "inference_compute",
        "inference_cleanup",
        "inference_last_error",
        "inference_get_metadata_json",
        "hipc_arena_bytes",
        "hipc_trim",
    }
    # hipc_unused needs a function that nobody has; it is gone.
    assert found.undefined <= {"calloc", "free", "memcpy", "open", "write", "close", "_GLOBAL_OFFSET_TABLE_"}
    assert not found.thread_local


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_optimisation_level(level: Any) -> None:
    linked = link(opt_level=level)
    assert set(linked.seconds) == {"parse", "optimise", "link", "codegen"}
    Program([linked.image]).close()


def test_a_declared_override_wins(tmp_path: Path, runtime: Path) -> None:
    artifact = programs.save(
        tmp_path / "m.hipc",
        programs.affine_program(4),
        plugins=[plugin("vendor", THRICE, "hipc_twice")],
        write_constants=lambda path: path.write_bytes(bytes(4)),
    )
    assert artifact.metadata.plugins[0].owner == "vendor"
    with Session(tmp_path / "m.hipc", runtime_bitcode=runtime) as session:
        assert session.run({"x": [5.0]})["y"] == [15]


@pytest.mark.parametrize("linkage", ["", "weak ", "linkonce_odr "])
def test_an_undeclared_override_is_refused(linkage: str) -> None:
    message = refused(ErrorCode.PLUGIN_CONFLICT, plugin("vendor", THRICE.replace("define ", f"define {linkage}")))
    assert "hipc_twice is defined by the runtime and by vendor" in message


def test_two_plugins_with_one_symbol_are_refused() -> None:
    text = "@shared = global i32 1"
    message = refused(ErrorCode.PLUGIN_CONFLICT, plugin("first", text), plugin("second", text))
    assert "shared is defined by first and by second" in message
    message = refused(
        ErrorCode.PLUGIN_CONFLICT, plugin("first", THRICE, "hipc_twice"), plugin("second", THRICE, "hipc_twice")
    )
    assert "hipc_twice is defined by first and by second" in message


def test_inline_functions_of_two_plugins_are_merged() -> None:
    text = "define linkonce_odr i32 @inline_one() { ret i32 1 }"
    link(plugin("first", text), plugin("second", text))


def test_an_override_of_nothing_is_refused() -> None:
    other = "define i32 @vendor_f() { ret i32 0 }"
    assert "which the runtime does not define" in refused(ErrorCode.LINK, plugin("vendor", other, "hipc_nothing"))
    assert "which vendor does not define" in refused(ErrorCode.LINK, plugin("vendor", other, "hipc_twice"))


def test_bitcode_that_cannot_be_read() -> None:
    assert "bitcode of vendor" in refused(ErrorCode.LINK, Bitcode("vendor", b"BC\xc0\xde"))
    assert "bitcode of the compiled model" in refused(ErrorCode.LINK, model=programs.copy_program()[:-40])


def test_static_constructors_are_refused() -> None:
    text = """
        @llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 1, ptr @f, ptr null }]
        define void @f() { ret void }
    """
    assert "static constructors" in refused(ErrorCode.LINK, plugin("vendor", text))


def load_error(image: bytes) -> str:
    with pytest.raises(HipCompilerError) as caught:
        Program([image])
    assert caught.value.code == ErrorCode.LINK
    return str(caught.value)


def test_symbols_that_nobody_has_are_named(capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        define i32 @hipc_trim(ptr %context) { %a = call i32 @nowhere() %b = call i32 @elsewhere() ret i32 %b }
        declare i32 @nowhere()
        declare i32 @elsewhere()
    """
    message = load_error(link(plugin("vendor", text, "hipc_trim")).image)
    assert "2 symbols" in message
    assert "elsewhere\n  nowhere" in message
    assert capfd.readouterr().err == ""


def test_thread_local_variables_are_refused() -> None:
    text = """
        @vendor_counter = thread_local global i32 0
        define i32 @hipc_trim(ptr %context) { store i32 1, ptr @vendor_counter ret i32 0 }
    """
    assert "vendor_counter" in load_error(link(plugin("vendor", text, "hipc_trim")).image)


def test_what_is_not_elf_is_refused() -> None:
    with pytest.raises(HipCompilerError, match="ELF"):
        objectfile.symbols([b"MZ" + bytes(100)])


def archive(*images: bytes) -> bytes:
    content = b"!<arch>\n"
    for image in images:
        content += f"{'member.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(image):<10}`\n".encode()
        content += image + b"\n" * (len(image) % 2)
    return content


def test_members_of_a_static_library() -> None:
    content = archive(b"one", b"", b"four")
    assert objectfile.archive_members(content) == [b"one", b"", b"four"]
    for damaged in (content[:-1], content[:-30], b"?" + content[1:], b""):
        with pytest.raises(HipCompilerError, match="static library is damaged"):
            objectfile.archive_members(damaged)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A folder as the package's build makes it, with the small runtime for every CPU of this architecture."""
    folder = tmp_path / "_native"
    folder.mkdir()
    (folder / "host-small.bc").write_bytes(RUNTIME.data)
    # hipc_unused calls a function that nobody has.
    complete = programs.RUNTIME.replace("declare i32 @nowhere(ptr)", "define i32 @nowhere(ptr %p) { ret i32 0 }")
    module = llvm.parse_assembly(complete)
    machine = cpu.host().target_machine()
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    image = machine.emit_object(module)
    (folder / "host-small.a").write_bytes(archive(image))
    architecture = cpu.host().triple.partition("-")[0]
    level = {"name": "small", "arch": architecture, "file": "host-small.bc", "archive": "host-small.a", "requires": []}
    impossible = {**level, "name": "better", "requires": ["no-such-feature"]}
    foreign = {**level, "name": "foreign", "arch": "pdp11"}
    manifest = {"abi_version": ABI_VERSION, "levels": [level, impossible, foreign]}
    (folder / "native.json").write_text(json.dumps(manifest))
    return folder


def test_the_best_level_that_fits_is_found(built: Path) -> None:
    found = native.find(built)
    assert (found.level, found.bitcode.name, found.archive.name) == ("small", "host-small.bc", "host-small.a")
    assert native.file_digest(found.bitcode) == hashlib.sha256(RUNTIME.data).hexdigest()


@pytest.mark.parametrize(
    ("damage", "code", "words"),
    [
        (lambda f: (f / "native.json").unlink(), ErrorCode.NOT_BUILT, "has not been built"),
        (lambda f: (f / "native.json").write_text("{"), ErrorCode.NOT_BUILT, "is damaged"),
        (lambda f: (f / "host-small.a").unlink(), ErrorCode.NOT_BUILT, "host-small.a is missing"),
        (
            lambda f: (f / "native.json").write_text(f'{{"abi_version": {ABI_VERSION}, "levels": []}}'),
            ErrorCode.NOT_BUILT,
            "no runtime fits this CPU",
        ),
        (
            lambda f: (f / "native.json").write_text('{"abi_version": 3, "levels": []}'),
            ErrorCode.ABI_MISMATCH,
            f"ABI version 3, this package has {ABI_VERSION}",
        ),
    ],
)
def test_what_the_build_did_not_make(built: Path, damage: Any, code: ErrorCode, words: str) -> None:
    damage(built)
    with pytest.raises(HipCompilerError) as caught:
        native.find(built)
    assert caught.value.code == code
    assert words in str(caught.value)
    assert "python kernels/build.py" in str(caught.value)


def test_models_share_the_runtime(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = native.find
    monkeypatch.setattr(native, "find", lambda cpu: find(built, cpu))
    constants = np.array([1, 2], np.float32)
    programs.save(tmp_path / "a.hipc", programs.affine_program(8), write_constants=lambda path: constants.tofile(path))
    programs.save(
        tmp_path / "b.hipc",
        programs.affine_program(8),
        plugins=[plugin("vendor", THRICE, "hipc_twice")],
        write_constants=lambda path: constants.tofile(path),
    )
    with Session(tmp_path / "a.hipc") as a, Session(tmp_path / "b.hipc") as b:
        assert a.run({"x": [5.0, 5.0]})["y"].tolist() == [11, 12]
        # A plugin that overrides part of the runtime gets a runtime of its own.
        assert b.run({"x": [5.0, 5.0]})["y"].tolist() == [16, 17]
        assert a.run({"x": [5.0, 5.0]})["y"].tolist() == [11, 12]
        assert (a.arena_bytes, b.arena_bytes) == (4096, 4096)
    sizes = {folder.name: next(folder.glob("model.*.o")).stat().st_size for folder in tmp_path.glob("*.hipc")}
    assert sizes["a.hipc"] < sizes["b.hipc"]

    programs.save(tmp_path / "c.hipc", plugins=[plugin("vendor", THRICE)])
    with pytest.raises(HipCompilerError) as caught:
        Session(tmp_path / "c.hipc")
    assert caught.value.code == ErrorCode.PLUGIN_CONFLICT
