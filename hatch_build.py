"""Build hook: compiles `kernels/` to bitcode, so that the wheel works where there is no compiler.

clang 22 is taken from the machine when there is one, else from the `ziglang` wheel, which the hook
then adds to the build's requirements. `kernels/build.py` does the work; this file only connects it.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
NATIVE = ROOT / "hip_compiler" / "_native"
LINKER, ZIG = "llvmlite==0.50.*", "ziglang==0.17.1"


def _kernels() -> Any:
    # The build environment has no installed hip_compiler: take the modules from the source tree.
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module("kernels.build")


def _has_compiler() -> bool:
    kernels = _kernels()
    try:
        kernels.find_compiler()
    except kernels.HipCompilerError:
        return False
    return True


def copy_headers(target: Path) -> None:
    """Put what plugins are compiled with into a new folder: the runtime ABI, and what device kernels share."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "kernels" / "include", target)
    for header in (ROOT / "kernels" / "device").glob("*.h"):
        shutil.copy(header, target)


class KernelBuildHook(BuildHookInterface[Any]):
    """Builds the runtime bitcode before the wheel (or the editable install) is put together."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [LINKER] if _has_compiler() else [LINKER, ZIG]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        _kernels().build_native(NATIVE)
        copy_headers(NATIVE / "include")
        # The bitcode is for one platform, and for no Python version in particular.
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
