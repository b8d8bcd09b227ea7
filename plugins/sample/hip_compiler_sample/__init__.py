"""The plugin: one of everything it can contribute to hip-compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hip_compiler.plugin import (
    BitcodeContribution,
    DialectContribution,
    KernelContribution,
    Lazy,
    LibraryContribution,
    OnnxOpClaim,
    PassContribution,
    PipelineContribution,
    PipelineSlot,
    SlotRequest,
    TargetContribution,
    hookimpl,
)
from hip_compiler.toolchain import built_kernels, host_architecture, native_level
from hip_compiler_sample.ops import CBRT, SCALE

TARGETS = ("host", "sample-cpu")
NATIVE = Path(__file__).with_name("_native")


def native(stem: str) -> Path:
    """Bitcode for the strongest instruction-set level of this machine."""
    return NATIVE / f"{stem}-{native_level().name}.bc"


@hookimpl
def hip_compiler_passes() -> list[PassContribution]:
    return [
        PassContribution(
            name="sample-count-ops",
            factory=Lazy("hip_compiler_sample.count_ops:CountOps"),
            summary="Counts operations of a dialect per kind and notes the counts on the module.",
        )
    ]


@hookimpl
def hip_compiler_slot_requests() -> list[SlotRequest]:
    return [SlotRequest(PipelineSlot.AFTER_CONVERT_ONNX_TO_HIP, "sample-count-ops")]


@hookimpl
def hip_compiler_dialects() -> list[DialectContribution]:
    return [DialectContribution("sample", ops=(CBRT, SCALE))]


@hookimpl
def hip_compiler_onnx_ops() -> list[OnnxOpClaim]:
    return [
        OnnxOpClaim("com.sample", "Cbrt", lowers_to="sample.cbrt"),
        OnnxOpClaim("com.sample", "Scale", lowers_to="sample.scale"),
    ]


@hookimpl
def hip_compiler_bitcode() -> list[BitcodeContribution]:
    return [BitcodeContribution("sample cbrt", target, native("cbrt"), prefix="sample_") for target in TARGETS]


@hookimpl
def hip_compiler_libraries() -> list[LibraryContribution]:
    return [LibraryContribution("m", target) for target in TARGETS]


@hookimpl
def hip_compiler_kernels() -> list[KernelContribution]:
    names, machine, file = ("sample_scale",), host_architecture(), native("scale")
    on_cpu = [KernelContribution("sample scale", target, machine, file, names) for target in TARGETS]
    gpus = built_kernels(NATIVE, "scale")
    return on_cpu + [KernelContribution("sample scale", "amdgpu", gpu, code, names) for gpu, code in gpus.items()]


@hookimpl
def hip_compiler_targets() -> list[TargetContribution]:
    return [TargetContribution("sample-cpu", "The host's CPU and runtime, constants left in their plain layout.")]


def count_first(options: Any) -> str:
    """A pipeline is text, composed from the options of the compile."""
    checks = "sample-count-ops{dialect=onnx attribute=sample.onnx_ops}," if options.verify_each else ""
    return f"{checks}hipdnn-pipeline"


@hookimpl
def hip_compiler_pipelines() -> list[PipelineContribution]:
    return [PipelineContribution("sample-pipeline", count_first, "Counts ONNX operators, then compiles as usual.")]
