"""The built-in pipeline as data: pass texts in order, with the slots between them."""

from __future__ import annotations

from hip_compiler.registry.contributions import PipelineContribution
from hip_compiler.registry.slot import PipelineSlot
from hip_compiler.slots.assemble import Step, pipeline_text

ONNX_TO_HIP: tuple[Step, ...] = (
    "simplify-onnx",
    PipelineSlot.AFTER_SIMPLIFY_ONNX,
    "hip-add-context-arg",
    PipelineSlot.AFTER_ONNX_LOOP_OUTLINE,
    "onnx-fuse-linear",
    "onnx-fuse-epilogues",
    "convert-onnx-to-hip",
    PipelineSlot.AFTER_CONVERT_ONNX_TO_HIP,
    "hip-pack-weights",
    "hip-externalize-constants",
    "canonicalize",
    "cse",
    "linalg-fuse-elementwise-ops",
    "canonicalize",
    "cse",
    PipelineSlot.BEFORE_BUFFERIZATION,
    "verify-no-constant-carriers",
    "hip-bufferize",
    "one-shot-bufferize{allow-unknown-ops allow-return-allocs-from-loops bufferize-function-boundaries"
    " function-boundary-type-conversion=identity-layout-map unknown-type-conversion=identity-layout-map}",
    "canonicalize",
    "cse",
    "hip-use-output-allocator",
    "hip-pool-allocs",
    PipelineSlot.AFTER_POOL_ALLOCS,
)

HIP_TO_LLVM: tuple[Step, ...] = (
    "hip-lower-allocs",
    "canonicalize",
    "cse",
    "hip-outline-kernels",
    "hip-materialize-host-scalars",
    "hip-expand-math",
    PipelineSlot.BEFORE_CONVERT_HIP_TO_LLVM,
    "cse",
    "expand-strided-metadata",
    "lower-affine",
    "convert-scf-to-cf",
    "convert-hip-to-llvm",
    "generate-interface",
    "convert-to-llvm",
    "reconcile-unrealized-casts",
    PipelineSlot.AFTER_GENERATE_INTERFACE,
)


def onnx_to_hip(last_position: str) -> str:
    """Text of the first half; an output that is cut to its last position is cut as soon as the graph is simple."""
    cut = (f"onnx-keep-last-position{{output={last_position}}}",) if last_position else ()
    return pipeline_text((ONNX_TO_HIP[0], *cut, *ONNX_TO_HIP[1:]))


PIPELINES: tuple[PipelineContribution, ...] = (
    PipelineContribution(
        "onnx-to-hip-pipeline",
        lambda options: onnx_to_hip(options.last_position),
        "onnx dialect to hip operations on pooled memory.",
    ),
    PipelineContribution(
        "hip-to-llvm-pipeline",
        lambda options: pipeline_text(HIP_TO_LLVM),
        "hip operations on pooled memory to the LLVM dialect with the artifact's entry points.",
    ),
    PipelineContribution(
        "hipdnn-pipeline",
        lambda options: "onnx-to-hip-pipeline,hip-to-llvm-pipeline",
        "The whole built-in pipeline.",
    ),
)

DEFAULT = "hipdnn-pipeline"
