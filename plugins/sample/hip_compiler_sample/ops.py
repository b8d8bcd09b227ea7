"""The operations of the `sample` dialect."""

from __future__ import annotations

from typing import Any

from hip_compiler.plugin import AttributeDef, CallLowering, LaunchLowering, OpDef, OperandDef, OpShapes, TensorSpec


def like_x(shapes: OpShapes) -> list[TensorSpec]:
    x, dtype = shapes.inputs["x"], shapes.dtypes["x"]
    assert x is not None and dtype is not None, "x is always present"
    return [TensorSpec(x, dtype)]


def only_float(operation: Any) -> str | None:
    element = operation.operands[0].type.element_type
    return None if str(element) == "f32" else f"elements are {element}; only f32 can be scaled"


CBRT = OpDef(
    name="sample.cbrt",
    summary="Cube root, by a function of the plugin's bitcode.",
    inputs=(OperandDef("x"),),
    outputs=(OperandDef("y"),),
    reify=like_x,
    lowering=CallLowering("sample_cbrt"),
)
SCALE = OpDef(
    name="sample.scale",
    summary="factor * x, by a kernel of the plugin.",
    inputs=(OperandDef("x"),),
    outputs=(OperandDef("y"),),
    attributes=(AttributeDef("factor", "float", default=1.0),),
    reify=like_x,
    verify=only_float,
    lowering=LaunchLowering("sample_scale"),
)
