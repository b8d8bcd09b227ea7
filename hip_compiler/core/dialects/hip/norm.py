"""Normalisation: layer, RMS, instance, group, local response, Lp."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    FLOATS,
    OperandView,
    attribute,
    axis,
    define,
    element,
    input_dtype,
    input_shape,
    normal_axis,
    positive,
    rank,
    same_element,
    same_rank,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec
from hip_compiler.shapes import dim


def _like_x(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(input_shape(shapes, "x"), input_dtype(shapes, "x")),)


def _with_statistics(shapes: OpShapes) -> Sequence[TensorSpec]:
    x = input_shape(shapes, "x")
    dtype = input_dtype(shapes, "x")
    first = normal_axis(shapes.attributes["axis"], len(x))
    statistics = TensorSpec((*x[:first], *(dim(1),) * (len(x) - first)), "f64" if dtype == "f64" else "f32")
    return (TensorSpec(x, dtype), statistics, statistics)


def _p_is_1_or_2(view: OperandView) -> str | None:
    p = view.attributes["p"]
    return None if p in (1, 2) else f"p = {p}; 1 or 2 is needed"


_LIKE_X = (element("x", FLOATS), same_element("x", "y"), same_rank("x", "y"))
_AXIS = attribute("axis", "int", -1)
_EPSILON = attribute("epsilon", "float", 1e-5)
_CHANNELS = (
    *_LIKE_X,
    rank("x", 2),
    element("scale", FLOATS),
    same_element("scale", "bias"),
    rank("scale", 1, 1),
    rank("bias", 1, 1),
)

OPS: tuple[OpDef, ...] = (
    define(
        "layer_norm",
        "Mean 0 and variance 1 over the axes from `axis` on, then scale and bias.",
        ("x", "scale?", "bias?"),
        ("y",),
        _like_x,
        attributes=(_AXIS, _EPSILON),
        rules=(*_LIKE_X, axis("axis", "x"), element("scale", FLOATS), element("bias", FLOATS)),
    ),
    define(
        "layer_norm_stats",
        "Layer normalisation that also gives the mean and the inverse standard deviation.",
        ("x", "scale?", "bias?"),
        ("y", "mean", "inv_std"),
        _with_statistics,
        attributes=(_AXIS, _EPSILON),
        rules=(
            *_LIKE_X,
            axis("axis", "x"),
            element("scale", FLOATS),
            element("bias", FLOATS),
            element("mean", FLOATS),
            same_element("mean", "inv_std"),
        ),
    ),
    define(
        "rms_norm",
        "Division by the root mean square over the axes from `axis` on, then scale.",
        ("x", "scale?"),
        ("y",),
        _like_x,
        attributes=(_AXIS, _EPSILON),
        rules=(*_LIKE_X, axis("axis", "x"), element("scale", FLOATS)),
    ),
    define(
        "instance_norm",
        "Mean 0 and variance 1 over the spatial axes of every channel, then scale and bias per channel.",
        ("x", "scale", "bias"),
        ("y",),
        _like_x,
        attributes=(_EPSILON,),
        rules=_CHANNELS,
    ),
    define(
        "group_norm",
        "Mean 0 and variance 1 over every group of channels, then scale and bias per channel or per group.",
        ("x", "scale", "bias"),
        ("y",),
        _like_x,
        attributes=(attribute("groups", "int"), _EPSILON),
        rules=(*_CHANNELS, positive("groups")),
    ),
    define(
        "lrn",
        "Local response normalisation over neighbouring channels.",
        ("x",),
        ("y",),
        _like_x,
        attributes=(
            attribute("size", "int"),
            attribute("alpha", "float", 1e-4),
            attribute("beta", "float", 0.75),
            attribute("bias", "float", 1.0),
        ),
        rules=(*_LIKE_X, rank("x", 2), positive("size")),
    ),
    define(
        "lp_norm",
        "Division by the L1 or L2 norm along one axis.",
        ("x",),
        ("y",),
        _like_x,
        attributes=(_AXIS, attribute("p", "int", 2)),
        rules=(*_LIKE_X, axis("axis", "x"), _p_is_1_or_2),
    ),
)
