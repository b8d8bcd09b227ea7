"""Plugins in sessions of ONNX Runtime: the option chooses among those that are installed."""

from __future__ import annotations

import pytest

from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime import native
from tests.plugins.conftest import Distribution, Install, Site

SPEAKING = """
class Speaks:
    def apply(self, op, context):
        print("{name} was here", flush=True)


@hookimpl
def hip_compiler_passes():
    return [PassContribution("{name}-speak", Speaks, "Says that it ran.")]


@hookimpl
def hip_compiler_slot_requests():
    return [SlotRequest(PipelineSlot.AFTER_SIMPLIFY_ONNX, "{name}-speak")]
"""
RUN = """
import json, sys
import numpy as np, onnxruntime
from onnx import TensorProto, helper
import hip_compiler.ort

x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy")
graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"])], "g", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
settings = onnxruntime.SessionOptions()
settings.add_provider_for_devices(hip_compiler.ort.register(), json.loads(sys.argv[1]))
session = onnxruntime.InferenceSession(model.SerializeToString(), settings, enable_fallback=0)
assert np.allclose(session.run(None, {"x": np.zeros((2, 3), np.float32)})[0], 1 / 3)
"""


@pytest.fixture(scope="module")
def site(install: Install) -> Site:
    """Two plugins, each with a pass that says so when it runs."""
    try:
        native.find()
    except HipCompilerError as error:
        pytest.skip(str(error))
    return install(*(Distribution(name, SPEAKING.format(name=name)) for name in ("acme", "zoot")))


@pytest.mark.parametrize(
    ("options", "heard"),
    [
        ("{}", {"acme", "zoot"}),
        ('{"plugins": ""}', set()),
        ('{"plugins": "zoot"}', {"zoot"}),
        ('{"plugins": "zoot, acme"}', {"acme", "zoot"}),
    ],
)
def test_plugins(site: Site, options: str, heard: set[str]) -> None:
    done = site.run("-c", RUN, options)
    assert done.returncode == 0, done.stderr
    assert {line.split()[0] for line in done.stdout.splitlines()} == heard


def test_a_plugin_that_is_not_installed(site: Site) -> None:
    done = site.run("-c", RUN, '{"plugins": "acne"}')
    assert done.returncode != 0
    assert "HIPC0401" in done.stderr and "acme" in done.stderr
