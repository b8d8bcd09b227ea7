"""hip.lstm, hip.gru and hip.rnn against the ONNX equations in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hip_compiler.core.dialects.hip.rnn import OPS, RNN_ACTIVATIONS, activation_attributes
from tests.kernels.compare import BF16, assert_close, draw, widen
from tests.kernels.harness import KernelError, call_op
from tests.kernels.reference import reference

LSTM, GRU, RNN = OPS
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
BY_NAME = {"lstm": LSTM, "gru": GRU, "rnn": RNN}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


FUNCTIONS: dict[str, Callable[[np.ndarray, float, float], np.ndarray]] = {
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "Tanh": lambda x, a, b: np.tanh(x),
    "Sigmoid": lambda x, a, b: sigmoid(x),
    "Affine": lambda x, a, b: a * x + b,
    "LeakyRelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "ThresholdedRelu": lambda x, a, b: np.where(x > a, x, 0),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "Elu": lambda x, a, b: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Softplus": lambda x, a, b: np.log1p(np.exp(x)),
}


class Network:
    """One direction of a network, sequence by sequence, time-major."""

    def __init__(self, kind: str, functions: list[tuple[str, float, float]], clip: float, flag: bool) -> None:
        self.kind, self.functions, self.clip, self.flag = kind, functions, clip, flag

    def act(self, n: int, x: np.ndarray) -> np.ndarray:
        name, alpha, beta = self.functions[n]
        return FUNCTIONS[name](np.clip(x, -self.clip, self.clip) if self.clip else x, alpha, beta)

    def step(self, x: Any, w: Any, r: Any, b: Any, h: Any, c: Any, p: Any) -> tuple[np.ndarray, np.ndarray]:
        wb, rb = np.split(b, 2)
        if self.kind == "rnn":
            return self.act(0, w @ x + wb + r @ h + rb), c
        if self.kind == "gru":
            (wz, wr, wh), (rz, rr, rh) = np.split(w @ x + wb, 3), np.split(r, 3)
            bz, br, bh = np.split(rb, 3)
            z, reset = self.act(0, wz + rz @ h + bz), self.act(0, wr + rr @ h + br)
            inner = reset * (rh @ h + bh) if self.flag else rh @ (reset * h) + bh
            return (1 - z) * self.act(1, wh + inner) + z * h, c
        i, o, f, g = np.split(w @ x + wb + r @ h + rb, 4)
        pi, po, pf = np.split(p, 3)
        i, f = self.act(0, i + pi * c), self.act(0, f + pf * c)
        if self.flag:
            f = 1 - i
        c = f * c + i * self.act(1, g)
        return self.act(0, o + po * c) * self.act(2, c), c


def make(
    kind: str, dtype: Any, directions: int, seed: int = 0, batch: int = 3, hidden: int = 6
) -> dict[str, np.ndarray]:
    steps, width, gates = 5, 7, GATES[kind]
    shapes = {
        "x": (steps, batch, width),
        "w": (directions, gates * hidden, width),
        "r": (directions, gates * hidden, hidden),
        "b": (directions, 2 * gates * hidden),
        "initial_h": (directions, batch, hidden),
        "initial_c": (directions, batch, hidden),
        "p": (directions, 3 * hidden),
    }
    return {name: draw(s, dtype, seed + i, 0.5) for i, (name, s) in enumerate(shapes.items())}


def expected(
    kind: str, given: dict[str, np.ndarray], lengths: list[int], direction: str, network: list[Network]
) -> list[np.ndarray]:
    wide = {name: widen(value) for name, value in given.items()}
    steps, batch, _ = wide["x"].shape
    directions, hidden = wide["r"].shape[0], wide["r"].shape[2]
    y = np.zeros((steps, directions, batch, hidden))
    h, c = wide["initial_h"].copy(), wide["initial_c"].copy()
    for d in range(directions):
        for n in range(batch):
            times = range(lengths[n])
            for t in reversed(times) if direction == "reverse" or d == 1 else times:
                w, r, b, p = (wide[name][d] for name in ("w", "r", "b", "p"))
                h[d, n], c[d, n] = network[d].step(wide["x"][t, n], w, r, b, h[d, n], c[d, n], p)
                y[t, d, n] = h[d, n]
    return [y, h, c] if kind == "lstm" else [y, h]


def run(
    kind: str, given: dict[str, np.ndarray], lengths: list[int] | None, layout: int, names: list[str], **attributes: Any
) -> list[np.ndarray]:
    directions, hidden = given["r"].shape[0], given["r"].shape[2]
    steps, batch, _ = given["x"].shape
    swap = (lambda a: np.ascontiguousarray(np.swapaxes(a, 0, 1))) if layout else (lambda a: a)
    inputs: list[np.ndarray | None] = [
        swap(given["x"]),
        given["w"],
        given["r"],
        given["b"],
        None if lengths is None else np.array(lengths, np.int32),
        swap(given["initial_h"]),
    ]
    if kind == "lstm":
        inputs += [swap(given["initial_c"]), given["p"]]
    y = (batch, steps, directions, hidden) if layout else (steps, directions, batch, hidden)
    state = (batch, directions, hidden) if layout else (directions, batch, hidden)
    dtype = given["x"].dtype
    numbers, alphas, betas = activation_attributes(kind, directions, names)
    outputs: list[Any] = [(y, dtype), (state, dtype), (state, dtype)][: 3 if kind == "lstm" else 2]
    results = call_op(
        BY_NAME[kind],
        inputs,
        outputs,
        activations=numbers,
        activation_alpha=alphas,
        activation_beta=betas,
        layout=layout,
        threads=2,
        **attributes,
    )
    if layout:
        return [np.transpose(results[0], (1, 2, 0, 3)), *(np.swapaxes(r, 0, 1) for r in results[1:])]
    return results


def networks(kind: str, directions: int, names: list[str], clip: float, flag: bool) -> list[Network]:
    numbers, alphas, betas = activation_attributes(kind, directions, names)
    rows = [(RNN_ACTIVATIONS[n][0], a, b) for n, a, b in zip(numbers, alphas, betas, strict=True)]
    each = len(rows) // directions
    return [Network(kind, rows[d * each : (d + 1) * each], clip, flag) for d in range(directions)]


FLAG = {"lstm": "input_forget", "gru": "linear_before_reset"}


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("lengths", [None, [5, 0, 3]])
@pytest.mark.parametrize("flag", [False, True])
def test_equations(kind: str, direction: str, layout: int, lengths: list[int] | None, flag: bool) -> None:
    directions = 2 if direction == "bidirectional" else 1
    given = make(kind, np.float32, directions)
    attributes: dict[str, Any] = {"direction": direction}
    if kind in FLAG:
        attributes[FLAG[kind]] = flag
    actual = run(kind, given, lengths, layout, [], **attributes)
    oracle = expected(kind, given, lengths or [5, 5, 5], direction, networks(kind, directions, [], 0, flag))
    for ours, theirs in zip(actual, oracle, strict=True):
        assert_close(ours, theirs, factor=2)


@pytest.mark.parametrize(("kind", "hidden"), [("lstm", 72), ("lstm", 67), ("gru", 88), ("gru", 93), ("rnn", 264)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("flag", [False, True])
def test_many_hidden_units(kind: str, hidden: int, dtype: Any, flag: bool) -> None:
    """Both directions, sequences of several lengths; weights small enough that sums stay near 1."""
    given, lengths = make(kind, dtype, 2, batch=6, hidden=hidden), [5, 0, 3, 1, 5, 2]
    given["r"] = (widen(given["r"]) / hidden**0.5).astype(dtype)
    attributes: dict[str, Any] = {FLAG[kind]: flag} if kind in FLAG else {}
    actual = run(kind, given, lengths, int(flag), [], direction="bidirectional", **attributes)
    oracle = expected(kind, given, lengths, "bidirectional", networks(kind, 2, [], 0, flag))
    for ours, theirs in zip(actual, oracle, strict=True):
        assert_close(ours, theirs, factor=4)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float64])
def test_dtypes(kind: str, dtype: Any) -> None:
    given = make(kind, dtype, 1)
    actual = run(kind, given, None, 0, [])
    for ours, theirs in zip(
        actual, expected(kind, given, [5] * 3, "forward", networks(kind, 1, [], 0, False)), strict=True
    ):
        assert_close(ours, theirs, factor=2)


@pytest.mark.parametrize("name", [name for name, _, _ in RNN_ACTIVATIONS])
@pytest.mark.parametrize("clip", [0.0, 1.1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations(name: str, clip: float, dtype: Any) -> None:
    given = make("rnn", dtype, 1)
    names = [name.upper()]
    actual = run("rnn", given, None, 0, names, clip=clip)
    oracle = expected("rnn", given, [5] * 3, "forward", networks("rnn", 1, names, clip, False))
    for ours, theirs in zip(actual, oracle, strict=True):
        assert_close(ours, theirs, factor=4)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_absent_operands_as_onnx_defines_them(kind: str) -> None:
    given = make(kind, np.float32, 1)
    outputs = 3 if kind == "lstm" else 2
    wide = [widen(given[name]) for name in ("x", "w", "r")]
    theirs = reference(kind.upper(), wide, outputs, opset=14, hidden_size=6)
    op = BY_NAME[kind]
    numbers, alphas, betas = activation_attributes(kind, 1)
    inputs = [given["x"], given["w"], given["r"], *[None] * (len(op.inputs) - 3)]
    specs = [(value.shape, np.float32) for value in theirs]
    ours = call_op(op, inputs, specs, activations=numbers, activation_alpha=alphas, activation_beta=betas)
    for actual, oracle in zip(ours, theirs, strict=True):
        assert_close(actual, oracle, factor=2)


def test_alphas_go_to_the_activations_that_take_one() -> None:
    numbers, alphas, betas = activation_attributes("gru", 1, ["HardSigmoid", "LeakyRelu"], [0.3, 0.7], [0.1])
    assert numbers == (7, 4)
    assert (alphas, betas) == ((0.3, 0.7), (0.1, 0.0))
    with pytest.raises(ValueError, match="activation Swish is not one of"):
        activation_attributes("rnn", 1, ["Swish"])
    with pytest.raises(ValueError, match="1 activations given, 2 needed"):
        activation_attributes("rnn", 2, ["Tanh"])


def test_refuses_long_sequences() -> None:
    with pytest.raises(KernelError, match=r"rnn: sequence length 6 is outside \[0, 5\]"):
        run("rnn", make("rnn", np.float32, 1), [6, 1, 1], 0, [])


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_clip_bounds_the_input_of_every_activation(kind: str) -> None:
    """That of an LSTM's cell too, before its last activation; the cell itself goes on unclipped."""
    given = make(kind, np.float32, 1)
    network = networks(kind, 1, [], 0.3, False)
    oracle, free = (expected(kind, given, [5] * 3, "forward", n) for n in (network, networks(kind, 1, [], 0, False)))
    actual = run(kind, given, None, 0, [], clip=0.3)
    assert np.abs(oracle[0] - free[0]).max() > 0.1
    for found, wanted in zip(actual, oracle, strict=True):
        assert_close(found, wanted, factor=8)
