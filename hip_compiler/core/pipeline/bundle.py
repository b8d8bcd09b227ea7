"""The repro bundle: a folder that lets someone else see a failure again."""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
import time
import traceback
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hip_compiler import knobs
from hip_compiler.core import mlir
from hip_compiler.core.pipeline.plan import Plan, PlannedPass
from hip_compiler.errors import HipCompilerError
from hip_compiler.registry.registry import Registry
from hip_compiler.registry.version import own_version

KEPT = 20
"""Bundles kept in the cache folder; the oldest beyond that are removed."""


def write_bundle(
    error: HipCompilerError,
    planned: PlannedPass,
    plan: Plan,
    before: Any,
    registry: Registry,
    folder: Path | None,
) -> str:
    """Write the bundle of a failing pass into the dump folder, or else into `knobs.repro_dir()`.

    Returns:
        The sentence for the error's hint. It says so when the bundle itself cannot be written: the failure that
        it is about matters more.
    """
    parent = folder if folder is not None else knobs.repro_dir()
    try:
        parent.mkdir(parents=True, exist_ok=True)
        private = Path(tempfile.mkdtemp(prefix=".bundle-", dir=parent))
        _write(private, error, planned, plan, before, registry)
        final = parent / f"{time.strftime('%Y%m%d-%H%M%S')}-{planned.name}-{os.getpid()}-{private.name[-4:]}"
        private.rename(final)
        if folder is None:
            _keep_newest(parent)
    except OSError as failure:
        return f"no repro bundle: {failure}"
    return f"repro bundle: {final}"


def _write(
    folder: Path, error: HipCompilerError, planned: PlannedPass, plan: Plan, before: Any, registry: Registry
) -> None:
    position = plan.passes.index(planned)
    remaining = ",".join(map(str, plan.passes[position:]))
    files = {
        "before.mlir": before.get_asm(enable_debug_info=True) + "\n",
        "pipeline.txt": f"{plan.text}\n",
        "remaining.txt": f"builtin.module({remaining})\n",
        "error.txt": f"{error}\n\n{''.join(traceback.format_exception(error))}",
        "versions.json": json.dumps(versions(), indent=2) + "\n",
        "plugins.json": json.dumps(
            [
                {"id": plugin.id, "distribution": plugin.distribution, "version": plugin.version, "state": plugin.state}
                for plugin in registry.plugins
            ],
            indent=2,
        )
        + "\n",
        "README.txt": (
            f"Pass '{planned.name}' failed. To see it again:\n\n"
            f"  hip-compiler opt --pass-pipeline='builtin.module({planned})' before.mlir\n\n"
            "remaining.txt holds the rest of the pipeline from the failing pass on, pipeline.txt all of it.\n"
            "Contents of large constants are not included.\n"
        ),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def versions() -> dict[str, str]:
    """Versions of everything that takes part in a compilation."""
    found = {
        "hip-compiler": own_version(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "mlir bindings": mlir.PACKAGE,
    }
    for name in ("torch-mlir", "llvmlite", "onnx", "numpy", "pluggy", "ml-dtypes"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _keep_newest(parent: Path) -> None:
    # Names have seconds, of which a compiler may take less than one for several failures.
    bundles = [path for path in parent.iterdir() if path.is_dir() and not path.name.startswith(".")]
    for old in sorted(bundles, key=lambda path: path.stat().st_mtime_ns)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
