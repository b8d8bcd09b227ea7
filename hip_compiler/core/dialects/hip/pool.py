"""hip.pool, hip.max_pool_indices and hip.global_pool."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.conv import conv_extent, spatial_extents, verify_window
from hip_compiler.core.dialects.hip.element_types import FLOATS, INTEGERS, element_types, one_of
from hip_compiler.registry.contributions import (
    AttributeDef,
    CallLowering,
    OpDef,
    OperandDef,
    Operation,
    OpShapes,
    TensorSpec,
)
from hip_compiler.shapes import Dim, Shape, dim

MODES = ("max", "average", "lp")

_WINDOW = (
    AttributeDef("kernel", "ints"),
    AttributeDef("strides", "ints"),
    AttributeDef("pads", "ints"),
    AttributeDef("dilations", "ints"),
    AttributeDef("ceil_mode", "bool", False),
)


def pool_extent(
    extent: Dim, kernel: int, stride: int, dilation: int, before: int, after: int, *, ceil_mode: bool
) -> Dim:
    """Output extent of one spatial axis.

    With `ceil_mode` the last window may reach past the end, but it starts inside the input or the padding before it
    (ONNX MaxPool and AveragePool).
    """
    if not ceil_mode:
        return conv_extent(extent, kernel, stride, dilation, before, after)
    windows = conv_extent(extent, kernel, stride, dilation, before, after + stride - 1)
    return windows.minimum((extent + (before + stride - 1)) // stride)


def _extents(shapes: OpShapes) -> Shape:
    x, attributes = shapes.inputs["x"], shapes.attributes
    assert x is not None
    kernel, strides, dilations, pads = (attributes[name] for name in ("kernel", "strides", "dilations", "pads"))
    spatial_extents(x, kernel, strides, dilations, pads)
    spatial = len(x) - 2
    return (
        *x[:2],
        *(
            pool_extent(
                x[2 + i],
                kernel[i],
                strides[i],
                dilations[i],
                pads[i],
                pads[spatial + i],
                ceil_mode=attributes["ceil_mode"],
            )
            for i in range(spatial)
        ),
    )


def _dtype(shapes: OpShapes) -> str:
    dtype = shapes.dtypes["x"]
    assert dtype is not None
    return dtype


def reify_pool(shapes: OpShapes) -> list[TensorSpec]:
    """`x [N, C, spatial...]` to `[N, C, windows...]`.

    Raises:
        ValueError: attributes that do not fit the rank.
    """
    return [TensorSpec(_extents(shapes), _dtype(shapes))]


def reify_max_pool_indices(shapes: OpShapes) -> list[TensorSpec]:
    """The maxima, and the positions of each in the flat input as int64."""
    extents = _extents(shapes)
    return [TensorSpec(extents, _dtype(shapes)), TensorSpec(extents, "i64")]


def reify_global_pool(shapes: OpShapes) -> list[TensorSpec]:
    """`x [N, C, spatial...]` to `[N, C, 1...]`."""
    x = shapes.inputs["x"]
    assert x is not None
    if len(x) < 2:
        raise ValueError(f"input of rank {len(x)}; 2 or more are needed")
    return [TensorSpec((*x[:2], *(dim(1) for _ in x[2:])), _dtype(shapes))]


def _verify_kernel(op: Operation) -> str | None:
    kernel: Sequence[int] = list(op.attributes["kernel"])
    if any(extent < 1 for extent in kernel):
        return "kernel extents must be positive"
    return verify_window(op, kernel)


def verify_pool(op: Operation) -> str | None:
    """Element types of the mode, window attributes, p."""
    attributes = op.attributes
    allowed = (*FLOATS, *INTEGERS) if attributes["mode"].value == "max" else FLOATS
    if "p" in attributes and attributes["p"].value < 1:
        return f"p is {attributes['p'].value}; it must be positive"
    return one_of(allowed)(op) or _verify_kernel(op)


def verify_max_pool_indices(op: Operation) -> str | None:
    """Element types and window attributes."""
    x, y, indices = element_types(op)
    if x != y:
        return f"operands have different element types: {x}, {y}"
    if x not in (*FLOATS, *INTEGERS):
        return f"element type {x} is not supported; supported are {', '.join((*FLOATS, *INTEGERS))}"
    if indices != "i64":
        return f"indices have element type {indices}; it must be i64"
    return _verify_kernel(op)


def verify_global_pool(op: Operation) -> str | None:
    """Element types and p."""
    if "p" in op.attributes and op.attributes["p"].value < 1:
        return f"p is {op.attributes['p'].value}; it must be positive"
    return one_of(FLOATS)(op)


OPS: tuple[OpDef, ...] = (
    OpDef(
        name="hip.pool",
        summary="Maximum, average or p-norm of sliding windows over 1 to 3 spatial dimensions.",
        inputs=(OperandDef("x"),),
        outputs=(OperandDef("y"),),
        attributes=(
            AttributeDef("mode", "string", None, MODES),
            *_WINDOW,
            AttributeDef("count_include_pad", "bool", False),
            AttributeDef("p", "int", 2),
            AttributeDef("unsigned", "bool", False),
        ),
        reify=reify_pool,
        verify=verify_pool,
        lowering=CallLowering("hipc_pool_window"),
    ),
    OpDef(
        name="hip.max_pool_indices",
        summary="Maximum of sliding windows, and where in the flat input it was found.",
        inputs=(OperandDef("x"),),
        outputs=(OperandDef("y"), OperandDef("indices")),
        attributes=(*_WINDOW, AttributeDef("storage_order", "int", 0), AttributeDef("unsigned", "bool", False)),
        reify=reify_max_pool_indices,
        verify=verify_max_pool_indices,
        lowering=CallLowering("hipc_max_pool_indices"),
    ),
    OpDef(
        name="hip.global_pool",
        summary="Maximum, average or p-norm of every plane.",
        inputs=(OperandDef("x"),),
        outputs=(OperandDef("y"),),
        attributes=(AttributeDef("mode", "string", None, MODES), AttributeDef("p", "int", 2)),
        reify=reify_global_pool,
        verify=verify_global_pool,
        lowering=CallLowering("hipc_global_pool"),
    ),
)
