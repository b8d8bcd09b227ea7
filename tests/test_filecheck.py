"""Text tests: every .mlir file under tests/ says how to run it, and what to find in what is printed.

The first line is `// RUN: hip-compiler ... %s`, or `// RUN: not hip-compiler ... %s` for a run that must fail, whose
standard error is then checked; CHECK lines follow FileCheck's rules.
"""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from hip_compiler.cli import main

FOLDER = Path(__file__).resolve().parent
FILES = sorted(FOLDER.rglob("*.mlir"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(FOLDER)))
def test_file(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIPC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HIPDNN_EP_COMPILER_PLUGINS", "")
    first = file.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("// RUN: "), "the first line says how to run the file"
    words = shlex.split(first.removeprefix("// RUN: "))
    fails = words[0] == "not"
    command, *arguments = words[1:] if fails else words
    assert command == "hip-compiler"
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([str(file) if word == "%s" else word for word in arguments])
    assert status == (1 if fails else 0), err.getvalue()
    printed = err.getvalue() if fails else out.getvalue()
    check = subprocess.run(
        [sys.executable, "-m", "filecheck", str(file)], input=printed, capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, f"{check.stdout}{check.stderr}\n--- printed:\n{printed}"


def test_a_check_that_is_not_met_fails(tmp_path: Path) -> None:
    file = tmp_path / "wrong.mlir"
    file.write_text("// CHECK: this is nowhere\n")
    done = subprocess.run(
        [sys.executable, "-m", "filecheck", str(file)], input="module {}", capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
