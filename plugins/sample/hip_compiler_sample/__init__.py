"""The plugin: what it contributes to hip-compiler."""

from __future__ import annotations

from hip_compiler.plugin import Lazy, PassContribution, PipelineSlot, SlotRequest, hookimpl


@hookimpl
def hip_compiler_passes() -> list[PassContribution]:
    return [
        PassContribution(
            name="sample-count-hip-ops",
            factory=Lazy("hip_compiler_sample.count_ops:CountHipOps"),
            summary="Counts hip operations per kind and notes the counts on the module.",
        )
    ]


@hookimpl
def hip_compiler_slot_requests() -> list[SlotRequest]:
    return [SlotRequest(PipelineSlot.AFTER_CONVERT_ONNX_TO_HIP, "sample-count-hip-ops")]
