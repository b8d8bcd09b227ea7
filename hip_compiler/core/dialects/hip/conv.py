"""hip.conv."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.element_types import FLOATS, one_of
from hip_compiler.core.dialects.hip.matmul import ACTIVATIONS
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

POINTS = 36
"""Points of a kernel of 3 x 3 in Winograd's F(4 x 4, 3 x 3)."""


def conv_extent(extent: Dim, kernel: Dim | int, stride: int, dilation: int, before: int, after: int) -> Dim:
    """Output extent of one spatial axis of a convolution."""
    return (extent + (before + after - 1) - (kernel - 1) * dilation) // stride + 1


def spatial_extents(
    x: Shape, kernel: Sequence[Dim | int], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int]
) -> Shape:
    """Output extents of the spatial axes; `pads` holds what stands before every axis, then what stands after.

    Raises:
        ValueError: attributes that do not fit the rank.
    """
    spatial = len(x) - 2
    if not 1 <= spatial <= 3:
        raise ValueError(f"{spatial} spatial dimensions; 1 to 3 are supported")
    lengths = (len(kernel), len(strides), len(dilations), len(pads))
    if lengths != (spatial, spatial, spatial, 2 * spatial):
        raise ValueError(
            f"{spatial} spatial dimensions, but {lengths[0]} kernel extents, {lengths[1]} strides, "
            f"{lengths[2]} dilations and {lengths[3]} pads"
        )
    return tuple(
        conv_extent(x[2 + i], kernel[i], strides[i], dilations[i], pads[i], pads[spatial + i]) for i in range(spatial)
    )


def reify_conv(shapes: OpShapes) -> list[TensorSpec]:
    """`x [N, C, spatial...]`, `w [M, C / group, kernel...]` to `[N, M, spatial...]`.

    Kernels of 3 x 3 may be given as their points, `[36, M, C and padding]`.

    Raises:
        ValueError: ranks, channels or attributes that do not fit.
    """
    x, w, attributes = shapes.inputs["x"], shapes.inputs["w"], shapes.attributes
    assert x is not None and w is not None
    if is_transformed(len(x), len(w)):
        w = (w[1], x[1], dim(3), dim(3))
    if len(w) != len(x):
        raise ValueError(f"input of rank {len(x)}, weights of rank {len(w)}")
    channels, wanted = x[1].value, (w[1] * attributes["group"]).value
    if channels is not None and wanted is not None and channels != wanted:
        raise ValueError(f"{channels} input channels; the weights take {wanted} in {attributes['group']} groups")
    extents = spatial_extents(x, w[2:], attributes["strides"], attributes["dilations"], attributes["pads"])
    dtype = shapes.dtypes["x"]
    assert dtype is not None
    return [TensorSpec((x[0], w[0], *extents), dtype)]


def is_transformed(x_rank: int, w_rank: int) -> bool:
    """Whether weights are points of kernels of 3 x 3, for Winograd's minimal filtering, rather than the kernels."""
    return (x_rank, w_rank) == (4, 3)


def verify_conv(op: Operation) -> str | None:
    """Element types, ranks, attribute lengths and values."""
    problem = one_of(FLOATS)(op)
    x, w = op.operands[0].type, op.operands[1].type
    if problem is None and is_transformed(x.rank, w.rank):
        numbers = [*op.attributes["strides"], *op.attributes["dilations"]]
        plain = int(op.attributes["group"]) == 1 if "group" in op.attributes else True
        if w.shape[0] != POINTS or set(numbers) != {1} or not plain or str(x.element_type) != "f32":
            return f"weights given as points need {POINTS} of them, f32, one group, strides and dilations of 1"
        return verify_window(op, [3, 3])
    return problem or verify_window(op, list(w.shape)[2:])


def verify_window(op: Operation, kernel: Sequence[int]) -> str | None:
    """Strides, dilations and pads of a sliding window over operand 0."""
    attributes = op.attributes
    spatial = op.operands[0].type.rank - 2
    if not 1 <= spatial <= 3:
        return f"{spatial} spatial dimensions; 1 to 3 are supported"
    strides, dilations, pads = (list(attributes[name]) for name in ("strides", "dilations", "pads"))
    if (len(kernel), len(strides), len(dilations), len(pads)) != (spatial, spatial, spatial, 2 * spatial):
        return (
            f"{spatial} spatial dimensions take {spatial} kernel extents, strides and dilations, and {2 * spatial} "
            f"pads; found {len(kernel)}, {len(strides)}, {len(dilations)} and {len(pads)}"
        )
    if min(*strides, *dilations) < 1:
        return "strides and dilations must be positive"
    return None


OPS: tuple[OpDef, ...] = (
    OpDef(
        name="hip.conv",
        summary="Convolution over 1 to 3 spatial dimensions: y = activation(conv(x, w) + bias) + residual.",
        inputs=(
            OperandDef("x"),
            OperandDef("w"),
            OperandDef("bias", optional=True),
            OperandDef("residual", optional=True),
        ),
        outputs=(OperandDef("y"),),
        attributes=(
            AttributeDef("strides", "ints"),
            AttributeDef("pads", "ints"),
            AttributeDef("dilations", "ints"),
            AttributeDef("group", "int", 1),
            AttributeDef("activation", "string", "none", ACTIVATIONS),
            AttributeDef("activation_alpha", "float", 0.0),
            AttributeDef("activation_beta", "float", 0.0),
        ),
        reify=reify_conv,
        verify=verify_conv,
        lowering=CallLowering("hipc_conv"),
    ),
)
