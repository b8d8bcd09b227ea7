"""The drop-in, as a user meets it: pip installs a wheel into a virtual environment, and pip takes it away again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.plugins.conftest import ROOT, Distribution, marking

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


class Environment:
    """A virtual environment that sees this source tree and, through a path file, what the tests run with."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = folder / "bin" / "python"
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "outside.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("HIPDNN_", "HIPC_", "PYTHON"))}
        self.environment["HIPC_CACHE_DIR"] = str(folder / "cache")

    def pip(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "--disable-pip-version-check", *arguments]
        subprocess.run(command, check=True, capture_output=True, env=self.environment)

    def run(self, *arguments: str) -> str:
        done = subprocess.run([self.python, *arguments], capture_output=True, text=True, env=self.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def plugins(self) -> list[str]:
        return [entry["id"] for entry in json.loads(self.run("-m", "hip_compiler.cli", "plugins", "--json"))]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("venv"))


def install(environment: Environment, plugin: Distribution, folder: Path) -> None:
    environment.pip("install", "--no-index", "--no-deps", str(plugin.write_wheel(folder)))


def test_installed_upgraded_and_uninstalled_with_no_other_step(environment: Environment, tmp_path: Path) -> None:
    assert json.loads(environment.run("-c", COMPILE)) == {}
    install(environment, marking("alpha"), tmp_path)
    assert environment.plugins() == ["alpha"]
    assert json.loads(environment.run("-c", COMPILE)) == {"alpha": "vendor-alpha 1.0"}
    install(environment, marking("alpha", version="1.1"), tmp_path)
    assert json.loads(environment.run("-c", COMPILE)) == {"alpha": "vendor-alpha 1.1"}
    environment.pip("uninstall", "--yes", "vendor-alpha")
    assert environment.plugins() == []
    assert json.loads(environment.run("-c", COMPILE)) == {}
