"""Additions of float32 tensors run through the vendor's kernel."""

from __future__ import annotations

from pathlib import Path

from hip_compiler.plugin import (
    BitcodeContribution,
    DialectContribution,
    Lazy,
    OnnxOpClaim,
    PassContribution,
    PipelineSlot,
    SlotRequest,
    hookimpl,
)
from hip_compiler.toolchain import native_level
from hip_compiler_vendor_add.add import ADD

DOMAIN = "com.vendor"
NATIVE = Path(__file__).with_name("_native")


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
    file = NATIVE / f"vendor_add-{native_level().name}.bc"
    return [BitcodeContribution("vendor_add", target="host", source=file, prefix="vendor_")]
