"""Build hook: compiles `kernels/` to bitcode, so that the wheel works where there is no compiler.

clang 22 is taken from the machine when there is one, else from the `ziglang` wheel, which the hook
then adds to the build's requirements. `kernels/build.py` does the work; this file only connects it.
"""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
NATIVE = ROOT / "hip_compiler" / "_native"
ZIG = "ziglang==0.17.1"


def _kernels() -> ModuleType:
    """`kernels/build.py`, by path: the build environment has no installed hip_compiler, and need not."""
    spec = importlib.util.spec_from_file_location("hipc_kernels_build", ROOT / "kernels" / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class KernelBuildHook(BuildHookInterface[Any]):
    """Builds the runtime bitcode before the wheel (or the editable install) is put together."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [] if _kernels().find_clang() else [ZIG]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        _kernels().build(NATIVE)
        headers = NATIVE / "include"
        shutil.rmtree(headers, ignore_errors=True)
        shutil.copytree(ROOT / "kernels" / "include", headers)
        # The bitcode is for one platform, and for no Python version in particular.
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
