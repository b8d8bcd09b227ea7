"""Random numbers. Every element is a function of the seed and its position: a run can be repeated on any machine."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    FLOATS,
    INDICES,
    NUMBERS,
    attribute,
    define,
    destination_shape,
    element,
    input_shape,
    rank,
    same_rank,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec


def _free(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(destination_shape(shapes, "y"), shapes.dtypes.get("y") or "f32"),)


def _bernoulli(shapes: OpShapes) -> Sequence[TensorSpec]:
    return (TensorSpec(input_shape(shapes, "x"), shapes.dtypes.get("y") or "f32"),)


_SEED = attribute("seed", "int", 0)

OPS: tuple[OpDef, ...] = (
    define(
        "random_uniform",
        "Numbers spread evenly over [low, high).",
        (),
        ("y",),
        _free,
        attributes=(attribute("low", "float", 0.0), attribute("high", "float", 1.0), _SEED),
        rules=(element("y", FLOATS),),
    ),
    define(
        "random_normal",
        "Normally distributed numbers.",
        (),
        ("y",),
        _free,
        attributes=(attribute("mean", "float", 0.0), attribute("scale", "float", 1.0), _SEED),
        rules=(element("y", FLOATS),),
    ),
    define(
        "bernoulli",
        "One with the probability that the input gives, else zero.",
        ("x",),
        ("y",),
        _bernoulli,
        attributes=(_SEED,),
        rules=(element("x", FLOATS), element("y", NUMBERS), same_rank("x", "y")),
    ),
    define(
        "multinomial",
        "Classes drawn from rows of unnormalised log-probabilities.",
        ("x",),
        ("y",),
        _free,
        attributes=(_SEED,),
        rules=(element("x", FLOATS), element("y", INDICES), rank("x", 2, 2), rank("y", 2, 2)),
    ),
)
