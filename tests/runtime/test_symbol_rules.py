"""Symbols of plugins: what the JIT refuses, the native link refuses, in the same words, and so for what they accept."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import Artifact, Bitcode, Session, cpu, link_native, publish
from hip_compiler.toolchain import find_linker, link_shared
from tests.runtime import programs

RUNTIME = Bitcode("the runtime", programs.bitcode(programs.RUNTIME))
WAYS: dict[str, Callable[[Artifact], Session]] = {
    "jit": lambda artifact: Session(artifact.folder),
    "native": lambda artifact: Session(link_native(artifact)),
}


@pytest.fixture(scope="module", autouse=True)
def _needs_a_linker() -> None:
    try:
        find_linker()
    except HipCompilerError as error:
        pytest.skip(str(error))


def plugin(text: str, *overrides: str, name: str = "vendor") -> Bitcode:
    return Bitcode(name, programs.bitcode(text), overrides)


def artifact(folder: Path, *plugins: Bitcode, **fields: Any) -> Artifact:
    return publish(
        programs.metadata(**fields), programs.copy_program(), folder=folder / "m.hipc", plugins=plugins, runtime=RUNTIME
    )


def library(folder: Path, name: str, text: str, *needed: Path, exports: tuple[str, ...]) -> Path:
    """A shared library made of LLVM IR."""
    module = llvm.parse_assembly(text)
    machine = cpu.host().target_machine()
    module.triple = machine.triple
    path = folder / name
    link_shared([machine.emit_object(module)], path, exports=exports, libraries=[str(file) for file in needed])
    return path


CALLS = "define i32 @hipc_trim(ptr %context) {{ %a = call i32 @{0}() ret i32 %a }} declare i32 @{0}()"
ANSWER = "define i32 @{0}() {{ ret i32 0 }}"
GLOBAL = "@vendor_value = global i32 1"
ABSENT = "1 symbol of the program cannot be resolved"
REFUSED: dict[str, tuple[ErrorCode, str, list[Bitcode]]] = {
    "undeclared": (
        ErrorCode.PLUGIN_CONFLICT,
        "hipc_twice is defined by the runtime and by vendor",
        [plugin("define float @hipc_twice(float %x) { ret float %x }")],
    ),
    "weak": (
        ErrorCode.PLUGIN_CONFLICT,
        "hipc_twice is defined by the runtime and by vendor",
        [plugin("define weak float @hipc_twice(float %x) { ret float %x }")],
    ),
    "function of two": (
        ErrorCode.PLUGIN_CONFLICT,
        "vendor_f is defined by first and by second",
        [plugin(ANSWER.format("vendor_f"), name="first"), plugin(ANSWER.format("vendor_f"), name="second")],
    ),
    "variable of two": (
        ErrorCode.PLUGIN_CONFLICT,
        "vendor_value is defined by first and by second",
        [plugin(GLOBAL, name="first"), plugin(GLOBAL.replace("global", "weak global"), name="second")],
    ),
    "override of two": (
        ErrorCode.PLUGIN_CONFLICT,
        "hipc_trim is defined by first and by second",
        [
            plugin("define i32 @hipc_trim(ptr %c) { ret i32 0 }", "hipc_trim", name="first"),
            plugin("define i32 @hipc_trim(ptr %c) { ret i32 1 }", "hipc_trim", name="second"),
        ],
    ),
    "override of nothing": (
        ErrorCode.LINK,
        "vendor declares that it overrides hipc_gone, which the runtime does not define",
        [plugin("define i32 @hipc_gone() { ret i32 0 }", "hipc_gone")],
    ),
    "nowhere": (ErrorCode.LINK, f"{ABSENT}\n  vendor_nowhere\n", [plugin(CALLS.format("vendor_nowhere"), "hipc_trim")]),
    # This process has it, and no library that the plugin declares.
    "python": (
        ErrorCode.LINK,
        f"{ABSENT}\n  Py_IsInitialized\n",
        [plugin(CALLS.format("Py_IsInitialized"), "hipc_trim")],
    ),
    "thread": (
        ErrorCode.LINK,
        "the program has thread-local variables, which cannot be loaded\n  vendor_counter\n",
        [
            plugin(
                "@vendor_counter = thread_local global i32 0\n"
                "define i32 @hipc_trim(ptr %c) { store i32 1, ptr @vendor_counter ret i32 0 }",
                "hipc_trim",
            )
        ],
    ),
    "constructor": (
        ErrorCode.LINK,
        "bitcode with static constructors cannot be linked",
        [
            plugin(
                "define void @vendor_start() { ret void }\n@llvm.global_ctors = appending global"
                " [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 1, ptr @vendor_start, ptr null }]"
            )
        ],
    ),
    "damaged": (ErrorCode.LINK, "the bitcode of vendor cannot be read", [Bitcode("vendor", b"BC\xc0\xde")]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", REFUSED)
def test_what_is_refused(tmp_path: Path, fault: str, way: str) -> None:
    code, words, plugins = REFUSED[fault]
    assert fault != "python" or hasattr(ctypes.CDLL(None), "Py_IncRef")
    with pytest.raises(HipCompilerError) as caught:
        WAYS[way](artifact(tmp_path, *plugins))
    assert caught.value.code == code
    assert words in str(caught.value)


@pytest.mark.parametrize("fault", REFUSED)
def test_both_say_the_same(tmp_path: Path, fault: str) -> None:
    messages = set()
    for way in WAYS.values():
        with pytest.raises(HipCompilerError) as caught:
            way(artifact(tmp_path, *REFUSED[fault][2]))
        messages.add(str(caught.value))
    assert len(messages) == 1, messages


@pytest.mark.parametrize("way", WAYS)
def test_what_is_accepted(tmp_path: Path, way: str) -> None:
    declared = library(tmp_path, "libdeclared.so", ANSWER.format("vendor_number"), exports=("vendor_number",))
    inline = "define linkonce_odr i32 @vendor_inline() { ret i32 1 }"
    parts = [
        plugin(CALLS.format("vendor_number"), "hipc_trim"),
        plugin(inline, name="first"),
        plugin(inline, name="second"),
    ]
    with WAYS[way](artifact(tmp_path, *parts, libraries=(str(declared), "libm.so.6"))) as session:
        session.trim()
        assert session.run({"x": [4.0]})["y"] == [4]


@pytest.mark.parametrize("way", WAYS)
def test_a_library_of_a_library_is_not_declared(tmp_path: Path, way: str) -> None:
    inner = library(tmp_path, "libinner.so", ANSWER.format("inner_number"), exports=("inner_number",))
    text = "define i32 @outer_number() { %a = call i32 @inner_number() ret i32 %a } declare i32 @inner_number()"
    outer = library(tmp_path, "libouter.so", text, inner, exports=("outer_number",))
    made = artifact(tmp_path, plugin(CALLS.format("inner_number"), "hipc_trim"), libraries=(str(outer),))
    with pytest.raises(HipCompilerError) as caught:
        WAYS[way](made)
    assert f"{ABSENT}\n  inner_number\n" in str(caught.value)
    both = (str(outer), str(inner))
    WAYS[way](artifact(tmp_path, plugin(CALLS.format("inner_number"), "hipc_trim"), libraries=both)).close()


@pytest.mark.parametrize("way", WAYS)
def test_one_name_in_two_libraries_is_that_of_the_one_declared_first(tmp_path: Path, way: str) -> None:
    texts = {name: f"define i32 @{way}_number() {{ ret i32 {status} }}" for name, status in (("zero", 0), ("nine", 9))}
    made = {
        name: library(tmp_path, f"lib{way}{name}.so", text, exports=(f"{way}_number",)) for name, text in texts.items()
    }
    calls = plugin(CALLS.format(f"{way}_number"), "hipc_trim")
    # The one with the error is in the process before the other.
    for names, fails in ((("nine", "zero"), True), (("zero", "nine"), False)):
        libraries = tuple(str(made[name]) for name in names)
        with WAYS[way](artifact(tmp_path, calls, libraries=libraries)) as session:
            if fails:
                with pytest.raises(HipCompilerError):
                    session.trim()
            else:
                session.trim()


@pytest.mark.parametrize("way", WAYS)
def test_a_library_that_is_gone_is_named(tmp_path: Path, way: str) -> None:
    with pytest.raises(HipCompilerError, match=r"the library .*/libgone\.so cannot be") as caught:
        WAYS[way](artifact(tmp_path, libraries=(str(tmp_path / "libgone.so"),)))
    assert caught.value.code == ErrorCode.LINK
