"""Additions of float32 tensors run through the vendor's kernel."""

from __future__ import annotations

from pathlib import Path

from hip_compiler.plugin import (
    BitcodeContribution,
    DialectContribution,
    KernelContribution,
    Lazy,
    OnnxOpClaim,
    PassContribution,
    PipelineSlot,
    SlotRequest,
    hookimpl,
)
from hip_compiler.toolchain import built_kernels, native_level
from hip_compiler_vendor_add.add import ADD

DOMAIN = "com.vendor"
NATIVE = Path(__file__).with_name("_native")
KERNELS = ("vendor_add_f32",)


@hookimpl
def hip_compiler_passes() -> list[PassContribution]:
    take = Lazy("hip_compiler_vendor_add.take_adds:TakeAdds")
    return [PassContribution("vendor-take-adds", take, "Moves float32 additions to the vendor's domain.")]


@hookimpl
def hip_compiler_slot_requests() -> list[SlotRequest]:
    return [SlotRequest(PipelineSlot.AFTER_SIMPLIFY_ONNX, "vendor-take-adds")]


@hookimpl
def hip_compiler_onnx_ops() -> list[OnnxOpClaim]:
    return [OnnxOpClaim(DOMAIN, "Add", lowers_to=ADD.name)]


@hookimpl
def hip_compiler_dialects() -> list[DialectContribution]:
    return [DialectContribution("vendor", ops=(ADD,))]


@hookimpl
def hip_compiler_bitcode() -> list[BitcodeContribution]:
    host = NATIVE / f"vendor_add-{native_level().name}.bc"
    (gpu,) = NATIVE.glob("vendor_add_gpu-*.bc")
    return [
        BitcodeContribution("vendor_add", target="host", source=host, prefix="vendor_"),
        BitcodeContribution("vendor_add", target="amdgpu", source=gpu, prefix="vendor_"),
    ]


@hookimpl
def hip_compiler_kernels() -> list[KernelContribution]:
    files = built_kernels(NATIVE, "vendor_add")
    return [KernelContribution("vendor_add", "amdgpu", gpu, file, KERNELS) for gpu, file in files.items()]
