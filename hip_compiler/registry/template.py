"""The files of a new plugin: one pass, requested at a slot, with a test that passes."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.hookspecs import API_VERSION

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "hip-compiler-$name"
version = "0.1.0"
description = "A plugin for hip-compiler"
requires-python = ">=3.11"
dependencies = ["hip-compiler"]

[project.entry-points."hip_compiler.plugins"]
$name = "$package"

[project.entry-points."hip_compiler.api"]
$name = "v$api"

[tool.hatch.build.targets.wheel]
packages = ["$package"]
""",
    "README.md": """\
# hip-compiler-$name

A plugin for hip-compiler. Install it beside hip-compiler, and the next compile uses it:

    pip install .
    hip-compiler plugins
    pytest
""",
    "$package/__init__.py": '''\
"""What the plugin contributes to hip-compiler."""

from __future__ import annotations

from hip_compiler.plugin import Lazy, PassContribution, PipelineSlot, SlotRequest, hookimpl


@hookimpl
def hip_compiler_passes() -> list[PassContribution]:
    return [PassContribution("$name-tag", Lazy("$package.tag:Tag"), "Tags the module.")]


@hookimpl
def hip_compiler_slot_requests() -> list[SlotRequest]:
    return [SlotRequest(PipelineSlot.AFTER_CONVERT_ONNX_TO_HIP, "$name-tag")]
''',
    "$package/tag.py": '''\
"""A pass to start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.plugin import PassContext


@dataclass(frozen=True)
class Tag:
    """Puts a string attribute on the module.

    IR in: any. IR out: the same, tagged.

    Attributes:
        text: the tag.
    """

    text: str = "hello"

    def apply(self, op: Any, context: PassContext) -> None:
        op.attributes["$package.tag"] = ir.StringAttr.get(self.text)
''',
    "tests/test_$package.py": '''\
"""The plugin by itself, on a few lines of IR."""

from __future__ import annotations

import subprocess
import sys


def hip_compiler(*arguments: str, stdin: str = "") -> str:
    command = [sys.executable, "-m", "hip_compiler.cli", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout


def test_the_plugin_asks_for_its_slot() -> None:
    assert "$name-tag" in hip_compiler("slots")


def test_the_pass_tags_the_module() -> None:
    printed = hip_compiler("opt", "--pass-pipeline=$name-tag{text=mine}", "-", stdin="func.func private @f()")
    assert '$package.tag = "mine"' in printed
''',
}


def write_plugin(name: str, parent: Path) -> Path:
    """Write a plugin package into a new folder.

    Args:
        name: id of the plugin: lower-case words joined by ``-``.
        parent: folder that receives the folder ``hip-compiler-NAME``.

    Returns:
        The new folder.

    Raises:
        HipCompilerError: `HIPC0001`, a name of another form, or a folder that exists or cannot be written.
    """
    if not NAME.fullmatch(name):
        raise HipCompilerError(
            ErrorCode.USAGE, f"'{name}' is no name for a plugin", hint="lower-case letters, digits and '-': acme-fusion"
        )
    words = {"name": name, "package": f"hip_compiler_{name.replace('-', '_')}", "api": str(API_VERSION)}
    folder = parent / f"hip-compiler-{name}"
    try:
        folder.mkdir(parents=True)
        for path, text in FILES.items():
            file = folder / Template(path).substitute(words)
            file.parent.mkdir(exist_ok=True)
            file.write_text(Template(text).substitute(words), encoding="utf-8")
    except OSError as error:
        raise HipCompilerError(ErrorCode.USAGE, f"cannot make {folder}", why=str(error)) from error
    return folder
