"""The `hip` dialect: what a kernel or a library call implements, plus memory and ABI operations."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from hip_compiler.core.dialects.hip.memory import PLAIN_OPS, TYPES
from hip_compiler.registry.contributions import DialectContribution, OpDef

__all__ = ["hip_dialect"]


def hip_dialect() -> DialectContribution:
    """The dialect, with the operations (`OPS`) of every family module of this package, in module order."""
    ops: list[OpDef] = []
    for module in sorted(iter_modules(__path__), key=lambda found: found.name):
        family = import_module(f"{__name__}.{module.name}")
        ops.extend(getattr(family, "OPS", ()))
    return DialectContribution("hip", tuple(ops), PLAIN_OPS, TYPES)
