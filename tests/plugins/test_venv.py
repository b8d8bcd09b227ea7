"""The drop-in, as a user meets it: pip installs a wheel into a virtual environment, and pip takes it away again."""

from __future__ import annotations

import json
from pathlib import Path

from tests.plugins.conftest import Site, marking

COMPILE = """
import json
import numpy as np
from onnx import TensorProto, helper
import hip_compiler

x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
session = hip_compiler.compile(model)
assert session.run({"x": np.float32([1, 2])})["y"].tolist() == [-1, -2]
print(json.dumps(dict(session.metadata.plugins_used)))
"""


def used(site: Site) -> dict[str, str]:
    """Plugins that take part in a compile."""
    done = site.run("-c", COMPILE)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_installed_upgraded_and_uninstalled_with_no_other_step(tmp_path: Path) -> None:
    site = Site.make(tmp_path)
    assert used(site) == {}
    site.install(marking("alpha").write_wheel(tmp_path))
    assert list(site.states()) == ["vendor-alpha"]
    assert used(site) == {"alpha": "vendor-alpha 1.0"}
    site.install(marking("alpha", version="1.1").write_wheel(tmp_path))
    assert used(site) == {"alpha": "vendor-alpha 1.1"}
    site.pip("uninstall", "--yes", "vendor-alpha")
    assert site.states() == {} and used(site) == {}
