"""Running plans: anchors, order, verification, timing, dumps, and what a failure leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hip_compiler.core.dialects.load import make_context
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.pipeline import check_entry_point, parse_module, plan_compile
from hip_compiler.core.pipeline.bundle import KEPT
from hip_compiler.errors import ErrorCode, HipCompilerError


def test_python_and_native_passes_run_in_the_order_of_the_text(toy: Any) -> None:
    text, report = toy.run("toy-mark{word=a},canonicalize,toy-mark{word=b},func.func(toy-mark-func{loud times=2})")
    assert 'module attributes {toy.marks = ["a", "b"]}' in text
    assert text.count('toy.marks = ["MARK", "MARK"]') == 2
    assert "arith.addi" not in text
    assert [entry.name for entry in report.times] == ["toy-mark", "canonicalize", "toy-mark", "toy-mark-func"]
    assert all(entry.seconds > 0 for entry in report.times)
    assert report.table().splitlines()[-1].endswith("total")


@pytest.mark.parametrize("nesting", ["func.func(toy-seen)", "any(toy-seen)"])
def test_a_nested_pass_runs_on_each_matching_operation(toy: Any, nesting: str) -> None:
    toy.run(nesting)
    assert toy.seen == ["f", "g"]


def test_a_nesting_that_selects_nothing_runs_nothing(toy: Any) -> None:
    toy.run("gpu.module(any(toy-seen))")
    assert toy.seen == []


def failure(toy: Any, text: str, **options: Any) -> HipCompilerError:
    with pytest.raises(HipCompilerError) as caught:
        toy.run(text, **options)
    return caught.value


def bundle_of(error: HipCompilerError) -> Path:
    return Path(error.hint.split("repro bundle: ")[1])


def test_a_defect_of_a_pass_names_pass_plugin_and_cause(toy: Any) -> None:
    error = failure(toy, "cse,toy-fail")
    assert error.code is ErrorCode.PASS_FAILED
    assert error.what == "pass 'toy-fail' of plugin 'toy' of toy-dist 0.3 failed"
    assert error.why == "KeyError: 'lost'"
    assert error.where == "pass 'toy-fail'"


def test_an_error_of_a_pass_keeps_its_words_and_says_which_pass(toy: Any) -> None:
    error = failure(toy, "toy-fail{how=sentence}")
    assert error.code is ErrorCode.SHAPE_MISMATCH
    assert error.what == "two and three differ"
    assert error.where == "/layer/Add, in pass 'toy-fail'"
    assert error.hint.startswith("look; repro bundle: ")


def test_invalid_ir_after_a_pass_is_found_unless_asked_not_to(toy: Any) -> None:
    error = failure(toy, "toy-fail{how=invalid}")
    assert error.code is ErrorCode.IR_INVALID
    assert error.what == "pass 'toy-fail' of plugin 'toy' of toy-dist 0.3 left IR that does not verify"
    assert "can only contain attributes with dialect-prefixed names, found: 'bad'" in error.details[0]
    text, _ = toy.run("toy-fail{how=invalid}", verify_each=False)
    assert "bad" in text


def test_a_native_failure_carries_its_diagnostics(toy: Any) -> None:
    made = '%x = "a.b"() : () -> tensor<1xf32> loc("/encoder/Add")'
    text = f"func.func @f() -> tensor<1xf32> {{\n{made}\nreturn %x : tensor<1xf32>\n}}"
    error = failure(toy, "one-shot-bufferize", module=text)
    assert error.code is ErrorCode.PASS_FAILED
    assert error.what == "pass 'one-shot-bufferize' failed"
    assert error.details[0] == "/encoder/Add: op was not bufferized"


def test_a_bundle_repeats_the_failure(toy: Any) -> None:
    error = failure(toy, "canonicalize,toy-mark{word=x},toy-fail,cse")
    folder = bundle_of(error)
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.txt", "before.mlir", "error.txt", "pipeline.txt", "plugins.json", "remaining.txt", "versions.json"
    ]  # fmt: skip
    before = (folder / "before.mlir").read_text()
    assert 'toy.marks = ["x"]' in before and "arith.addi" not in before
    assert (folder / "pipeline.txt").read_text() == "builtin.module(canonicalize,toy-mark{word=x},toy-fail,cse)\n"
    assert (folder / "remaining.txt").read_text() == "builtin.module(toy-fail,cse)\n"
    assert json.loads((folder / "plugins.json").read_text())[1] == {
        "id": "toy", "distribution": "toy-dist", "version": "0.3", "state": "active"
    }  # fmt: skip
    assert "torch-mlir" in json.loads((folder / "versions.json").read_text())
    assert "KeyError" in (folder / "error.txt").read_text()
    assert "--pass-pipeline='builtin.module(toy-fail)'" in (folder / "README.txt").read_text()
    # The IR parses again and fails in the same way.
    registry = toy.registry()
    parse_module(before, make_context(registry), "before.mlir")


def test_bundles_do_not_pile_up(toy: Any) -> None:
    folders = [bundle_of(failure(toy, "toy-fail")) for _ in range(KEPT + 2)]
    assert len(list(folders[0].parent.iterdir())) == KEPT
    assert folders[-1].is_dir()


def test_a_bundle_that_cannot_be_written_does_not_hide_the_failure(
    toy: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HIPC_CACHE_DIR", str(tmp_path / "file"))
    error = failure(toy, "toy-fail")
    assert error.code is ErrorCode.PASS_FAILED
    assert error.hint.startswith("no repro bundle: ")


def test_dump_dir_holds_the_ir_after_every_pass_and_the_bundle(toy: Any, tmp_path: Path) -> None:
    error = failure(toy, "canonicalize,func.func(toy-mark-func),toy-fail", dump_dir=tmp_path / "dumps")
    names = sorted(path.name for path in (tmp_path / "dumps").iterdir())
    assert [name for name in names if name.endswith(".mlir")] == [
        "000-input.mlir", "001-canonicalize.mlir", "002-toy-mark-func.mlir"
    ]  # fmt: skip
    assert "arith.addi" in (tmp_path / "dumps" / "000-input.mlir").read_text()
    assert "arith.addi" not in (tmp_path / "dumps" / "001-canonicalize.mlir").read_text()
    assert bundle_of(error).parent == tmp_path / "dumps"


def test_print_ir_after(toy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    toy.run("canonicalize,toy-mark,cse", print_ir_after=("toy-mark",))
    printed = capsys.readouterr().err
    assert printed.count("IR Dump After") == 1 and "IR Dump After toy-mark" in printed
    toy.run("canonicalize,toy-mark,cse", print_ir_after=("*",))
    assert capsys.readouterr().err.count("IR Dump After") == 3


def test_an_override_must_leave_an_entry_point(toy: Any) -> None:
    registry = toy.registry()
    context = make_context(registry)
    plan = plan_compile(registry, CompileOptions(pipeline="cse"), context)
    with pytest.raises(HipCompilerError) as caught:
        check_entry_point(plan, parse_module("func.func private @main_graph()", context, "m"))
    assert caught.value.code is ErrorCode.NO_ENTRY_POINT
    assert "inference_compute" in caught.value.what and "generate-interface" in caught.value.hint
    check_entry_point(plan, parse_module("func.func private @inference_compute()", context, "m"))


def test_text_that_is_no_ir_is_a_sentence_with_a_place(toy: Any) -> None:
    with pytest.raises(HipCompilerError) as caught:
        parse_module("func.func @f() {\n  return %x : i32\n}", make_context(toy.registry()), "bad.mlir")
    assert caught.value.code is ErrorCode.IR_INVALID
    assert caught.value.details[0].startswith("input:2:")
