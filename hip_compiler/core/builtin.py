"""The built-in plugin: what hip-compiler itself registers, through the hooks that every plugin uses.

Passes are named, not imported: listing them must neither need the MLIR bindings nor wait for them.
"""

from __future__ import annotations

from functools import cache

from hip_compiler.core.targets import gpu_target, host_target
from hip_compiler.registry.contributions import (
    CallLowering,
    DialectContribution,
    Lazy,
    PassContribution,
    PipelineContribution,
    TargetContribution,
)
from hip_compiler.registry.hookspecs import hookimpl
from hip_compiler.slots.builtin import PIPELINES

_PASSES = "hip_compiler.core.passes"


def _pass(name: str, reference: str, summary: str) -> PassContribution:
    return PassContribution(name, Lazy(f"{_PASSES}.{reference}"), summary)


PASSES: tuple[PassContribution, ...] = (
    _pass(
        "simplify-onnx", "simplify_onnx:SimplifyOnnx", "Fold constants, drop what does nothing, fuse exporter patterns."
    ),
    _pass(
        "onnx-keep-last-position",
        "keep_last_position:KeepLastPosition",
        "Compute only the last position of an output such as logits.",
    ),
    _pass(
        "hip-add-context-arg", "add_context_arg:AddContextArg", "Give every function the run's context as argument 0."
    ),
    _pass(
        "convert-onnx-to-hip",
        "convert_onnx_to_hip:ConvertOnnxToHip",
        "ONNX operators to hip, linalg and tensor operations.",
    ),
    _pass(
        "onnx-fuse-linear",
        "fuse_linear:FuseLinear",
        "On devices, the products of a decoder take along their norm, their gate and their residual.",
    ),
    _pass("onnx-fuse-epilogues", "fuse_epilogues:FuseEpilogues", "Bias, activation and residual join their product."),
    _pass("hip-pack-weights", "pack_weights:PackWeights", "Constant matrices in the layout that the kernels read."),
    _pass(
        "hip-externalize-constants",
        "externalize_constants:ExternalizeConstants",
        "Give constants a place in constants.bin.",
    ),
    _pass(
        "verify-no-constant-carriers",
        "externalize_constants:VerifyNoConstantCarriers",
        "Refuse hip.constant made too late.",
    ),
    _pass("hip-bufferize", "bufferize:Bufferize", "Registered operations from tensors to memrefs."),
    _pass(
        "hip-use-output-allocator", "use_output_allocator:UseOutputAllocator", "Results go into memory of the caller."
    ),
    _pass(
        "hip-pool-allocs", "pool_allocs:PoolAllocs", "Transient buffers get places in one arena, by their lifetimes."
    ),
    _pass("hip-lower-allocs", "lower_allocs:LowerAllocs", "Lower copies, and allocations that no arena holds."),
    _pass(
        "hip-outline-kernels", "outline_kernels:OutlineKernels", "Linalg operations become kernels on the thread pool."
    ),
    _pass(
        "hip-materialize-host-scalars",
        "materialize_host_scalars:MaterializeHostScalars",
        "What the host reads and writes of tensors on a device goes through the runtime.",
    ),
    _pass("hip-expand-math", "expand_math:ExpandMath", "Elementary functions become arithmetic that vectorises."),
    _pass("convert-hip-to-llvm", "convert_hip_to_llvm:ConvertHipToLLVM", "Hip operations become calls of the runtime."),
    _pass("generate-interface", "generate_interface:GenerateInterface", "Write the entry points of the runtime ABI."),
)


@cache
def _hip_dialect() -> DialectContribution:
    dialect: DialectContribution = Lazy("hip_compiler.core.dialects.hip:hip_dialect").load()()
    return dialect


@hookimpl
def hip_compiler_passes() -> list[PassContribution]:
    return list(PASSES)


@hookimpl
def hip_compiler_dialects() -> list[DialectContribution]:
    return [_hip_dialect()]


@hookimpl
def hip_compiler_pipelines() -> list[PipelineContribution]:
    return list(PIPELINES)


@hookimpl
def hip_compiler_targets() -> list[TargetContribution]:
    # A vendor may bring a better implementation of an operation; the runtime's own services stay.
    operations = frozenset(op.lowering.symbol for op in _hip_dialect().ops if isinstance(op.lowering, CallLowering))
    return [host_target(operations), gpu_target(operations)]
