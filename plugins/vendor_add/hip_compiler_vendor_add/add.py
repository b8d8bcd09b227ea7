"""`vendor.add`: out = a + b, with ONNX's broadcasting."""

from __future__ import annotations

from typing import Any

from hip_compiler.plugin import CallLowering, OpDef, OperandDef, OpShapes, TensorSpec, broadcast


def broadcast_shape(shapes: OpShapes) -> list[TensorSpec]:
    a, b = shapes.inputs["a"], shapes.inputs["b"]
    assert a is not None and b is not None, "both operands are always present"
    return [TensorSpec(broadcast((a, b)), "f32")]


def verify(operation: Any) -> str | None:
    from hip_compiler.core.mlir import ir

    a, b, out = (ir.ShapedType(operand.type) for operand in operation.operands)
    elements = [str(kind.element_type) for kind in (a, b, out)]
    if elements != ["f32"] * 3:
        return f"elements are {', '.join(elements)}; the vendor adds f32 only"
    if out.rank != max(a.rank, b.rank):
        return f"operands of ranks {a.rank} and {b.rank} do not give rank {out.rank}"
    return None


ADD = OpDef(
    name="vendor.add",
    summary="a + b, by the vendor's kernel.",
    inputs=(OperandDef("a"), OperandDef("b")),
    outputs=(OperandDef("out"),),
    reify=broadcast_shape,
    verify=verify,
    lowering=CallLowering("vendor_wrap_add"),
)
