"""The sample plugin, installed by pip: found, run at its slot, and gone when it is not installed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hip_compiler.runtime.native import FOLDER
from tests.plugins.conftest import ROOT, Site

SOFTMAX = '%{0} = "hip.softmax"(%x, %x) {{axis = 0 : i64}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n'
IR = (
    "func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {\n"
    + SOFTMAX.format(0)
    + SOFTMAX.format(1)
    + "return %0, %1 : tensor<4xf32>, tensor<4xf32>\n}\n"
)


def test_it_is_listed_with_its_contributions(sample: Site) -> None:
    (entry,) = json.loads(sample.cli("plugins", "--json").stdout)
    assert entry == {
        "id": "sample",
        "distribution": "hip-compiler-sample",
        "version": "0.1.0",
        "api": "v1",
        "state": "active",
        "reason": "",
        "contributions": [
            "pass sample-count-ops",
            "slot AfterConvertOnnxToHip: sample-count-ops",
            "dialect sample",
            "ONNX com.sample::Cbrt 1..",
            "ONNX com.sample::Scale 1..",
            "bitcode sample cbrt for host",
            "bitcode sample cbrt for sample-cpu",
            "library m for host",
            "library m for sample-cpu",
            "kernels sample scale for host",
            "kernels sample scale for sample-cpu",
            "kernels sample scale for amdgpu: gfx1151, sm_90",
            "pipeline sample-pipeline",
            "target sample-cpu",
        ],
    }


def test_it_contributes_one_of_everything(sample: Site) -> None:
    code = (
        "from hip_compiler.registry.hookspecs import HOOKS\n"
        "from hip_compiler.registry.registry import load_registry\n"
        "(record,) = load_registry().active\n"
        "print(set(HOOKS.values()) - set(map(type, record.contributions)))"
    )
    assert sample.run("-c", code).stdout == "set()\n"


def test_its_pass_runs_at_its_slot(sample: Site) -> None:
    done = sample.cli("opt", "-p", "slot:AfterConvertOnnxToHip", stdin=IR)
    assert done.returncode == 0, done.stderr
    assert "sample.op_counts = {hip.softmax = 2 : i64}" in done.stdout


def test_it_stands_in_the_built_in_pipeline_at_its_slot(sample: Site) -> None:
    done = sample.cli("pipeline", "--json")
    assert done.returncode == 0, done.stderr
    passes = json.loads(done.stdout)
    names = [entry["pass"] for entry in passes]
    mine = names.index("sample-count-ops")
    assert names[mine - 1] == "convert-onnx-to-hip"
    assert passes[mine] == {
        "pass": "sample-count-ops",
        "from": "sample",
        "requested by": "slot AfterConvertOnnxToHip, requested by plugin 'sample' of hip-compiler-sample 0.1.0",
    }
    assert [entry["from"] for entry in passes if entry["requested by"]] == ["sample"]


def test_printed_pipelines_give_the_same_passes(sample: Site) -> None:
    expected = sample.cli("pipeline", "--json").stdout
    for more in ([], ["--expand"]):
        text = sample.cli("pipeline", "--print", *more).stdout.strip()
        assert ("slot:AfterConvertOnnxToHip" in text) == (not more)
        asked = "slot AfterConvertOnnxToHip, requested by plugin 'sample' of hip-compiler-sample 0.1.0"
        assert text.splitlines()[1:] == [f"# + sample-count-ops: {asked}"]
        again = [entry["pass"] for entry in json.loads(sample.cli("pipeline", "--json", text).stdout)]
        assert again == [entry["pass"] for entry in json.loads(expected)]


def test_plugin_passes_are_marked(sample: Site) -> None:
    shown = sample.cli("pipeline").stdout.splitlines()
    assert [line.split()[2] for line in shown if line[13] == "+"] == ["sample-count-ops"]
    placed = sample.cli("pipeline", "canonicalize,sample-count-ops").stdout.splitlines()
    assert [line[13] for line in placed] == [" ", "+"]
    text = sample.cli("pipeline", "--print", "canonicalize,sample-count-ops").stdout.splitlines()
    assert text[1:] == ["# + sample-count-ops: of plugin 'sample' of hip-compiler-sample 0.1.0"]


def test_its_options(sample: Site) -> None:
    shown = sample.cli("passes", "sample-count-ops").stdout
    assert "dialect    str   hip" in shown
    assert "attribute  str   sample.op_counts" in shown


@pytest.mark.parametrize("plugins", [None, ""])
def test_it_is_absent_when_not_installed_or_not_selected(sample: Site, tmp_path: Path, plugins: str | None) -> None:
    site = sample if plugins == "" else Site.make(tmp_path)
    assert "sample-count-ops" not in site.cli("passes", plugins=plugins).stdout
    done = site.cli("opt", "-p", "slot:AfterConvertOnnxToHip", plugins=plugins, stdin=IR)
    assert done.returncode == 0
    assert "sample.op_counts" not in done.stdout


def test_its_own_tests_pass(sample: Site, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "plugins" / "sample" / "tests", tmp_path / "tests")
    done = sample.run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "tests"))
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout


ON_GPU = """
import numpy as np
from onnx import TensorProto, helper
import hip_compiler
from tests.plugins.emulated import emulated_gpu

hip = emulated_gpu()
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.sample", 1)]


def compiled(op, **attributes):
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], domain="com.sample", **attributes)], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return hip_compiler.compile(model, "amdgpu", arch=("gfx1151",))


with compiled("Scale", factor=2.5) as session:
    for n in (1, 600):
        feed = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(session.run({"x": feed})["y"], 2.5 * feed)
assert hip.launched() == ["sample_scale"] * 2
hip.check()
try:
    compiled("Cbrt")
except hip_compiler.HipCompilerError as error:
    print(error)
"""


@pytest.mark.skipif(not (FOLDER / "kernels.pack").is_file(), reason="kernels.pack is not built: kernels/build.py")
def test_its_kernel_runs_on_a_gpu_and_its_function_for_the_host_does_not(sample: Site) -> None:
    done = sample.run("-c", ON_GPU)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("HIPC0200: 1 node cannot be compiled")
    assert "plugin 'sample' of hip-compiler-sample 0.1.0 has no sample.cbrt for target 'amdgpu'" in done.stdout


def test_its_verifier_refuses_other_elements(sample: Site) -> None:
    program = ON_GPU.replace("TensorProto.FLOAT", "TensorProto.DOUBLE").replace('"amdgpu", arch=("gfx1151",)', "'host'")
    cut = program.index("with compiled")
    done = sample.run("-c", program[:cut] + 'compiled("Scale", factor=2.5)')
    assert "elements are f64; only f32 can be scaled" in done.stderr
