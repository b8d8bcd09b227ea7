"""`compile`, `run` and `inspect` on a small model with a dynamic extent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from hip_compiler.cli import main
from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime import native
from tests.conversion.oracle import build

BIAS = np.array([1.0, -2.0, 0.5, 0.0], np.float32)


def save_model(path: Path, middle: str = "Relu", domain: str = "") -> Path:
    """y = middle(x + bias), x float[n, 4]. An output called `file` besides, which is its negation."""
    x, y, other = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "y", "file"))
    nodes = [
        helper.make_node("Add", ["x", "bias"], ["sum"], name="/add"),
        helper.make_node(middle, ["sum"], ["y"], name="/middle", domain=domain),
        helper.make_node("Neg", ["y"], ["file"], name="/neg"),
    ]
    bias = helper.make_tensor("bias", TensorProto.FLOAT, [4], BIAS)
    graph = helper.make_graph(nodes, "small", [x], [y, other], [bias])
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model and its artifact."""
    try:
        native.find()
    except HipCompilerError as error:
        pytest.skip(str(error))
    made = tmp_path_factory.mktemp("model")
    save_model(made / "small.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIPDNN_EP_COMPILER_PLUGINS", "")
        assert main(["compile", str(made / "small.onnx"), "-o", str(made / "small.hipc")]) == 0
    return made


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIPDNN_EP_COMPILER_PLUGINS", "")
    monkeypatch.setenv("HIPC_CACHE_DIR", str(tmp_path / "cache"))


def expected(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.maximum(x + BIAS, 0)


def test_inspect_shows_the_interface(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(folder / "small.hipc")]) == 0
    text = capsys.readouterr().out
    assert "x: float[n, 4]" in text and "y: float[n, 4]" in text and "for target host" in text
    assert main(["inspect", str(folder / "small.hipc"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inputs"][0]["name"] == "x"


@pytest.mark.parametrize("rows", [1, 7])
def test_given_inputs_give_the_right_numbers_in_a_file(folder: Path, tmp_path: Path, rows: int) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    saved = tmp_path / "out.npz"
    assert main(["run", str(folder / "small.hipc"), "-i", f"x={tmp_path / 'x.npy'}", "--save", str(saved)]) == 0
    with np.load(saved) as outputs:
        np.testing.assert_allclose(outputs["y"], expected(x), rtol=1e-6)
        np.testing.assert_allclose(outputs["file"], -expected(x), rtol=1e-6)


def test_random_inputs_follow_the_seed_and_the_extents(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def outputs(*more: str) -> Any:
        assert main(["run", str(folder / "small.hipc"), "--json", "-d", "n=3", *more]) == 0
        return json.loads(capsys.readouterr().out)["outputs"]

    first = outputs()
    assert first[0]["shape"] == [3, 4] and first[0]["max"] > 0
    assert outputs() == first and outputs("--seed", "1") != first


def test_the_printed_pipeline_as_override_gives_the_same_program(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["pipeline", "--print"]) == 0
    text = capsys.readouterr().out
    dumps = {}
    for name, override in (("built-in", ""), ("override", text)):
        monkeypatch.setenv("HIPDNN_EP_PIPELINE", override)
        dump_dir = folder / f"dump-{name}"
        arguments = ["compile", str(folder / "small.onnx"), "-o", str(folder / f"{name}.hipc")]
        assert main([*arguments, "--dump-dir", str(dump_dir), "--json"]) == 0
        capsys.readouterr()
        dumps[name] = {file.name: file.read_text() for file in dump_dir.glob("*.mlir")}
    assert len(dumps["built-in"]) > 20
    assert dumps["override"] == dumps["built-in"]


def test_timing_lists_every_pass(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(folder / "timed.hipc")
    assert main(["compile", str(folder / "small.onnx"), "-o", out, "--timing"]) == 0
    shown = capsys.readouterr()
    assert "convert-onnx-to-hip" in shown.err and shown.err.rstrip().endswith("total")
    assert shown.out.rstrip().endswith(f"wrote {out}")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["-i", "z=x.npy"], 1, "HIPC0700: cannot read x.npy"),
        (["-i", "nonsense"], 2, "HIPC0001: --input nonsense is neither NAME=FILE.npy nor FILE.npz"),
        (["-d", "n=many"], 2, "HIPC0001: --dim n=many is not NAME=NUMBER"),
    ],
)
def test_wrong_inputs_are_sentences(
    folder: Path, arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(folder / "small.hipc"), *arguments]) == status
    assert message in capsys.readouterr().err


def test_an_input_that_the_model_does_not_have(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "in.npz", X=np.zeros((1, 4), np.float32))
    assert main(["run", str(folder / "small.hipc"), "-i", str(tmp_path / "in.npz")]) == 1
    error = capsys.readouterr().err
    assert "HIPC0700: the model has no input 'X'" in error and "did you mean 'x'?" in error


def test_an_artifact_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("run", "inspect"):
        assert main([command, str(tmp_path / "none.hipc")]) == 1
        assert "HIPC0600" in capsys.readouterr().err


def test_what_cannot_be_compiled_is_one_report_and_status_1(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save_model(tmp_path / "odd.onnx", "Swirl", "com.acme")
    assert main(["compile", str(model)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("HIPC0200: 1 node cannot be compiled\n  /middle: com.acme::Swirl opset 1")
    assert not (tmp_path / "odd.hipc").exists()


def test_sequences_and_strings_are_given_and_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = (
        "g (seq(float[N]) s, string[M] w) => (seq(float[N]) t, string[M] v) {\n t = Identity (s)\n v = Identity (w) }"
    )
    onnx.save(build(graph), tmp_path / "model.onnx")
    np.savez(tmp_path / "s.npz", first=np.ones(2, np.float32), second=np.zeros(3, np.float32))
    np.save(tmp_path / "w.npy", np.array(["one", "größer"]))
    arguments = ["run", str(tmp_path / "model.onnx"), "-i", f"s={tmp_path / 's.npz'}"]
    assert main([*arguments, "-i", f"w={tmp_path / 'w.npy'}", "--save", str(tmp_path / "out.npz")]) == 0
    shown = capsys.readouterr().out
    assert "t[1]" in shown and "string" in shown
    with np.load(tmp_path / "out.npz") as saved:
        assert saved["v"].tolist() == ["one", "größer"] and saved["t[1]"].shape == (3,)
    assert main(arguments) == 1
    assert "input 'w' has element type string\n  do: give it with --input" in capsys.readouterr().err
