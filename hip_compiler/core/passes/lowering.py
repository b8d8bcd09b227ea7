"""The passes from bufferized IR to the LLVM dialect, and the order they run in for the host."""

from __future__ import annotations

from hip_compiler.core.passes.convert_hip_to_llvm import ConvertHipToLLVM
from hip_compiler.core.passes.expand_math import ExpandMath
from hip_compiler.core.passes.generate_interface import GenerateInterface
from hip_compiler.core.passes.lower_allocs import LowerAllocs
from hip_compiler.core.passes.outline_kernels import OutlineKernels
from hip_compiler.core.passes.pool_allocs import PoolAllocs
from hip_compiler.core.passes.use_output_allocator import UseOutputAllocator
from hip_compiler.registry.contributions import PassContribution

LOWERING_PASSES: tuple[PassContribution, ...] = (
    PassContribution(
        "hip-use-output-allocator",
        UseOutputAllocator,
        "Results of the graph go into memory that the caller allocates.",
        "func.func",
    ),
    PassContribution(
        "hip-pool-allocs", PoolAllocs, "Transient buffers get places in one arena, by their lifetimes.", "func.func"
    ),
    PassContribution(
        "hip-lower-allocs", LowerAllocs, "Copies and allocations that no arena holds are lowered.", "func.func"
    ),
    PassContribution(
        "hip-outline-kernels", OutlineKernels, "Linalg operations become kernels launched over the thread pool."
    ),
    PassContribution("hip-expand-math", ExpandMath, "Elementary functions become arithmetic that vectorises."),
    PassContribution("convert-hip-to-llvm", ConvertHipToLLVM, "Hip operations become calls of the runtime."),
    PassContribution("generate-interface", GenerateInterface, "Write the entry points of the runtime ABI."),
)

AFTER_BUFFERIZE = ("canonicalize", "cse", "func.func(hip-use-output-allocator)", "cse", "func.func(hip-pool-allocs)")
"""From bufferized functions to planned memory; the slot AfterPoolAllocs follows."""

BEFORE_CONVERT_HIP_TO_LLVM = (
    "func.func(hip-lower-allocs)",
    "canonicalize",
    "cse",
    "hip-outline-kernels",
    "hip-expand-math",
)
"""From planned memory to kernels; the slot BeforeConvertHipToLLVM follows."""

CONVERT_HIP_TO_LLVM = (
    "cse",
    "expand-strided-metadata",
    "lower-affine",
    "convert-scf-to-cf",
    "convert-hip-to-llvm",
    "generate-interface",
)
"""From memrefs and kernels to entry points; the slot AfterGenerateInterface follows."""

FINISH = ("convert-to-llvm", "reconcile-unrealized-casts")
"""What is left, to the LLVM dialect."""
