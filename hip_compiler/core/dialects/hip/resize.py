"""Interpolation on a regular grid."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    UNSIGNED,
    OperandView,
    attribute,
    define,
    destination_shape,
    element,
    input_dtype,
    input_shape,
    rank,
    same_element,
    same_rank,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec
from hip_compiler.shapes import dim

RESIZE_MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel",
    "asymmetric",
    "align_corners",
    "pytorch_half_pixel",
    "tf_crop_and_resize",
    "half_pixel_symmetric",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "by_scale")
"""The last: ceil along an axis that shrinks, floor along one that grows."""


def _like_destination(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(destination_shape(shapes, "y"), input_dtype(shapes, "x")),)


def _extents(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec((dim(len(input_shape(shapes, "x"))),), "i64"),)


def _combination(view: OperandView) -> str | None:
    if view.attributes["coordinate"] == "tf_crop_and_resize" and "roi" not in view.types:
        return "tf_crop_and_resize needs the operand roi"
    if view.attributes["antialias"] and view.attributes["mode"] == "nearest":
        return "nearest has no antialiasing"
    if view.attributes["mode"] != "nearest" and (view.element("x") or "").startswith("complex"):
        return "complex numbers cannot be interpolated"
    return None


OPS: tuple[OpDef, ...] = (
    define(
        "resize",
        "The input sampled on the output's grid, axis by axis; absent scales are the quotients of the extents.",
        ("x", "scales?", "roi?"),
        ("y",),
        _like_destination,
        attributes=(
            attribute("mode", "string", "nearest", RESIZE_MODES),
            attribute("coordinate", "string", "half_pixel", COORDINATES),
            attribute("nearest", "string", "round_prefer_floor", ROUNDINGS),
            attribute("cubic_coeff_a", "float", -0.75),
            attribute("exclude_outside", "bool", False),
            attribute("extrapolation_value", "float", 0.0),
            attribute("antialias", "bool", False),
            UNSIGNED,
        ),
        rules=(
            same_element("x", "y"),
            same_rank("x", "y"),
            element("scales", ("f32",)),
            rank("scales", 1, 1),
            element("roi", ("f32",)),
            rank("roi", 1, 1),
            _combination,
        ),
    ),
    define(
        "resize_extents",
        "Extents of a resized tensor: floor(extent * scale) per axis, for scales known at run time only.",
        ("x", "scales"),
        ("y",),
        _extents,
        rules=(element("scales", ("f32",)), rank("scales", 1, 1), element("y", ("i64",)), rank("y", 1, 1)),
    ),
)
