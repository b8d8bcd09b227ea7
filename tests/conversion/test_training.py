"""What trains: statistics of a batch, dropped elements, steps of optimisers; against formulas of their own."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx import helper

from hip_compiler.runtime import Session
from tests.conversion.models import compiled

DOMAIN = "ai.onnx.preview.training"
DRAW = np.random.default_rng(17)


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 2)])
def test_batch_normalization_measures_the_batch(shape: tuple[int, ...]) -> None:
    names = ["x", "scale", "bias", "mean", "var"]
    node = helper.make_node("BatchNormalization", names, ["y", "m", "v"], training_mode=1, momentum=0.75, epsilon=1e-3)
    inputs: dict[str, Any] = {"x": ("float", ["n", *shape[1:]]), **dict.fromkeys(names[1:], ("float", [3]))}
    x = DRAW.standard_normal(shape).astype(np.float32)
    feeds = {name: DRAW.uniform(0.5, 2, 3).astype(np.float32) for name in names[1:]}
    results = compiled([node], inputs, ["y", "m", "v"]).run({"x": x, **feeds})
    axes = (0, *range(2, x.ndim))
    spread = (3, *[1] * (x.ndim - 2))
    mean, var = x.astype(np.float64).mean(axes), x.astype(np.float64).var(axes)
    expected = (x - mean.reshape(spread)) / np.sqrt(var.reshape(spread) + 1e-3)
    expected = expected * feeds["scale"].reshape(spread) + feeds["bias"].reshape(spread)
    np.testing.assert_allclose(results["y"], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(results["m"], feeds["mean"] * 0.75 + mean * 0.25, rtol=1e-5)
    np.testing.assert_allclose(results["v"], feeds["var"] * 0.75 + var * 0.25, rtol=1e-5)


@cache
def dropout() -> Session:
    node = helper.make_node("Dropout", ["x", "ratio", "mode"], ["y", "mask"], seed=3)
    inputs = {"x": ("float", ["n", 50]), "ratio": ("float", []), "mode": ("bool", [])}
    return compiled([node], inputs, ["y", "mask"])


@pytest.mark.parametrize("ratio", [0.25, 0.9])
def test_dropout_drops_a_share(ratio: float) -> None:
    x = DRAW.uniform(1, 2, (200, 50)).astype(np.float32)
    feeds = {"x": x, "ratio": np.array(ratio, np.float32), "mode": np.array(True)}
    results = dropout().run(feeds)
    mask = results["mask"]
    assert abs((~mask).mean() - ratio) < 0.02
    np.testing.assert_allclose(results["y"], np.where(mask, x / np.float32(1 - ratio), 0), rtol=1e-6)
    np.testing.assert_array_equal(dropout().run(feeds)["mask"], mask)


def test_dropout_keeps_everything_in_inference_and_at_ratio_0() -> None:
    x = DRAW.uniform(1, 2, (3, 50)).astype(np.float32)
    for ratio, mode in ((0.5, False), (0.0, True)):
        results = dropout().run({"x": x, "ratio": np.array(ratio, np.float32), "mode": np.array(mode)})
        np.testing.assert_array_equal(results["y"], x)
        assert results["mask"].all()


def adagrad(r: float, t: int, x: np.ndarray, g: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, ...]:
    slope = 0.1 * x + g
    total = h + slope**2
    return x - r / (1 + 0.5 * t) * slope / (np.sqrt(total) + 1e-4), total


def momentum(r: float, t: int, x: np.ndarray, g: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
    slope = 0.1 * x + g
    speed = 0.9 * v + (0.8 if t > 0 else 1) * slope
    return x - r * (slope + 0.9 * speed), speed


def adam(r: float, t: int, x: np.ndarray, g: np.ndarray, v: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, ...]:
    slope = 0.1 * x + g
    mean, square = 0.9 * v + 0.1 * slope, 0.99 * h + 0.01 * slope**2
    pace = r * np.sqrt(1 - 0.99**t) / (1 - 0.9**t) if t > 0 else r
    return (x - pace * mean / (np.sqrt(square) + 1e-4)) * 0.8, mean, square


STEPS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Adagrad": (adagrad, {"decay_factor": 0.5, "epsilon": 1e-4, "norm_coefficient": 0.1}),
    "Momentum": (momentum, {"alpha": 0.9, "beta": 0.8, "norm_coefficient": 0.1, "mode": "nesterov"}),
    "Adam": (
        adam,
        {"alpha": 0.9, "beta": 0.99, "epsilon": 1e-4, "norm_coefficient": 0.1, "norm_coefficient_post": 0.2},
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_optimizers(name: str) -> None:
    step, attributes = STEPS[name]
    roles = 4 if name == "Adam" else 3
    shapes = ((2, 3), (5,))
    tensors = {f"t{role}{i}": shape for role in range(roles) for i, shape in enumerate(shapes)}
    outputs = [f"y{role}{i}" for role in range(roles - 1) for i in range(2)]
    node = helper.make_node(name, ["r", "t", *tensors], outputs, domain=DOMAIN, **attributes)
    inputs: dict[str, Any] = {"r": ("float", []), "t": ("int64", [])}
    inputs |= {key: ("float", shape) for key, shape in tensors.items()}
    session = compiled([node], inputs, outputs, domains={DOMAIN: 1})
    for count in (0, 3):
        state = {key: DRAW.uniform(0.1, 2, shape).astype(np.float32) for key, shape in tensors.items()}
        results = session.run({"r": np.array(0.1, np.float32), "t": np.array(count), **state})
        for i in range(2):
            expected = step(0.1, count, *(state[f"t{role}{i}"].astype(np.float64) for role in range(roles)))
            for role, values in enumerate(expected):
                np.testing.assert_allclose(results[f"y{role}{i}"], values, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("aligned", [0, 1])
def test_affine_grid(aligned: int) -> None:
    node = helper.make_node("AffineGrid", ["theta", "size"], ["y"], align_corners=aligned)
    session = compiled([node], {"theta": ("float", ["n", 2, 3]), "size": ("int64", [4])}, ["y"])
    theta = DRAW.standard_normal((2, 2, 3)).astype(np.float32)
    y = session.run({"theta": theta, "size": np.array([2, 1, 4, 5])})["y"]

    def line(count: int) -> np.ndarray:
        return np.linspace(-1, 1, count) if aligned else (2 * np.arange(count) + 1) / count - 1

    rows, columns = np.meshgrid(line(4), line(5), indexing="ij")
    places = np.stack([columns, rows, np.ones_like(rows)], -1)
    np.testing.assert_allclose(y, np.einsum("nij,hwj->nhwi", theta, places), rtol=1e-5, atol=1e-6)
