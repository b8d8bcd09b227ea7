"""The command line: statuses, sentences instead of tracebacks, JSON beside every table."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hip_compiler.cli import main
from hip_compiler.cli.main import COMMANDS
from hip_compiler.slots import PipelineSlot

ROOT = Path(__file__).resolve().parents[2]
IR = """
func.func @f(%x: i32) -> i32 {
  %z = arith.constant 0 : i32
  %s = arith.addi %x, %z : i32
  return %s : i32
}
"""


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIPDNN_EP_COMPILER_PLUGINS", "")
    monkeypatch.setenv("HIPC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("HIPC_REPRO_DIR", raising=False)


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-m", "hip_compiler.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=variables, input="", check=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"usage: hip-compiler {command}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["opt", "--no-such-option"], ["run"]])
def test_wrong_usage_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "usage: hip-compiler" in capsys.readouterr().err


def test_coverage_of_no_operator_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", "Softmaxx"]) == 2
    assert "no operator has 'Softmaxx' in its name" in (printed := capsys.readouterr().err)
    assert "did you mean 'Softmax'" in printed


def test_help_needs_neither_bindings_nor_plugins() -> None:
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch_mlir", "mlir", "llvmlite", "onnx", "pluggy", "numpy"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
from hip_compiler.cli.main import main
assert main(["--help"]) == 0
print("status of doctor:", main(["doctor"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.stderr == ""
    assert "status of doctor: 1" in done.stdout
    assert re.search(r"MLIR bindings +bad", done.stdout)


class TestOpt:
    """`opt` beyond what the text tests show."""

    def test_standard_input_and_output_file(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(IR))
        assert main(["opt", "-p", "canonicalize", "-o", str(tmp_path / "out.mlir")]) == 0
        assert capsys.readouterr().out == ""
        assert "arith.addi" not in (tmp_path / "out.mlir").read_text()

    def test_watching_the_passes(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "in.mlir"
        file.write_text(IR)
        dumps = tmp_path / "dumps"
        arguments = ["opt", str(file), "-p", "canonicalize,cse", "--timing", "--print-ir-after", "cse"]
        assert main([*arguments, "--dump-dir", str(dumps)]) == 0
        shown = capsys.readouterr()
        assert shown.err.count("IR Dump After") == 1 and "IR Dump After cse" in shown.err
        assert "%  canonicalize" in shown.err and shown.err.rstrip().endswith("total")
        assert "IR Dump" not in shown.out and "total" not in shown.out
        assert sorted(path.name for path in dumps.iterdir()) == [
            "000-input.mlir", "001-canonicalize.mlir", "002-cse.mlir"
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("arguments", "status", "message"),
        [
            (["missing.mlir"], 2, "HIPC0001: cannot read missing.mlir"),
            (["--target", "hots"], 1, "HIPC0502: target 'hots' is not registered"),
            (["-p", "cse("], 1, "HIPC0300: the pipeline does not parse"),
            (["--plugins", "nope"], 1, "HIPC0401: no plugin 'nope' is installed"),
        ],
    )
    def test_errors_are_sentences(
        self,
        arguments: list[str],
        status: int,
        message: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(IR))
        assert main(["opt", *arguments]) == status
        assert message in capsys.readouterr().err

    def test_a_defect_is_a_sentence_too_and_its_traceback_is_a_file(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail(*arguments: object) -> None:
            raise ZeroDivisionError("by zero")

        monkeypatch.setattr("hip_compiler.core.opt.optimize", fail)
        monkeypatch.setattr(sys, "stdin", io.StringIO(IR))
        assert main(["opt"]) == 1
        error = capsys.readouterr().err
        assert error.startswith("HIPC0002: a defect of hip-compiler\n  why: ZeroDivisionError: by zero")
        assert "Traceback" not in error
        (saved,) = (tmp_path / "cache" / "repro").iterdir()
        assert str(saved) in error and "Traceback" in saved.read_text()


class TestTables:
    """Every table has JSON beside it."""

    def shown(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
        assert main(list(arguments)) == 0
        return capsys.readouterr().out

    def test_slots_in_order(self, capsys: pytest.CaptureFixture[str]) -> None:
        slots = json.loads(self.shown(capsys, "slots", "--json"))
        assert [slot["slot"] for slot in slots] == list(PipelineSlot)
        table = self.shown(capsys, "slots")
        assert [line.split()[1].rstrip(":") for line in table.splitlines()] == list(PipelineSlot)

    def test_passes_and_one_pass(self, capsys: pytest.CaptureFixture[str]) -> None:
        names = {entry["name"]: entry for entry in json.loads(self.shown(capsys, "passes", "--json"))}
        assert names["hipdnn-pipeline"]["anchor"] == "pipeline"
        assert names["convert-onnx-to-hip"]["from"] == "builtin"
        assert "convert-onnx-to-hip" in self.shown(capsys, "passes")
        assert "Runs on builtin.module; from plugin 'builtin'" in self.shown(capsys, "passes", "hip-bufferize")
        assert main(["passes", "hip-buferize"]) == 1
        assert "did you mean 'hip-bufferize'?" in capsys.readouterr().err

    def test_plugins_none(self, capsys: pytest.CaptureFixture[str]) -> None:
        states = {entry["state"] for entry in json.loads(self.shown(capsys, "plugins", "--json"))}
        assert states <= {"unselected"}

    def test_doctor(self) -> None:
        # In a process of its own: HIP's bindings look for the library once, and other tests put a fake in its place.
        command = [sys.executable, "-m", "hip_compiler.cli", "doctor", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        status, report = done.returncode, json.loads(done.stdout)
        checks = {check["check"]: check["state"] for check in report["checks"]}
        assert checks["MLIR bindings"] == checks["LLVM"] == checks["torch-mlir"] == "ok"
        assert checks["HIPDNN_EP_COMPILER_PLUGINS"] == "ok"
        assert report["healthy"] == (status == 0) == ("bad" not in checks.values())


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m hip_compiler.cli passes | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.stdout.startswith("name") and "Traceback" not in done.stderr and "Error" not in done.stderr


def test_a_variable_of_the_wrong_kind_is_a_sentence(tmp_path: Path) -> None:
    done = process("inspect", str(tmp_path))
    assert done.returncode == 1 and done.stderr.startswith("HIPC0600") and "Traceback" not in done.stderr


def test_the_module_is_the_command_line() -> None:
    command = [sys.executable, "-m", "hip_compiler", "run", "/nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "HIPC0100" in done.stderr and "Traceback" not in done.stderr
