"""What a plugin imports. Nothing else of hip-compiler is a public interface to plugins.

The module loads neither the MLIR bindings nor the compiler. A pass imports the bindings in its own module, which a
`Lazy` factory names, through ``from hip_compiler.core.mlir import ir``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.contributions import (
    AttributeDef,
    BitcodeContribution,
    CallLowering,
    Device,
    DialectContribution,
    KernelContribution,
    LaunchLowering,
    Lazy,
    LibraryContribution,
    Linker,
    OnnxOpClaim,
    OpDef,
    OperandDef,
    OpShapes,
    PassContribution,
    PipelineContribution,
    PlainOpDef,
    SlotRequest,
    TargetContribution,
    TensorSpec,
)
from hip_compiler.registry.hookspecs import API_VERSION, hookimpl
from hip_compiler.registry.slot import PipelineSlot
from hip_compiler.shapes import Dim, Shape, broadcast, dim

if TYPE_CHECKING:
    from hip_compiler.core.passes.base import PassContext


def __getattr__(name: str) -> object:
    # PassContext belongs to the compiler, which must not load when a plugin merely registers.
    if name == "PassContext":
        from hip_compiler.core.passes.base import PassContext

        return PassContext
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "API_VERSION",
    "AttributeDef",
    "BitcodeContribution",
    "CallLowering",
    "Device",
    "DialectContribution",
    "Dim",
    "ErrorCode",
    "HipCompilerError",
    "KernelContribution",
    "LaunchLowering",
    "Lazy",
    "LibraryContribution",
    "Linker",
    "OnnxOpClaim",
    "OpDef",
    "OpShapes",
    "OperandDef",
    "PassContext",
    "PassContribution",
    "PipelineContribution",
    "PipelineSlot",
    "PlainOpDef",
    "Shape",
    "SlotRequest",
    "TargetContribution",
    "TensorSpec",
    "broadcast",
    "dim",
    "hookimpl",
]
