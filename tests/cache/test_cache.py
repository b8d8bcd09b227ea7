"""The compile cache: what is a hit, what is a miss, and that nobody reads half of an entry."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from hip_compiler.core import cache
from hip_compiler.core.driver import Compiled, compile_model
from hip_compiler.core.options import CompileOptions
from hip_compiler.errors import HipCompilerError
from hip_compiler.registry.contributions import PassContribution
from hip_compiler.registry.records import PluginRecord
from hip_compiler.registry.registry import Registry, load_registry
from hip_compiler.runtime import Session, cpu, native
from hip_compiler.runtime.cpu import Cpu

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = CompileOptions(plugins=(), cache=True)
FEED = np.array([[1, 2, 3]], np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of entries, empty at first."""
    try:
        native.find()
    except HipCompilerError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("HIPC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("HIPDNN_EP_PIPELINE", raising=False)
    return tmp_path / "cache" / "models"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = x + w, with w in a file of its own."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy")
    w = numpy_helper.from_array(np.array([10, 20, 30], np.float32), "w")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [w])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path / "model.onnx"
    onnx.save_model(proto, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path


def result(compiled: Compiled) -> list[float]:
    with Session(compiled.artifact) as session:
        outputs: list[float] = session.run({"x": FEED})["y"][0].tolist()
    return outputs


def test_the_second_compile_is_a_hit_and_gives_the_same(model: Path, folder: Path, tmp_path: Path) -> None:
    first = compile_model(model, OPTIONS)
    second = compile_model(model, OPTIONS, output=tmp_path / "out.hipc")
    assert (first.report.cached, second.report.cached) == (False, True)
    assert result(first) == result(second) == [11, 22, 33]
    assert second.artifact.folder == tmp_path / "out.hipc"
    assert [path.name for path in folder.iterdir()] == [cache.cache_entry(model, OPTIONS, load_registry([])).name]


def test_without_the_option_nothing_is_kept(model: Path, folder: Path) -> None:
    assert not compile_model(model, replace(OPTIONS, cache=False)).report.cached
    assert not folder.exists()


def test_one_byte_of_external_data_makes_a_miss(model: Path) -> None:
    compile_model(model, OPTIONS)
    data = model.with_name("w.bin")
    contents = bytearray(data.read_bytes())
    contents[:4] = np.float32(11).tobytes()
    data.write_bytes(contents)
    again = compile_model(model, OPTIONS)
    assert not again.report.cached
    assert result(again) == [12, 22, 33]


def other_plugin(registry: Registry, version: str) -> Registry:
    contribution = PassContribution("acme-pass", object, "")  # type: ignore[arg-type]
    record = PluginRecord("acme", "vendor-acme", version, "v1", "active", contributions=(contribution,))
    return replace(registry, plugins=(*registry.plugins, record))


Change = Callable[[pytest.MonkeyPatch, Path], tuple[CompileOptions, Registry]]


def changes() -> dict[str, Change]:
    def plugin(monkeypatch: pytest.MonkeyPatch, model: Path) -> tuple[CompileOptions, Registry]:
        return OPTIONS, other_plugin(load_registry([]), "1.0")

    def option(monkeypatch: pytest.MonkeyPatch, model: Path) -> tuple[CompileOptions, Registry]:
        return replace(OPTIONS, opt_level=1), load_registry([])

    def pipeline(monkeypatch: pytest.MonkeyPatch, model: Path) -> tuple[CompileOptions, Registry]:
        monkeypatch.setenv("HIPDNN_EP_PIPELINE", "hipdnn-pipeline")
        return OPTIONS, load_registry([])

    def source(monkeypatch: pytest.MonkeyPatch, model: Path) -> tuple[CompileOptions, Registry]:
        monkeypatch.setattr(cache, "_sources", lambda: "another source")
        return OPTIONS, load_registry([])

    def machine(monkeypatch: pytest.MonkeyPatch, model: Path) -> tuple[CompileOptions, Registry]:
        monkeypatch.setattr(cpu, "host", lambda: Cpu("riscv64-linux-gnu", "generic", ""))
        return OPTIONS, load_registry([])

    def toolchain(monkeypatch: pytest.MonkeyPatch, model: Path) -> tuple[CompileOptions, Registry]:
        monkeypatch.setattr(cache, "versions", lambda: {"llvmlite": "99"})
        return OPTIONS, load_registry([])

    def graph(monkeypatch: pytest.MonkeyPatch, model: Path) -> tuple[CompileOptions, Registry]:
        proto = onnx.load_model(model, load_external_data=False)
        proto.graph.node[0].op_type = "Sub"
        model.write_bytes(proto.SerializeToString())
        return OPTIONS, load_registry([])

    return {change.__name__: change for change in (plugin, option, pipeline, source, machine, toolchain, graph)}


@pytest.mark.parametrize("change", changes().values(), ids=changes())
def test_whatever_can_change_the_program_changes_the_entry(
    model: Path, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    before = cache.cache_entry(model, OPTIONS, load_registry([]))
    assert cache.cache_entry(model, OPTIONS, load_registry([])) == before
    assert cache.cache_entry(model, *change(monkeypatch, model)) != before


def test_a_plugins_version_changes_the_entry(model: Path) -> None:
    registry = load_registry([])
    entries = {cache.cache_entry(model, OPTIONS, other_plugin(registry, version)) for version in ("1.0", "1.1")}
    assert len(entries) == 2


def test_tensors_are_found_wherever_they_are(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.array([1], np.float32), "t")
    constant = helper.make_node("Constant", [], ["c"], value=tensor)
    branch = helper.make_graph([constant], "b", [], [helper.make_tensor_value_info("c", TensorProto.FLOAT, [1])])
    node = helper.make_node("If", ["p"], ["y"], then_branch=branch, else_branch=branch)
    proto = helper.make_model(helper.make_graph([node], "g", [], [], [tensor]))
    proto.functions.append(helper.make_function("d", "F", [], ["c"], [constant], [helper.make_opsetid("", 17)]))
    assert len(list(cache._tensors(proto))) == 4


@pytest.mark.parametrize("damage", ["metadata.json", "model.bc", "constants.bin"])
def test_a_damaged_entry_is_made_again(model: Path, folder: Path, damage: str) -> None:
    compile_model(model, OPTIONS)
    (entry,) = folder.iterdir()
    (entry / damage).write_bytes(b"torn")
    again = compile_model(model, OPTIONS)
    assert not again.report.cached
    assert result(again) == [11, 22, 33]
    assert compile_model(model, OPTIONS).report.cached


def test_what_a_killed_writer_left_is_not_read(model: Path, folder: Path) -> None:
    compile_model(model, OPTIONS)
    (entry,) = folder.iterdir()
    # What publishing looks like half way: a private folder beside the place of the entry.
    private = entry.with_name(f".{entry.name}.abc.partial")
    shutil.move(entry, private)
    (private / "metadata.json").unlink()
    assert not compile_model(model, OPTIONS).report.cached
    assert compile_model(model, OPTIONS).report.cached


def test_two_processes_that_fill_one_entry_at_once(model: Path, folder: Path) -> None:
    code = (
        "import sys, hip_compiler, numpy as np\n"
        "session = hip_compiler.compile(sys.argv[1], plugins=(), cache=True)\n"
        "print(session.run({'x': np.float32([[1, 2, 3]])})['y'].tolist())\n"
    )
    command = [sys.executable, "-c", code, str(model)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(2)]
    assert [process.communicate()[0] for process in running] == ["[[11.0, 22.0, 33.0]]\n"] * 2
    assert len(list(folder.iterdir())) == 1
    assert compile_model(model, OPTIONS).report.cached


def test_watching_the_passes_runs_them(model: Path, tmp_path: Path) -> None:
    compile_model(model, OPTIONS)
    watched = compile_model(model, replace(OPTIONS, dump_dir=tmp_path / "dump"))
    assert not watched.report.cached and list((tmp_path / "dump").iterdir())


def test_from_the_command_line(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hip_compiler.cli import main

    for cached in (False, True):
        arguments = ["compile", str(model), "-o", str(tmp_path / "m.hipc"), "--cache", "--plugins", "", "--json"]
        assert main(arguments) == 0
        assert json.loads(capsys.readouterr().out)["cached"] is cached
