"""Every hook a plugin can implement. Each is called once, without arguments, when the plugin registers."""

from __future__ import annotations

import pluggy

from hip_compiler.registry.contributions import (
    BitcodeContribution,
    DialectContribution,
    KernelContribution,
    LibraryContribution,
    OnnxOpClaim,
    PassContribution,
    PipelineContribution,
    SlotRequest,
    TargetContribution,
)

PROJECT = "hip_compiler"
API_VERSION = 1
"""Version of this file's hooks and of the contribution types. It rises when either breaks."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def hip_compiler_passes() -> list[PassContribution]:  # type: ignore[empty-body]
    """Passes that pipelines can name."""


@hookspec
def hip_compiler_slot_requests() -> list[SlotRequest]:  # type: ignore[empty-body]
    """Pipeline text to run at slots of the built-in pipeline, in the order of the list."""


@hookspec
def hip_compiler_dialects() -> list[DialectContribution]:  # type: ignore[empty-body]
    """Dialects with their operations."""


@hookspec
def hip_compiler_onnx_ops() -> list[OnnxOpClaim]:  # type: ignore[empty-body]
    """ONNX operators that the plugin's passes convert."""


@hookspec
def hip_compiler_bitcode() -> list[BitcodeContribution]:  # type: ignore[empty-body]
    """LLVM bitcode to link into every program of a target."""


@hookspec
def hip_compiler_libraries() -> list[LibraryContribution]:  # type: ignore[empty-body]
    """Shared libraries that the plugin's bitcode calls."""


@hookspec
def hip_compiler_kernels() -> list[KernelContribution]:  # type: ignore[empty-body]
    """Code objects with device kernels."""


@hookspec
def hip_compiler_pipelines() -> list[PipelineContribution]:  # type: ignore[empty-body]
    """Named pipelines, composed from the compile options."""


@hookspec
def hip_compiler_targets() -> list[TargetContribution]:  # type: ignore[empty-body]
    """Compilation targets."""


HOOKS: dict[str, type] = {
    "hip_compiler_passes": PassContribution,
    "hip_compiler_slot_requests": SlotRequest,
    "hip_compiler_dialects": DialectContribution,
    "hip_compiler_onnx_ops": OnnxOpClaim,
    "hip_compiler_bitcode": BitcodeContribution,
    "hip_compiler_libraries": LibraryContribution,
    "hip_compiler_kernels": KernelContribution,
    "hip_compiler_pipelines": PipelineContribution,
    "hip_compiler_targets": TargetContribution,
}
"""Type of one element of what each hook returns."""
