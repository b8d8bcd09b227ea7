"""The only file that imports the MLIR bindings.

Everything else says ``from hip_compiler.core.mlir import ir, ...``, so that another build of the
bindings can take their place. ``torch_mlir`` is the default; the official ``mlir`` package is
tried when the knob ``HIPC_MLIR_BINDINGS`` asks for it.

The bindings load when one of their names is first used: declaring operations and passes, listing
plugins and printing help neither wait for them nor need them.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

from hip_compiler import knobs

PACKAGE: str = knobs.MLIR_BINDINGS.read()


class _Module:
    """A module of the bindings, imported at the first use of a name in it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(f"{PACKAGE}.{self._name}"), name)
        # Kept, so that this method runs once per name.
        setattr(self, name, value)
        return value


ir: Any = _Module("ir")
passmanager: Any = _Module("passmanager")
rewrite: Any = _Module("rewrite")
ext: Any = _Module("dialects.ext")
arith: Any = _Module("dialects.arith")
bufferization: Any = _Module("dialects.bufferization")
cf: Any = _Module("dialects.cf")
func: Any = _Module("dialects.func")
# Generated classes and native helpers, not `dialects.linalg`: see `know_linalg`.
linalg: Any = _Module("dialects._linalg_ops_gen")
linalg_native: Any = _Module("_mlir_libs._mlirDialectsLinalg")
llvm: Any = _Module("dialects.llvm")
math: Any = _Module("dialects.math")
memref: Any = _Module("dialects.memref")
scf: Any = _Module("dialects.scf")
tensor: Any = _Module("dialects.tensor")


def __getattr__(name: str) -> Any:
    if name == "PassManager":
        return passmanager.PassManager
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def know_dialect(name: str) -> None:
    """Keep the bindings from looking for a Python module of a dialect that has none.

    Whenever they wrap an operation, they import `PACKAGE.dialects.NAME`, and remember only success: a tenth of a
    millisecond for every operation that a pass looks at.
    """
    module = f"{PACKAGE}.dialects.{name}"
    if module not in sys.modules and importlib.util.find_spec(module) is None:
        sys.modules[module] = ModuleType(module)


def know_linalg() -> None:
    """Let the bindings take linalg's generated classes for the whole of its Python module.

    That module builds every named operation of a description language of its own, which nobody here uses: a tenth of a
    second of every process that compiles. Whoever imports it by name still gets it.
    """
    module = f"{PACKAGE}.dialects.linalg"
    if module in sys.modules:
        return
    sys.modules[module] = importlib.import_module(f"{PACKAGE}.dialects._linalg_ops_gen")
    try:
        importlib.import_module(f"{PACKAGE}._mlir_libs._mlir").globals._check_dialect_module_loaded("linalg")
    finally:
        del sys.modules[module]
