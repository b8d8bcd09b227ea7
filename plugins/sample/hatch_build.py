"""Build hook: native/*.cpp to bitcode, a file per source and instruction-set level; kernels/*.hip to code for GPUs."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

from hip_compiler.errors import HipCompilerError
from hip_compiler.toolchain import build_bitcode, build_kernels, find_compiler, find_linker


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
        root = Path(self.root)
        out = root / "hip_compiler_sample" / "_native"
        for source in sorted((root / "native").glob("*.cpp")):
            build_bitcode([source], out, stem=source.stem, export_prefix="sample_")
        for source in sorted((root / "kernels").glob("*.hip")):
            build_kernels([source], out, stem=source.stem)
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
