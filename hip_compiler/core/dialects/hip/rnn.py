"""Recurrent networks: LSTM, GRU and the simple one, with ONNX's gate order and layouts."""

from __future__ import annotations

from collections.abc import Sequence

from hip_compiler.core.dialects.hip.define import (
    FLOATS,
    OperandView,
    Rule,
    attribute,
    count,
    define,
    element,
    input_dtype,
    input_shape,
    rank,
    same_element,
)
from hip_compiler.registry.contributions import OpDef, OpShapes, TensorSpec
from hip_compiler.shapes import dim

DIRECTIONS = ("forward", "reverse", "bidirectional")

RNN_ACTIVATIONS: tuple[tuple[str, float, float], ...] = (
    ("Relu", 0.0, 0.0),
    ("Tanh", 0.0, 0.0),
    ("Sigmoid", 0.0, 0.0),
    ("Affine", 1.0, 0.0),
    ("LeakyRelu", 0.01, 0.0),
    ("ThresholdedRelu", 1.0, 0.0),
    ("ScaledTanh", 1.0, 1.0),
    ("HardSigmoid", 0.2, 0.5),
    ("Elu", 1.0, 0.0),
    ("Softsign", 0.0, 0.0),
    ("Softplus", 0.0, 0.0),
)
"""ONNX name, default alpha and default beta of every activation; the position is the number in `activations`."""

DEFAULT_ACTIVATIONS = {"lstm": ("Sigmoid", "Tanh", "Tanh"), "gru": ("Sigmoid", "Tanh"), "rnn": ("Tanh",)}
"""Activations of one direction, by operation."""

_TAKES_ALPHA = frozenset(("Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu"))
_TAKES_BETA = frozenset(("Affine", "ScaledTanh", "HardSigmoid"))


def activation_attributes(
    kind: str,
    directions: int,
    names: Sequence[str] = (),
    alphas: Sequence[float] = (),
    betas: Sequence[float] = (),
) -> tuple[tuple[int, ...], tuple[float, ...], tuple[float, ...]]:
    """The attributes `activations`, `activation_alpha` and `activation_beta` from ONNX's attributes.

    ONNX gives alphas and betas only for the activations that take one, in order.

    Args:
        kind: ``lstm``, ``gru`` or ``rnn``.
        directions: 1 or 2.
        names: ONNX names, in any case; empty: the defaults.

    Raises:
        ValueError: an unknown name, or a wrong number of them.
    """
    per_direction = DEFAULT_ACTIVATIONS[kind]
    chosen = list(names) or list(per_direction) * directions
    if len(chosen) != len(per_direction) * directions:
        raise ValueError(f"{len(chosen)} activations given, {len(per_direction) * directions} needed")
    rows = {name.lower(): (i, name, alpha, beta) for i, (name, alpha, beta) in enumerate(RNN_ACTIVATIONS)}
    left_alphas, left_betas = list(alphas), list(betas)
    numbers, own_alphas, own_betas = [], [], []
    for word in chosen:
        if word.lower() not in rows:
            raise ValueError(f"activation {word} is not one of {', '.join(name for name, _, _ in RNN_ACTIVATIONS)}")
        number, name, alpha, beta = rows[word.lower()]
        numbers.append(number)
        own_alphas.append(left_alphas.pop(0) if name in _TAKES_ALPHA and left_alphas else alpha)
        own_betas.append(left_betas.pop(0) if name in _TAKES_BETA and left_betas else beta)
    return tuple(numbers), tuple(own_alphas), tuple(own_betas)


def _reify(shapes: OpShapes) -> Sequence[TensorSpec]:
    x, r, dtype = input_shape(shapes, "x"), input_shape(shapes, "r"), input_dtype(shapes, "x")
    directions, hidden = dim(2 if shapes.attributes["direction"] == "bidirectional" else 1), r[2]
    if shapes.attributes["layout"]:
        y = TensorSpec((x[0], x[1], directions, hidden), dtype)
        state = TensorSpec((x[0], directions, hidden), dtype)
    else:
        y = TensorSpec((x[0], directions, x[1], hidden), dtype)
        state = TensorSpec((directions, x[1], hidden), dtype)
    return y, state


def _reify_lstm(shapes: OpShapes) -> Sequence[TensorSpec]:
    y, state = _reify(shapes)
    return y, state, state


def _layout(view: OperandView) -> str | None:
    value = view.attributes["layout"]
    return None if value in (0, 1) else f"layout = {value}; 0 or 1 is needed"


def _activation_numbers(view: OperandView) -> str | None:
    for number in view.attributes["activations"]:
        if not 0 <= number < len(RNN_ACTIVATIONS):
            return f"activation {number} is outside [0, {len(RNN_ACTIVATIONS)})"
    return None


def _rules(kind: str, *floats: str) -> tuple[Rule, ...]:
    def activations(view: OperandView) -> int:
        return len(DEFAULT_ACTIVATIONS[kind]) * (2 if view.attributes["direction"] == "bidirectional" else 1)

    words = "for every gate function and direction"
    return (
        element("x", FLOATS),
        same_element("x", "w", "r", "b", *floats),
        element("sequence_lens", ("i32",)),
        rank("x", 3, 3),
        rank("w", 3, 3),
        rank("r", 3, 3),
        rank("b", 2, 2),
        rank("sequence_lens", 1, 1),
        rank("initial_h", 3, 3),
        count("activations", activations, words),
        count("activation_alpha", activations, words),
        count("activation_beta", activations, words),
        _activation_numbers,
        _layout,
    )


_COMMON = (
    attribute("activations", "ints"),
    attribute("activation_alpha", "floats"),
    attribute("activation_beta", "floats"),
    attribute("clip", "float", 0.0),
    attribute("direction", "string", "forward", DIRECTIONS),
    attribute("layout", "int", 0),
)

OPS: tuple[OpDef, ...] = (
    define(
        "lstm",
        "Long short-term memory over a batch of sequences; `clip` 0 clips nothing.",
        ("x", "w", "r", "b?", "sequence_lens?", "initial_h?", "initial_c?", "p?"),
        ("y", "y_h", "y_c"),
        _reify_lstm,
        attributes=(*_COMMON, attribute("input_forget", "bool", False)),
        rules=(
            *_rules("lstm", "initial_h", "initial_c", "p", "y", "y_h", "y_c"),
            rank("initial_c", 3, 3),
            rank("p", 2, 2),
        ),
    ),
    define(
        "gru",
        "Gated recurrent unit over a batch of sequences; `clip` 0 clips nothing.",
        ("x", "w", "r", "b?", "sequence_lens?", "initial_h?"),
        ("y", "y_h"),
        _reify,
        attributes=(*_COMMON, attribute("linear_before_reset", "bool", False)),
        rules=_rules("gru", "initial_h", "y", "y_h"),
    ),
    define(
        "rnn",
        "Simple recurrent network over a batch of sequences; `clip` 0 clips nothing.",
        ("x", "w", "r", "b?", "sequence_lens?", "initial_h?"),
        ("y", "y_h"),
        _reify,
        attributes=_COMMON,
        rules=_rules("rnn", "initial_h", "y", "y_h"),
    ),
)
