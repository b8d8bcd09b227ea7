"""The only file that imports the MLIR bindings.

Everything else says ``from hip_compiler.core.mlir import ir, ...``, so that another build of the
bindings can take their place. ``torch_mlir`` is the default; the official ``mlir`` package is
tried when the knob ``HIPC_MLIR_BINDINGS`` asks for it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

from hip_compiler import knobs

PACKAGE: str = knobs.MLIR_BINDINGS.read()


def _load(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{name}")


ir: Any = _load("ir")
passmanager: Any = _load("passmanager")
rewrite: Any = _load("rewrite")
ext: Any = _load("dialects.ext")
arith: Any = _load("dialects.arith")
bufferization: Any = _load("dialects.bufferization")
cf: Any = _load("dialects.cf")
func: Any = _load("dialects.func")
linalg: Any = _load("dialects.linalg")
llvm: Any = _load("dialects.llvm")
math: Any = _load("dialects.math")
memref: Any = _load("dialects.memref")
scf: Any = _load("dialects.scf")
tensor: Any = _load("dialects.tensor")

PassManager: Any = passmanager.PassManager


def know_dialect(name: str) -> None:
    """Keep the bindings from looking for a Python module of a dialect that has none.

    Whenever they wrap an operation, they import `PACKAGE.dialects.NAME`, and remember only success: a tenth of a
    millisecond for every operation that a pass looks at.
    """
    module = f"{PACKAGE}.dialects.{name}"
    if module not in sys.modules and importlib.util.find_spec(module) is None:
        sys.modules[module] = ModuleType(module)
