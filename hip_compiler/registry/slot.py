"""The seven places of the built-in pipeline where plugins can run passes."""

from __future__ import annotations

from enum import StrEnum


class PipelineSlot(StrEnum):
    """Slots in the order in which they run. Names and meanings are a public interface: append only."""

    AFTER_SIMPLIFY_ONNX = "AfterSimplifyOnnx"
    AFTER_ONNX_LOOP_OUTLINE = "AfterOnnxLoopOutline"
    AFTER_CONVERT_ONNX_TO_HIP = "AfterConvertOnnxToHip"
    BEFORE_BUFFERIZATION = "BeforeBufferization"
    AFTER_POOL_ALLOCS = "AfterPoolAllocs"
    BEFORE_CONVERT_HIP_TO_LLVM = "BeforeConvertHipToLLVM"
    AFTER_GENERATE_INTERFACE = "AfterGenerateInterface"


MEANINGS: dict[PipelineSlot, str] = {
    PipelineSlot.AFTER_SIMPLIFY_ONNX: "Simplified onnx.* on tensors: claim operators before the built-in conversion.",
    PipelineSlot.AFTER_ONNX_LOOP_OUTLINE: "onnx.* with !hip.context as argument 0; loop and branch bodies in place.",
    PipelineSlot.AFTER_CONVERT_ONNX_TO_HIP: "hip.* and linalg on tensors; the only slot that may create hip.constant.",
    PipelineSlot.BEFORE_BUFFERIZATION: "Fused hip.* and linalg on tensors; hip.constant may no longer be created.",
    PipelineSlot.AFTER_POOL_ALLOCS: "hip.* and linalg on memrefs that are views of memory pools.",
    PipelineSlot.BEFORE_CONVERT_HIP_TO_LLVM: "Final hip.* on memrefs: the last chance to see them.",
    PipelineSlot.AFTER_GENERATE_INTERFACE: "LLVM dialect with the entry points of the artifact.",
}
