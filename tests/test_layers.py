"""The layers of docs/architecture.md, read off the import statements."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "hip_compiler"

# A module may import those of its own layer and of the layers after it.
LAYERS = (
    ("cli", "__main__"),
    ("ort", "backend", "generate"),
    # What applications and plugins import; they load what they name when it is used.
    ("__init__", "plugin"),
    ("core",),
    ("slots",),
    ("registry",),
    ("runtime",),
    # What build hooks import, before anything is installed.
    ("toolchain",),
    ("errors", "knobs", "dtypes", "shapes", "version"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

BINDINGS = ("torch_mlir", "mlir")
BINDINGS_FILE = "hip_compiler/core/mlir.py"
ENVIRONMENT_FILE = "hip_compiler/knobs.py"
DRIVER = "hip_compiler.core.driver"


def sources(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def module_name(path: Path) -> str:
    """`hip_compiler/core/mlir.py` -> `hip_compiler.core.mlir`; a package's file ends in `__init__`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports(tree: ast.AST, module: str) -> Iterator[str]:
    """Full names of what a module imports, wherever in it: `from a import b` gives `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")[: -node.level]
                base = ".".join([*parts, base] if base else parts)
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "import_module"):
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value


def layer(module: str) -> str:
    """`hip_compiler.core.mlir` -> `core`; names that the package itself exports belong to its `__init__`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in RANK else "__init__"


def upward(module: str, source: str) -> list[str]:
    """Imports of a module that point up."""
    own = RANK[layer(module)]
    return [
        name for name in imports(ast.parse(source), module) if name.split(".")[0] == PACKAGE and RANK[layer(name)] < own
    ]


def imports_bindings(module: str, source: str) -> list[str]:
    return [name for name in imports(ast.parse(source), module) if name.split(".")[0] in BINDINGS]


def reads_environment(source: str) -> list[str]:
    """Uses of the process environment, as they are written."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.environb", "os.getenv"):
            found.append(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            found += [alias.name for alias in node.names if alias.name in ("environ", "environb", "getenv")]
    return found


PACKAGE_FILES = sources(PACKAGE)
PROGRAM_FILES = sources(PACKAGE, "kernels", "benchmarks", "examples", "tools")

Check: TypeAlias = Callable[[str, str], list[str]]


def findings(files: list[Path], check: Check, *, besides: str = "") -> list[str]:
    """What a check of (module, source) finds in the files, as `FILE: FINDING`."""
    assert files
    return [
        f"{relative(path)}: {finding}"
        for path in files
        if relative(path) != besides
        for finding in check(module_name(path), path.read_text())
    ]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_file_belongs_to_a_layer() -> None:
    first = {path.relative_to(ROOT / PACKAGE).parts[0].removesuffix(".py") for path in PACKAGE_FILES}
    assert first - RANK.keys() == set(), "in no layer of LAYERS"


def test_imports_point_down() -> None:
    assert findings(PACKAGE_FILES, upward) == []


def test_only_one_file_imports_the_bindings() -> None:
    assert findings(PROGRAM_FILES, imports_bindings, besides=BINDINGS_FILE) == []


def test_only_one_file_reads_the_environment() -> None:
    assert findings(PROGRAM_FILES, lambda _, source: reads_environment(source), besides=ENVIRONMENT_FILE) == []


def test_nothing_in_core_imports_the_driver() -> None:
    def imports_driver(module: str, source: str) -> list[str]:
        return [name for name in imports(ast.parse(source), module) if f"{name}.".startswith(f"{DRIVER}.")]

    assert findings(sources(f"{PACKAGE}/core"), imports_driver) == []


@pytest.mark.parametrize("name", ("toolchain", *LAYERS[-1]))
def test_lowest_layer_loads_with_little(name: str) -> None:
    """Build hooks import some before anything is installed; the others need numpy at most."""
    allowed = ["-S"] if name in ("toolchain", "errors", "knobs", "shapes", "version") else []
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import hip_compiler.{name}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", *allowed, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = {module.split(".")[0] for module in done.stdout.split()}
    assert not loaded & {"torch_mlir", "mlir", "llvmlite", "onnxruntime", "hip"}


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("hip_compiler.runtime.session", "from hip_compiler.core import driver", ["hip_compiler.core.driver"]),
        ("hip_compiler.runtime.session", "def f():\n    import hip_compiler.core", ["hip_compiler.core"]),
        ("hip_compiler.runtime.session", "from ..core import mlir", ["hip_compiler.core.mlir"]),
        ("hip_compiler.runtime.session", "from hip_compiler import compile", ["hip_compiler.compile"]),
        ("hip_compiler.registry.__init__", "from .. import slots", ["hip_compiler.slots"]),
        ("hip_compiler.core.driver", "from hip_compiler.runtime.session import Session", []),
        ("hip_compiler.cli.__init__", "from hip_compiler import errors\nimport numpy", []),
    ],
)
def test_upward_imports_are_found(module: str, source: str, expected: list[str]) -> None:
    assert upward(module, source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "import torch_mlir",
        "from torch_mlir.dialects import func",
        "import importlib\nimportlib.import_module('mlir.ir')",
    ],
)
def test_imports_of_the_bindings_are_found(source: str) -> None:
    assert imports_bindings("hip_compiler.core.x", source)


@pytest.mark.parametrize(
    "source", ["import os\nos.environ['A']", "import os\nos.getenv('A')", "from os import environ"]
)
def test_reads_of_the_environment_are_found(source: str) -> None:
    assert reads_environment(source)
