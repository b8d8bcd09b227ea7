"""The only file that imports the MLIR bindings.

Everything else says ``from hip_compiler.core.mlir import ir, ...``, so that another build of the
bindings can take their place. ``torch_mlir`` is the default; the official ``mlir`` package is
tried when the knob ``HIPC_MLIR_BINDINGS`` asks for it.
"""

from __future__ import annotations

import importlib
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
