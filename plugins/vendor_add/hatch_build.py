"""Build hook: native/*.cpp to bitcode for the host and for GPU targets, kernels/*.hip to code for GPUs."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

from hip_compiler.errors import HipCompilerError
from hip_compiler.toolchain import (
    build_bitcode,
    build_kernels,
    find_compiler,
    find_linker,
    host_architecture,
    include_folder,
    levels_of,
)


class NativeHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        try:
            find_compiler()
            find_linker()
        except HipCompilerError:
            return ["ziglang==0.17.1"]
        return []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        native, kernels = Path(self.root, "native"), Path(self.root, "kernels")
        out = Path(self.root, "hip_compiler_vendor_add", "_native")
        headers = (include_folder(), kernels)
        build_bitcode([native / "vendor_add.cpp"], out, None, headers, stem="vendor_add", export_prefix="vendor_")
        # It only launches, on whatever CPU: one level will do.
        weakest = levels_of(host_architecture())[:1]
        gpu = [native / "vendor_add_gpu.cpp"]
        build_bitcode(gpu, out, weakest, headers, stem="vendor_add_gpu", export_prefix="vendor_")
        # For the GPUs that hip-compiler itself is built for.
        build_kernels(sorted(kernels.glob("*.hip")), out, stem="vendor_add")
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
