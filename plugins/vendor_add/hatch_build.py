"""Build hook: compiles native/vendor_add.cpp to one bitcode file per instruction-set level, into the package."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

from hip_compiler.errors import HipCompilerError
from hip_compiler.toolchain import build_bitcode, find_compiler


class BitcodeHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        try:
            find_compiler()
        except HipCompilerError:
            return ["ziglang==0.17.1"]
        return []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        out = root / "hip_compiler_vendor_add" / "_native"
        build_bitcode([root / "native" / "vendor_add.cpp"], out, stem="vendor_add", export_prefix="vendor_")
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
