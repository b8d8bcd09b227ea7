"""The build of the host runtime, and what its bitcode may contain."""

from __future__ import annotations

import importlib.util
import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime.abi import ABI_VERSION
from hip_compiler.toolchain.bitcode import CODEGEN_PREFIXES
from hip_compiler.toolchain.levels import runnable_levels
from tests.kernels.harness import CACHE, ROOT, build, library, share_objects

BUILD = build()

ALLOWED_UNDEFINED = {
    # memory and text
    *(
        "calloc",
        "free",
        "malloc",
        "posix_memalign",
        "realloc",
        "memcpy",
        "memmove",
        "memset",
        "memcmp",
        "bcmp",
        "strlen",
    ),
    *("strcmp", "qsort", "snprintf", "vsnprintf"),
    # threads and time
    *(
        "pthread_cond_broadcast",
        "pthread_cond_destroy",
        "pthread_cond_init",
        "pthread_cond_signal",
        "pthread_cond_wait",
    ),
    "sched_yield",
    *("pthread_create", "pthread_join", "pthread_mutex_destroy", "pthread_mutex_init", "pthread_mutex_lock"),
    *("pthread_mutex_unlock", "clock_gettime", "getpid", "sched_getaffinity", "sysconf"),
    # mathematics
    *(
        "exp",
        "expf",
        "exp2",
        "exp2f",
        "expm1",
        "expm1f",
        "log",
        "logf",
        "log1p",
        "log1pf",
        "log2",
        "log2f",
        "pow",
        "powf",
    ),
    *("sin", "sinf", "cos", "cosf", "tan", "tanf", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "tanhf"),
    *("erf", "erff", "sqrt", "sqrtf", "floor", "floorf", "ceil", "ceilf", "round", "roundf", "rint", "rintf"),
    *("nearbyint", "nearbyintf", "roundeven", "roundevenf", "trunc", "truncf", "fmod", "fmodf", "lrint", "lrintf"),
}


Modules = dict[str, llvm.ModuleRef]


@pytest.fixture(scope="module")
def bitcode() -> dict[str, Path]:
    """Every level of this machine's architecture."""
    return dict(BUILD.build_bitcode(BUILD.runtime_sources(), CACHE))


@pytest.fixture(scope="module")
def modules(bitcode: dict[str, Path]) -> Modules:
    return {level: llvm.parse_bitcode(path.read_bytes()) for level, path in bitcode.items()}


def test_every_level_is_built(bitcode: dict[str, Path]) -> None:
    assert list(bitcode) == [level.name for level in BUILD.levels_of(BUILD.host_architecture())]
    assert [path.name for path in bitcode.values()] == [f"host-{level}.bc" for level in bitcode]


def test_only_c_library_symbols_are_undefined(modules: Modules) -> None:
    for level, module in modules.items():
        undefined = {
            value.name
            for value in [*module.functions, *module.global_variables]
            if value.is_declaration and not value.name.startswith("llvm.")
        }
        assert "pthread_create" in undefined
        assert not undefined - ALLOWED_UNDEFINED, level


def test_only_runtime_symbols_are_visible(modules: Modules) -> None:
    for level, module in modules.items():
        visible = {
            value.name
            for value in [*module.functions, *module.global_variables]
            if not value.is_declaration and value.linkage.name not in ("internal", "private")
        }
        assert {"hipc_init", "hipc_matmul", "hipc_launch"} <= visible
        assert all(name.startswith(("hipc_", *CODEGEN_PREFIXES)) for name in visible), level


def test_every_declared_runtime_function_is_defined(modules: Modules) -> None:
    sections = (BUILD.INCLUDE / "hipc.h").read_text().split("// ---- runtime")[1:]
    header = "".join(section for section in sections if not section.startswith(" of GPU targets"))
    declared = set(re.findall(r"^[a-z][\w *]*?\**(hipc_\w+)\(", header, re.MULTILINE))
    assert {"hipc_init", "hipc_begin", "hipc_scratch"} <= declared
    for module in modules.values():
        assert not declared - {function.name for function in module.functions if not function.is_declaration}


def test_nothing_runs_at_load_and_nothing_is_per_thread(modules: Modules) -> None:
    for level, module in modules.items():
        names = {value.name for value in module.global_variables}
        assert "llvm.global_ctors" not in names and "llvm.global_dtors" not in names, level
        assert not [str(value) for value in module.global_variables if "thread_local" in str(value)], level


def undefined_in(elf: bytes) -> set[str]:
    """Names of the strong undefined dynamic symbols of a 64-bit little-endian ELF library."""
    dynamic_symbols, weak = 11, 2
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, table + i * size) for i in range(count)]
    symbols = next(section for section in sections if section[1] == dynamic_symbols)
    names = sections[symbols[6]][4]
    found = set()
    for offset in range(symbols[4], symbols[4] + symbols[5], 24):
        name, info, _, section = struct.unpack_from("<IBBH", elf, offset)
        if name and section == 0 and info >> 4 != weak:
            found.add(elf[names + name : elf.index(b"\0", names + name)].decode())
    return found


@pytest.mark.parametrize("level", [level.name for level in runnable_levels()])
def test_native_code_needs_no_compiler_support_library(level: str) -> None:
    # Code generation adds calls that bitcode does not show: conversions, for example.
    undefined = undefined_in(Path(library(level)._name).read_bytes())
    assert "pthread_create" in undefined
    assert not undefined - ALLOWED_UNDEFINED


def test_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    level = BUILD.native_level()
    monkeypatch.setattr(BUILD, "runtime_sources", lambda: (BUILD.HOST / "pool.cpp", BUILD.HOST / "runtime.cpp"))
    share_objects(tmp_path)
    built = BUILD.build_native(tmp_path, levels=[level], gpus=())
    manifest = json.loads((tmp_path / "native.json").read_text())
    assert manifest["abi_version"] == BUILD.abi_version() == ABI_VERSION
    assert manifest["levels"] == [
        {
            "name": level.name,
            "arch": BUILD.host_architecture(),
            "file": built[level.name].name,
            "archive": built[level.name].with_suffix(".a").name,
            "requires": list(level.requires),
        }
    ]
    assert len(manifest["source_digest"]) == 64 and "clang" in manifest["compiler"]


SOURCE = '#include "vendor.h"\nextern "C" int vendor_answer() { return VENDOR_ANSWER + helper(); }\n'
HEADER = "#define VENDOR_ANSWER %d\ninline int helper() { return 1; }\n"


def plugin(folder: Path, answer: int) -> Path:
    (folder / "vendor.h").write_text(HEADER % answer)
    source = folder / "vendor.cpp"
    source.write_text(SOURCE)
    return source


def test_a_plugin_builds_its_own_bitcode_incrementally(tmp_path: Path) -> None:
    level = BUILD.native_level()
    arguments = {"levels": [level], "include_dirs": [tmp_path], "stem": "vendor", "export_prefix": "vendor_"}
    source = plugin(tmp_path, 41)
    path = BUILD.build_bitcode([source], tmp_path / "out", **arguments)[level.name]
    assert path.name == f"vendor-{level.name}.bc"
    first = path.stat().st_mtime_ns
    module = llvm.parse_bitcode(path.read_bytes())
    assert [f.name for f in module.functions if not f.is_declaration and f.linkage.name == "external"] == [
        "vendor_answer"
    ]
    assert "ret i32 42" in str(module)
    BUILD.build_bitcode([source], tmp_path / "out", **arguments)
    assert path.stat().st_mtime_ns == first
    plugin(tmp_path, 1)
    BUILD.build_bitcode([source], tmp_path / "out", **arguments)
    assert "ret i32 2" in str(llvm.parse_bitcode(path.read_bytes()))


def test_a_source_that_does_not_compile(tmp_path: Path) -> None:
    source = tmp_path / "broken.cpp"
    source.write_text("int broken( {\n")
    with pytest.raises(HipCompilerError, match=r"HIPC0503: broken.cpp does not compile") as caught:
        BUILD.build_bitcode([source], tmp_path / "out", [BUILD.native_level()], [])
    assert any("expected" in line for line in caught.value.details)


def test_the_ziglang_package_compiles_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        pytest.skip("the package ziglang is not installed")
    monkeypatch.setenv("HIPC_CLANG", str(Path(found.origin).parent / "zig"))
    compiler = BUILD.find_compiler()
    assert compiler.is_zig
    for arch in ("x86_64", "aarch64"):
        built = BUILD.build_bitcode([BUILD.HOST / "pool.cpp"], tmp_path / arch, arch=arch, compiler=compiler)
        assert list(built) == [level.name for level in BUILD.levels_of(arch)]
        for path in built.values():
            module = llvm.parse_bitcode(path.read_bytes())
            assert module.triple.startswith(arch)
            undefined = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
            assert not undefined - ALLOWED_UNDEFINED


def test_a_compiler_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPC_CLANG", "/no/such/clang")
    with pytest.raises(HipCompilerError, match="HIPC0503: HIPC_CLANG names '/no/such/clang', which is no program"):
        BUILD.find_compiler()
    monkeypatch.setenv("HIPC_CLANG", sys.executable)
    with pytest.raises(HipCompilerError, match="is not clang"):
        BUILD.find_compiler()


def test_command_line(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "kernels" / "build.py"), "--out", str(tmp_path), "--level", "no-such-level"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "unknown level no-such-level; known are" in result.stderr
