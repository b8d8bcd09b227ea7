"""What plugins do to compiles from Python: broken ones, overridden pipelines, selections, and how long it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.conftest import Distribution, Install, Site, marking

COMPILE = """
import os, sys
os.environ.update(eval(sys.argv[2]))
import numpy as np
from onnx import TensorProto, helper
import hip_compiler

x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
try:
    for _ in range(2):
        session = hip_compiler.compile(model, **eval(sys.argv[1]))
        assert session.run({"x": np.float32([1, 2])})["y"].tolist() == [-1, -2]
    print("compiled with", sorted(session.metadata.plugins_used))
except hip_compiler.HipCompilerError as error:
    print(error)
"""
BROKEN = """
@hookimpl
def hip_compiler_passes():
    return [PassContribution("broken-mark", Nothing, "")]

@hookimpl
def hip_compiler_slot_requests():
    return [SlotRequest(PipelineSlot.AFTER_POOL_ALLOCS, "broken-mark")]

@hookimpl
def hip_compiler_kernels():
    raise OSError("the licence has run out")
"""
WHY = [
    "HIPC0400: hook hip_compiler_kernels of plugin 'broken' of vendor-broken 1.0 failed",
    "  why: OSError: the licence has run out",
]


def compiled(site: Site, options: str = "{}", plugins: str | None = None, **knobs: str) -> tuple[list[str], str]:
    """What two compiles in a process of their own print, and their warnings."""
    done = site.run("-W", "default", "-c", COMPILE, options, repr(knobs), plugins=plugins)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.fixture(scope="module")
def broken(install: Install) -> Site:
    return install(marking("alpha"), Distribution("broken", BROKEN))


@pytest.fixture(scope="module")
def good(install: Install) -> Site:
    return install(marking("alpha"), marking("beta", version="2.5"))


def test_a_broken_plugin_that_nobody_asked_for_is_left_out_whole_with_one_warning(broken: Site) -> None:
    printed, warned = compiled(broken)
    assert printed == ["compiled with ['alpha']"]
    assert warned.count("the compile goes on without plugin 'broken' of vendor-broken 1.0") == 1
    for line in WHY:
        assert line in warned
    assert "broken-mark" not in broken.cli("slots").stdout


@pytest.mark.parametrize(
    ("options", "plugins"), [("{'plugins': ['alpha', 'broken']}", None), ("{}", "alpha;broken")], ids=["call", "knob"]
)
def test_a_broken_plugin_asked_for_by_name_fails_the_compile(broken: Site, options: str, plugins: str | None) -> None:
    assert compiled(broken, options, plugins) == (WHY, "")


def test_the_list_of_a_call_is_the_selection_in_its_order(good: Site) -> None:
    assert compiled(good)[0] == ["compiled with ['alpha', 'beta']"]
    assert compiled(good, "{'plugins': ['beta']}")[0] == ["compiled with ['beta']"]
    assert compiled(good, "{'plugins': []}", "alpha")[0] == ["compiled with []"]
    assert compiled(good, "{'plugins': ['bta']}")[0] == [
        "HIPC0401: no plugin 'bta' is installed",
        "  where: plugins=",
        "  why: installed plugins: alpha, beta",
        "  do: did you mean 'beta'?",
    ]


def test_an_overridden_pipeline_lists_once_what_will_not_run(good: Site) -> None:
    printed, warned = compiled(good, HIPDNN_EP_PIPELINE="hipdnn-pipeline")
    assert printed == ["compiled with ['alpha', 'beta']"]
    assert warned.count("HIPDNN_EP_PIPELINE replaces the built-in pipeline; these slot requests will not run:") == 1
    assert "slot AfterConvertOnnxToHip: alpha-mark (plugin 'alpha' of vendor-alpha 1.0)" in warned
    assert "slot AfterConvertOnnxToHip: beta-mark (plugin 'beta' of vendor-beta 2.5)" in warned
    assert "place slots in the text with slot:NAME elements" in warned


def test_an_override_that_places_the_slots_runs_them_without_a_warning(good: Site) -> None:
    text = good.cli("pipeline", "--print").stdout.strip()
    assert "slot:AfterConvertOnnxToHip" in text
    assert compiled(good, HIPDNN_EP_PIPELINE=text) == (["compiled with ['alpha', 'beta']"], "")


def test_a_request_that_does_not_resolve_fails_the_compile(install: Install) -> None:
    site = install(Distribution("lost", marking("lost").code.replace('"lost-mark")]', '"lost-mrk")]')))
    printed, _ = compiled(site)
    assert printed[0] == "HIPC0301: nothing registers a pass or pipeline 'lost-mrk'"
    assert printed[1:3] == ["  lost-mrk", "  ^"]
    assert "  where: slot AfterConvertOnnxToHip, requested by plugin 'lost' of vendor-lost 1.0" in printed
    assert "  do: did you mean 'lost-mark'?" in printed


def test_a_pass_that_fails_names_its_plugin_and_slot(install: Install) -> None:
    code = marking("frail").code.replace("Nothing", "Frail") + (
        "\nclass Frail:\n    def apply(self, op, context):\n        raise ValueError('out of cards')\n"
    )
    printed, _ = compiled(install(Distribution("frail", code)))
    assert printed[0] == "HIPC0302: pass 'frail-mark' of plugin 'frail' of vendor-frail 1.0 failed"
    assert "slot AfterConvertOnnxToHip, requested by plugin 'frail' of vendor-frail 1.0" in "\n".join(printed)
    assert "  why: ValueError: out of cards" in printed


def test_another_version_of_a_plugin_is_another_entry_of_the_compile_cache(install: Install, tmp_path: Path) -> None:
    def entries(site: Site, plugins: str | None = None) -> int:
        printed, _ = compiled(site, "{'cache': True}", plugins, HIPC_CACHE_DIR=str(tmp_path))
        assert printed[0].startswith("compiled with")
        return len(list((tmp_path / "models").iterdir()))

    old, new = install(marking("alpha")), install(marking("alpha", version="1.1"))
    assert [entries(old), entries(old), entries(new), entries(new), entries(new, "")] == [1, 1, 2, 2, 3]


def test_without_plugins_a_compile_spends_next_to_no_time_on_them(tmp_path_factory: pytest.TempPathFactory) -> None:
    scratch = tmp_path_factory.mktemp("none")
    code = """
import time
import hip_compiler.core.driver
from hip_compiler.registry.discovery import installed, select
from hip_compiler.registry.registry import survey, survey_of

survey_of((), select([]))

def seconds(action):
    best = 1.0
    for _ in range(5):
        start = time.process_time()
        action()
        best = min(best, time.process_time() - start)
    return best

everything = seconds(lambda: survey_of(installed(), select(None)))
print(everything - seconds(lambda: survey_of((), select([]))), len(survey().active))
"""
    seconds, count = Site.make(scratch).run("-c", code).stdout.split()
    assert count == "0"
    assert float(seconds) < 0.005
