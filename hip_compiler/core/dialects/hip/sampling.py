"""Sampling at positions that are data."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    FLOATS,
    OperandView,
    attribute,
    define,
    element,
    input_dtype,
    input_shape,
    positive,
    rank,
    same_element,
    same_rank,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec
from hip_compiler.shapes import dim

SAMPLE_MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")


def _grid_sample(shapes: OpShapes) -> Sequence[TensorSpec]:
    x, grid = input_shape(shapes, "x"), input_shape(shapes, "grid")
    return (TensorSpec((x[0], x[1], *grid[1:-1]), input_dtype(shapes, "x")),)


def _roi_align(shapes: OpShapes) -> Sequence[TensorSpec]:
    x, rois = input_shape(shapes, "x"), input_shape(shapes, "rois")
    height, width = dim(shapes.attributes["output_height"]), dim(shapes.attributes["output_width"])
    return (TensorSpec((rois[0], x[1], height, width), input_dtype(shapes, "x")),)


def _not_negative(view: OperandView) -> str | None:
    ratio = view.attributes["sampling_ratio"]
    return None if ratio >= 0 else f"sampling_ratio = {ratio} must not be negative"


OPS: tuple[OpDef, ...] = (
    define(
        "grid_sample",
        "The input at the positions of a grid, interpolated over one to three spatial axes.",
        ("x", "grid"),
        ("y",),
        _grid_sample,
        attributes=(
            attribute("mode", "string", "linear", SAMPLE_MODES),
            attribute("padding", "string", "zeros", PADDINGS),
            attribute("align_corners", "bool", False),
        ),
        rules=(
            element("x", FLOATS),
            element("grid", FLOATS),
            same_element("x", "y"),
            rank("x", 3, 5),
            same_rank("x", "grid", "y"),
        ),
    ),
    define(
        "roi_align",
        "Regions of a feature map pooled to one size.",
        ("x", "rois", "batch_indices"),
        ("y",),
        _roi_align,
        attributes=(
            attribute("mode", "string", "avg", ("avg", "max")),
            attribute("coordinate", "string", "half_pixel", ("half_pixel", "output_half_pixel")),
            attribute("output_height", "int", 1),
            attribute("output_width", "int", 1),
            attribute("sampling_ratio", "int", 0),
            attribute("spatial_scale", "float", 1.0),
        ),
        rules=(
            element("x", FLOATS),
            same_element("x", "rois", "y"),
            element("batch_indices", ("i64",)),
            rank("x", 4, 4),
            rank("rois", 2, 2),
            rank("batch_indices", 1, 1),
            positive("output_height", "output_width"),
            _not_negative,
        ),
    ),
    define(
        "max_roi_pool",
        "Maximum over every cell of regions of a feature map; a region is (image, x0, y0, x1, y1).",
        ("x", "rois"),
        ("y",),
        _roi_align,
        attributes=(
            attribute("output_height", "int"),
            attribute("output_width", "int"),
            attribute("spatial_scale", "float", 1.0),
        ),
        rules=(
            element("x", FLOATS),
            same_element("x", "rois", "y"),
            rank("x", 4, 4),
            rank("rois", 2, 2),
            positive("output_height", "output_width"),
        ),
    ),
)
