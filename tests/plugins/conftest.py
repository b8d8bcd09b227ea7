"""Real distributions in throw-away virtual environments, used by real processes.

Plugins of `plugins/` are built and installed by pip. Wheels that tests write are unpacked, which is what pip does with
them (binary distribution format 1.0) and takes a second less; `test_venv.py` has pip do it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import venv
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = {"HIPC_BUILD_GPUS": "gfx1151,sm_90"}
"""Plugins are built for two GPUs: they show what there is to show."""
PREAMBLE = """
import os
from hip_compiler.plugin import (
    AttributeDef, BitcodeContribution, CallLowering, DialectContribution, KernelContribution, LaunchLowering, Lazy,
    LibraryContribution, OnnxOpClaim, OpDef, OperandDef, PassContribution, PipelineContribution, PipelineSlot,
    PlainOpDef, SlotRequest, TargetContribution, TensorSpec, hookimpl,
)

with open(os.environ.get("IMPORT_LOG", os.devnull), "a") as log:
    log.write(__name__ + "\\n")


class Nothing:
    def apply(self, op, context):
        pass
"""
MARK = """
@hookimpl
def hip_compiler_passes():
    return [PassContribution("{name}-mark", Nothing, "Does nothing.")]

@hookimpl
def hip_compiler_slot_requests():
    return [SlotRequest(PipelineSlot.AFTER_CONVERT_ONNX_TO_HIP, "{name}-mark")]
"""


@dataclass(frozen=True)
class Distribution:
    """A distribution with one plugin.

    Attributes:
        id: entry-point name of the plugin.
        code: body of its module, after the preamble.
        api: value in the group ``hip_compiler.api``; empty: no such entry.
        domains: names in the group ``hip_compiler.domains``.
        data: further files of the package.
    """

    id: str
    code: str
    name: str = ""
    version: str = "1.0"
    api: str = "v1"
    data: Mapping[str, bytes] = field(default_factory=dict)
    domains: tuple[str, ...] = ()

    @property
    def distribution(self) -> str:
        return self.name or f"vendor-{self.id}"

    def write_wheel(self, folder: Path) -> Path:
        """A wheel of the distribution (binary distribution format 1.0)."""
        package = self.distribution.replace("-", "_")
        info = f"{package}-{self.version}.dist-info"
        points = f"[hip_compiler.plugins]\n{self.id} = {package}\n"
        if self.api:
            points += f"\n[hip_compiler.api]\n{self.id} = {self.api}\n"
        if self.domains:
            points += "\n[hip_compiler.domains]\n" + "".join(f"{name} = {self.id}\n" for name in self.domains)
        files = {
            f"{package}/__init__.py": (PREAMBLE + textwrap.dedent(self.code)).encode(),
            **{f"{package}/{name}": content for name, content in self.data.items()},
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {self.distribution}\nVersion: {self.version}\n".encode(),
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": points.encode(),
        }
        rows = []
        for name, content in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(content)}")
        files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
        path = folder / f"{package}-{self.version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return path


def marking(id_: str, **more: Any) -> Distribution:
    """A plugin with one pass, requested at one slot."""
    return Distribution(id_, MARK.format(name=id_), **more)


@dataclass(frozen=True)
class Site:
    """A throw-away virtual environment, which sees this source tree and, through a path file, what the tests run with.

    Attributes:
        scratch: folder of its own, with the environment in `venv`.
    """

    scratch: Path

    @staticmethod
    def make(scratch: Path, source_tree: bool = True) -> Site:
        """A new environment with no plugin in it; without the source tree, it has no hip-compiler either."""
        site = Site(scratch)
        venv.create(scratch / "venv", with_pip=False, symlinks=True)
        outside = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *([str(ROOT)] if source_tree else [])]
        (site.folder / "outside.pth").write_text("\n".join(dict.fromkeys(outside)) + "\n")
        return site

    @property
    def folder(self) -> Path:
        """Its site-packages."""
        (folder,) = (self.scratch / "venv").glob("lib/python3*/site-packages")
        return folder

    @property
    def python(self) -> str:
        return str(self.scratch / "venv" / "bin" / "python")

    def pip(self, *arguments: str | Path) -> None:
        """Run pip in it, without an index."""
        command = [sys.executable, "-m", "pip", "--python", self.python, "--disable-pip-version-check"]
        environment = {**BUILD, **os.environ}
        done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr

    def install(self, *what: str | Path) -> None:
        """Install wheels, or source folders, which are built."""
        self.pip("install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--no-compile", *what)

    def unpack(self, wheel: Path) -> None:
        """Install a wheel of pure Python that has no scripts."""
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.folder)

    def run(self, *command: str, plugins: str | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A Python process of the environment."""
        ours = ("HIPDNN_", "HIPC_", "PYTHON")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        environment |= {
            "IMPORT_LOG": str(self.scratch / "imports"),
            "HIPC_CACHE_DIR": str(self.scratch / "cache"),
            **BUILD,
        }
        if plugins is not None:
            environment["HIPDNN_EP_COMPILER_PLUGINS"] = plugins
        return subprocess.run(
            [self.python, "-W", "error", *command], input=stdin, capture_output=True, text=True, env=environment
        )

    def cli(self, *arguments: str, plugins: str | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """The command line; a traceback fails the test whatever it looks for."""
        done = self.run("-m", "hip_compiler.cli", *arguments, plugins=plugins, stdin=stdin)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def states(self, plugins: str | None = None) -> dict[str, Any]:
        """State and reason of every plugin, by distribution."""
        done = self.cli("plugins", "--json", plugins=plugins)
        return {entry["distribution"]: entry for entry in json.loads(done.stdout)}

    def imported(self) -> list[str]:
        """Packages that processes have imported so far; asking forgets them."""
        log = self.scratch / "imports"
        names = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return names


def build_plugin(scratch: Path, name: str, change: Callable[[Path], object] = lambda source: None) -> Site:
    """A plugin of `plugins/`, built by pip from a copy of its source that may be changed first."""
    source = scratch / "source"
    shutil.copytree(ROOT / "plugins" / name, source, ignore=shutil.ignore_patterns("_native", "__pycache__"))
    change(source)
    site = Site.make(scratch)
    site.install(source)
    return site


Install = Callable[..., Site]


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Puts distributions into an environment of their own."""

    def make(*distributions: Distribution) -> Site:
        site = Site.make(tmp_path_factory.mktemp("site"))
        for distribution in distributions:
            site.unpack(distribution.write_wheel(site.scratch))
        return site

    return make


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The sample plugin, built from its source by pip."""
    return build_plugin(tmp_path_factory.mktemp("sample"), "sample")
