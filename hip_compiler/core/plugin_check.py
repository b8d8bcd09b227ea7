"""The audit of a plugin before it ships: what installing it would find, and what only a compile would."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hip_compiler.core.dialects.load import make_context
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.pipeline import plan_text
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.contributions import PassContribution, PipelineContribution, TargetContribution
from hip_compiler.registry.discovery import InstalledPlugin, Selection, check_api, installed
from hip_compiler.registry.records import PluginRecord
from hip_compiler.registry.registry import Registry, survey_of
from hip_compiler.slots import SLOT_PREFIX, PipelineSlot

BINDINGS = ("torch_mlir", "mlir")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        problem: what is wrong; empty when nothing is.
    """

    name: str
    problem: str = ""


def check_plugin(path: Path) -> list[Check]:
    """Check a wheel, or the source folder of a distribution, without installing it.

    Its code is imported and its hooks are called, as an installation would.

    Raises:
        HipCompilerError: `HIPC0001`, the path is neither, or the folder does not build.
    """
    with tempfile.TemporaryDirectory() as scratch, _on_path(_unpack(path, Path(scratch))) as site:
        plugins = installed([str(site)])
        if not plugins:
            return [Check("entry point", 'no entry point in the group "hip_compiler.plugins"')]
        return [check for plugin in plugins for check in _checks(plugin)]


def _checks(plugin: InstalledPlugin) -> Iterator[Check]:
    yield Check(f"entry point: {plugin}")
    api = _attempt("API version", lambda: check_api(plugin))
    yield api
    if api.problem:
        return
    bindings_before = _loaded_bindings()
    registry = survey_of((plugin,), Selection((plugin.id,), "the check"))
    for problem in registry.problems:
        yield Check("registration", str(problem))
    if registry.problems:
        return
    (record,) = (record for record in registry.plugins if not record.builtin)
    count = len(record.contributions)
    yield Check(
        f"registration: {count} contributions, audited",
        "" if count else "it contributes nothing: no hook is implemented",
    )
    heavy = _loaded_bindings() - bindings_before
    slow = f"registering imports {', '.join(sorted(heavy))}; name passes with Lazy, so that every command stays quick"
    yield Check("registers without the MLIR bindings", slow if heavy else "")
    yield from _resolve(registry, record)


def _resolve(registry: Registry, record: PluginRecord) -> Iterator[Check]:
    context = make_context(registry)

    def plan(text: str, origin: str) -> Callable[[], object]:
        return lambda: plan_text(registry, CompileOptions(), context, text, origin)

    for slot in dict.fromkeys(PipelineSlot(request.slot) for request in registry.slot_requests):
        yield _attempt(f"requests at {slot} resolve", plan(f"{SLOT_PREFIX}{slot}", str(slot)))
    for item in record.contributions:
        if isinstance(item, PassContribution):
            text = item.name if item.anchor == "builtin.module" else f"{item.anchor}({item.name})"
            yield _attempt(f"pass {item.name} loads", plan(text, str(record)))
        elif isinstance(item, PipelineContribution):
            yield _attempt(f"pipeline {item.name} resolves", plan(item.name, str(record)))
        elif isinstance(item, TargetContribution):
            yield Check(f"target {item.name} has a runtime", _runtime_problem(item))


def _runtime_problem(target: TargetContribution) -> str:
    if target.runtime_bitcode is None:
        return ""
    try:
        path = target.runtime_bitcode()
    except Exception as error:  # noqa: BLE001  code of the plugin
        return f"its runtime_bitcode failed with {type(error).__name__}: {error}"
    return "" if path.is_file() else f"{path} is not a file"


def _attempt(name: str, action: Callable[[], object]) -> Check:
    try:
        action()
    except HipCompilerError as error:
        return Check(name, str(error))
    return Check(name)


def _loaded_bindings() -> set[str]:
    return {name for name in BINDINGS if name in sys.modules}


def _unpack(path: Path, scratch: Path) -> Path:
    site = scratch / "site"
    wheel = path
    if path.is_dir():
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(scratch), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        built = list(scratch.glob("*.whl"))
        if not built:
            raise HipCompilerError(
                ErrorCode.USAGE,
                f"{path} does not build",
                why=" ".join(done.stderr.split()[-60:]),
                hint="pip wheel says more",
            )
        wheel = built[0]
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    except (OSError, zipfile.BadZipFile) as error:
        raise HipCompilerError(
            ErrorCode.USAGE, f"{path} is neither a wheel nor a folder with a pyproject.toml", why=str(error)
        ) from error
    return site


@contextmanager
def _on_path(site: Path) -> Iterator[Path]:
    sys.path.insert(0, str(site))
    try:
        yield site
    finally:
        sys.path.remove(str(site))
