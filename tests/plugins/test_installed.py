"""A hip-compiler that is installed from a wheel, with no source tree in sight: a plugin is built and used beside it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hatch_build import copy_headers
from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime.native import FOLDER
from hip_compiler.toolchain import find_compiler, find_linker
from tests.plugins.conftest import ROOT, Site

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from onnx import TensorProto, helper
import hip_compiler
from hip_compiler.runtime import Artifact

x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
with hip_compiler.compile(model) as session:
    print(hip_compiler.__file__, session.run({"x": np.float32([1, 2])})["y"], dict(session.metadata.ops))
try:
    hip_compiler.compile(model, "amdgpu", arch=("gfx1151",), output="gpu.hipc").close()
except hip_compiler.HipCompilerError as error:
    # Loading it needs a GPU; the artifact is whole.
    assert error.code == hip_compiler.ErrorCode.RUN_FAILED, error
print(sorted(path.name for path in Path("gpu.hipc", "device").iterdir()))
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """An environment with the wheel of this source tree, made of what is built already."""
    if not (FOLDER / "kernels.pack").is_file():
        pytest.skip("kernels.pack is not built: python kernels/build.py")
    try:
        find_compiler()
        find_linker()
    except HipCompilerError as error:
        pytest.skip(str(error))
    site = Site.make(tmp_path, source_tree=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HATCH_BUILD_NO_HOOKS", "true")
        site.pip("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    site.install("--ignore-installed", wheel)
    # What the hook does last.
    copy_headers(site.folder / "hip_compiler" / "_native" / "include")
    return site


def test_a_plugin_is_built_and_used_beside_it(site: Site, tmp_path: Path) -> None:
    def run(program: str) -> list[str]:
        # Isolated: neither the folder nor the environment adds to where modules are found.
        command = [site.python, "-I", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    source = tmp_path / "source"
    shutil.copytree(ROOT / "plugins" / "vendor_add", source, ignore=shutil.ignore_patterns("_native", "__pycache__"))
    site.install(source)
    assert run(PROGRAM) == [
        f"{site.folder}/hip_compiler/__init__.py [2. 4.] {{'vendor.add': 1}}",
        "['gfx1151.library', 'gfx1151.plugin0', 'index']",
    ]
    site.pip("uninstall", "--quiet", "--yes", "hip-compiler-vendor-add")
    host, device = run(PROGRAM.replace("gpu.hipc", "other.hipc"))
    assert "[2. 4.]" in host and "vendor" not in host and "plugin" not in device
