"""The passes from bufferized IR to the LLVM dialect, and the order they run in for the host."""

from __future__ import annotations

from hip_compiler.core.passes.convert_hip_to_llvm import ConvertHipToLLVM
from hip_compiler.core.passes.generate_interface import GenerateInterface
from hip_compiler.core.passes.outline_kernels import OutlineKernels
from hip_compiler.registry.contributions import PassContribution

LOWERING_PASSES: tuple[PassContribution, ...] = (
    PassContribution(
        "hip-outline-kernels", OutlineKernels, "Linalg operations become kernels launched over the thread pool."
    ),
    PassContribution("convert-hip-to-llvm", ConvertHipToLLVM, "Hip operations become calls of the runtime."),
    PassContribution("generate-interface", GenerateInterface, "Write the entry points of the runtime ABI."),
)

BEFORE_CONVERT_HIP_TO_LLVM = ("canonicalize", "cse", "hip-outline-kernels", "hip-expand-math")
"""What makes kernels; the slot BeforeConvertHipToLLVM follows."""

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
