"""The host runtime that the package's build made: it loads, and it has what models and the code generator call."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import numpy as np
import pytest

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import Session, native, objectfile
from hip_compiler.runtime.abi import SERVICES
from hip_compiler.runtime.jit import Program
from hip_compiler.runtime.linker import CODEGEN_CALLS
from tests.runtime import programs

HEADER = Path(__file__).parents[2] / "kernels" / "include" / "hipc.h"


@pytest.fixture
def runtime() -> native.NativeRuntime:
    try:
        return native.find()
    except HipCompilerError as error:
        if error.code != ErrorCode.NOT_BUILT:
            raise
        pytest.skip("the host runtime is not built: python kernels/build.py")


def test_it_defines_the_abi(runtime: native.NativeRuntime) -> None:
    defined = objectfile.symbols(objectfile.archive_members(runtime.archive.read_bytes())).defined
    sections = HEADER.read_text().split("// ---- ")
    text = "".join(section for section in sections if not section.startswith("runtime of GPU targets"))
    declared = set(re.findall(r"^[a-z].*?\*?(hipc_\w+)\(hipc_context", text, re.MULTILINE))
    assert len(declared) > 10
    assert declared <= defined
    assert set(SERVICES) <= defined
    if platform.machine() == "x86_64":
        assert defined >= CODEGEN_CALLS


def test_it_loads(runtime: native.NativeRuntime) -> None:
    program = Program(objectfile.archive_members(runtime.archive.read_bytes()))
    assert program.find("hipc_begin")
    assert program.find("hipc_no_such_function") is None
    program.close()


def test_a_model_runs_beside_it_or_with_it_inside(runtime: native.NativeRuntime, tmp_path: Path) -> None:
    folder = tmp_path / "m.hipc"
    programs.save(folder)
    x = np.arange(5, dtype=np.float32)
    for bitcode in (None, runtime.bitcode):
        with Session(folder, 2, runtime_bitcode=bitcode) as session:
            np.testing.assert_array_equal(session.run({"x": x})["y"], x)
            assert session.relinked
    assert len(list(folder.glob("model.*.o"))) == 2
