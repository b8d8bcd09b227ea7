"""Weights of convolutions as points of Winograd's minimal filtering, where that takes fewer operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from hip_compiler.core.dialects.access import create_op, read_op
from hip_compiler.core.dialects.hip.conv import POINTS
from hip_compiler.core.dialects.hip.matmul import PANEL
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.pack_quantized import contents
from hip_compiler.core.passes.walk import operations_named

FEATURE = "winograd"
LEAST_CHANNELS = 16
GAIN = 2.0
"""How many times the multiplications of the direct way must be of those of this one.

It transforms besides, and reads four times the weights: measured, 1.75 times is no gain, 3 times is 1.2 to 1.9.
"""

_P, _Q = 0.75, 1.5
_SQUARES = (_P * _P, _Q * _Q)


def transformed_kernels(module: Any, context: PassContext) -> None:
    """Give every `hip.conv` that gains from it the points of its weights, `[36, filters, channels and padding]`.

    That is: constant float32 kernels of 3 x 3, one group, strides and dilations of 1, and a picture of known extents.
    """
    if FEATURE not in context.target.features:
        return
    made: dict[tuple[str, tuple[int, ...]], str] = {}
    for op in operations_named(module, "hip.conv"):
        definition = context.ops[op.name]
        parts = read_op(definition, op)
        w, y = parts.inputs["w"], next(iter(parts.outputs.values()))
        if not _is_plain(w, parts.attributes) or not gains(y.type):
            continue
        source = w.owner.operation.attributes["buffer"].value
        view = (source, tuple(w.type.shape))
        if view not in made:
            made[view] = context.constants.add(f"{source}.points", points(contents(w, context)))
        shape = context.constants.get(made[view]).shape
        with ir.InsertionPoint(op), op.location:
            constant = ir.Operation.create(
                "hip.constant",
                results=[ir.RankedTensorType.get(shape, w.type.element_type)],
                attributes={"buffer": ir.StringAttr.get(made[view])},
            ).result
            inputs = [constant if name == "w" else value for name, value in parts.inputs.items()]
            replacement = create_op(definition, inputs, list(parts.outputs.values()), parts.attributes)
        op.results[0].replace_all_uses_with(replacement.results[0])
        op.erase()


def points(kernels: np.ndarray) -> np.ndarray:
    """`[filters, channels, 3, 3]` to `[36, filters, channels and padding]`, computed in double precision.

    A row is padded with zeros so that rows do not meet in few sets of a cache.
    """
    rows = [np.array([1, a, a * a]) / _scale(a) for a in (0.0, _P, -_P, _Q, -_Q)]
    g = np.stack([*rows, np.array([0.0, 0.0, 1.0])])
    filters, channels = kernels.shape[:2]
    result = np.einsum("ai,fcij,bj->abfc", g, kernels.astype(np.float64), g).reshape(POINTS, filters, channels)
    row = -(-channels // 16) * 16
    row += 16 if row % 256 == 0 else 0
    padded = np.zeros((POINTS, filters, row), np.float32)
    padded[:, :, :channels] = result
    return padded


def gains(picture: Any) -> bool:
    """Whether an output `[N, M, height, width]` takes fewer multiplications, whole panels counted."""
    if picture.rank != 4 or picture.is_dynamic_dim(2) or picture.is_dynamic_dim(3):
        return False
    height, width = picture.shape[2], picture.shape[3]
    tiles = -(-height // 4) * -(-width // 4)
    return 9 * _panels(height * width) > GAIN * POINTS * _panels(tiles)


def _panels(columns: int) -> int:
    return -(-columns // PANEL)


def _is_plain(w: Any, attributes: Any) -> bool:
    owner = w.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "hip.constant":
        return False
    kind = w.type
    return (
        "buffer" in owner.operation.attributes
        and str(kind.element_type) == "f32"
        and kind.rank == 4
        and list(kind.shape[2:]) == [3, 3]
        and min(kind.shape[:2]) >= LEAST_CHANNELS
        and attributes["group"] == 1
        and {*attributes["strides"], *attributes["dilations"]} == {1}
    )


def _scale(a: float) -> float:
    """The product of the distances to the other points."""
    p, q = _SQUARES
    if a == 0:
        return p * q
    return 2 * p * (p - q) if a * a == p else 2 * q * (q - p)
