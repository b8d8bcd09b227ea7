"""Normalisations and activations of com.microsoft against float64 and ONNX Runtime."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np
import pytest

import hip_compiler
from tests.kernels.compare import assert_close, draw, widen
from tests.llm.graphs import node_model, run_both, run_node


def rms_norm(x: np.ndarray, scale: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    inverse = 1 / np.sqrt((widen(x) ** 2).mean(-1, keepdims=True) + epsilon)
    return widen(x) * inverse * widen(scale), inverse


def layer_norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, epsilon: float) -> list[np.ndarray]:
    mean = x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt(x.var(-1, keepdims=True) + epsilon)
    return [(x - mean) * inverse * widen(scale) + widen(bias), mean, inverse]


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_simplified_layer_norm_lives_in_two_domains(domain: str, dtype: Any) -> None:
    x, scale = draw((2, 3, 37), dtype), draw((37,), dtype, 1)
    outputs = ["y"] if domain else ["y", "inverse"]
    results = run_node(
        "SimplifiedLayerNormalization", {"x": x, "scale": scale}, outputs, domain=domain, constants=["scale"],
        epsilon=1e-6, axis=-1, stash_type=1,
    )  # fmt: skip
    expected, inverse = rms_norm(x, scale, 1e-6)
    assert_close(results[0], expected, factor=2)
    if not domain:
        assert_close(results[1], inverse, factor=2)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("with_bias", [True, False])
def test_skip_simplified_layer_norm(dtype: Any, with_bias: bool) -> None:
    x, skip, scale, bias = (draw(s, dtype, i) for i, s in enumerate([(2, 5, 33), (2, 5, 33), (33,), (33,)]))
    inputs = {"x": x, "skip": skip, "scale": scale, "bias": bias if with_bias else None}
    rest: dict[str, Any] = {"constants": ["scale"], "epsilon": 1e-5, "dynamic": True}
    y, total = run_node("SkipSimplifiedLayerNormalization", inputs, ["y", "", "", "total"], **rest)
    summed = widen(x) + widen(skip) + (widen(bias) if with_bias else 0)
    assert_close(total, summed, factor=2)
    assert_close(y, rms_norm(summed, scale, 1e-5)[0], factor=4)
    [_, peer], _ = run_both("SkipSimplifiedLayerNormalization", inputs, ["y", "", "", "total"], **rest)
    assert_close(peer, summed, factor=2)


def test_skip_simplified_layer_norm_gives_the_inverse_and_has_no_mean() -> None:
    x, skip, scale = draw((2, 5, 32)), draw((2, 5, 32), seed=1), draw((32,), seed=2)
    inputs = {"x": x, "skip": skip, "scale": scale}
    _, inverse = run_node("SkipSimplifiedLayerNormalization", inputs, ["y", "", "inverse"], epsilon=1e-5)
    assert_close(inverse, rms_norm(widen(x) + widen(skip), scale, 1e-5)[1], factor=4)
    with pytest.raises(hip_compiler.UnsupportedError, match="the mean"):
        hip_compiler.compile(node_model("SkipSimplifiedLayerNormalization", inputs, ["y", "mean"]))


@pytest.mark.parametrize("skip_shape", [(2, 5, 24), (1, 5, 24), (5, 24)])
def test_skip_layer_norm_with_all_outputs(skip_shape: tuple[int, ...]) -> None:
    x, skip = draw((2, 5, 24)), draw(skip_shape, seed=1)
    gamma, beta, bias = (draw((24,), seed=seed) for seed in (2, 3, 4))
    inputs = {"x": x, "skip": skip, "gamma": gamma, "beta": beta, "bias": bias}
    results = run_node("SkipLayerNormalization", inputs, ["y", "mean", "inverse", "total"], epsilon=1e-5)
    summed = widen(x) + widen(skip) + widen(bias)
    for actual, expected in zip(results, [*layer_norm(summed, gamma, beta, 1e-5), summed], strict=True):
        assert_close(actual, expected, factor=4)
    ours, theirs = run_both("SkipLayerNormalization", inputs, ["y", "", "", "total"], epsilon=1e-5)
    for actual, other in zip(ours, theirs, strict=True):
        assert_close(actual, widen(other), factor=8)


@pytest.mark.parametrize("with_segments", [True, False])
@pytest.mark.parametrize("with_mask", [True, False])
def test_embed_layer_norm(with_segments: bool, with_mask: bool) -> None:
    rng = np.random.default_rng(0)
    ids, segments = rng.integers(0, 20, (2, 6)).astype(np.int32), rng.integers(0, 2, (2, 6)).astype(np.int32)
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)
    words, places, kinds = draw((20, 16)), draw((9, 16), seed=1), draw((2, 16), seed=2)
    gamma, beta = draw((16,), seed=3), draw((16,), seed=4)
    inputs = {
        "ids": ids, "segments": segments if with_segments else None, "words": words, "places": places,
        "kinds": kinds if with_segments else None, "gamma": gamma, "beta": beta, "mask": mask if with_mask else None,
    }  # fmt: skip
    y, lengths, total = run_node("EmbedLayerNormalization", inputs, ["y", "lengths", "total"], epsilon=1e-12)
    summed = widen(words)[ids] + widen(places)[None, :6] + (widen(kinds)[segments] if with_segments else 0)
    assert_close(total, summed, factor=2)
    assert_close(y, layer_norm(summed, gamma, beta, 1e-12)[0], factor=4)
    np.testing.assert_array_equal(lengths, [4, 6] if with_mask else [0, 0])


@pytest.mark.parametrize("last", [1, 0])
@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("op", ["GroupNorm", "SkipGroupNorm"])
def test_group_norm(op: str, activation: int, last: int) -> None:
    x, gamma, beta = draw((2, 5, 3, 8)), draw((8,), seed=1), draw((8,), seed=2)
    skip, bias = draw((2, 8), seed=3), draw((8,), seed=4)
    total = widen(x)
    inputs = {"x": x if last else np.ascontiguousarray(x.transpose(0, 3, 1, 2)), "gamma": gamma, "beta": beta}
    if op == "SkipGroupNorm":
        inputs |= {"skip": skip, "bias": bias}
        total = total + widen(skip)[:, None, None, :] + widen(bias)
    grouped = total.reshape(2, 5, 3, 4, 2)
    centred = grouped - grouped.mean((1, 2, 4), keepdims=True)
    expected = centred / np.sqrt(grouped.var((1, 2, 4), keepdims=True) + 1e-5)
    expected = expected.reshape(x.shape) * widen(gamma) + widen(beta)
    expected = expected / (1 + np.exp(-expected)) if activation else expected
    outputs = ["y", "total"] if op == "SkipGroupNorm" else ["y"]
    results = run_node(op, inputs, outputs, groups=4, activation=activation, channels_last=last, epsilon=1e-5)
    for actual, wanted in zip(results, [expected, total], strict=False):
        assert_close(actual, wanted if last else wanted.transpose(0, 3, 1, 2), factor=4)


_ERF = np.vectorize(erf)


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + _ERF(x / np.sqrt(2)))


def fast_gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(
    ("op", "with_bias", "oracle"),
    [("Gelu", False, gelu), ("BiasGelu", True, gelu), ("FastGelu", True, fast_gelu), ("FastGelu", False, fast_gelu)],
)
def test_gelus(op: str, with_bias: bool, oracle: Any) -> None:
    x, bias = draw((3, 4, 21)), draw((21,), seed=1)
    inputs = {"x": x, "bias": bias if with_bias else None}
    [[actual], [theirs]] = run_both(op, inputs, ["y"])
    expected = oracle(widen(x) + (widen(bias) if with_bias else 0))
    assert_close(actual, expected, factor=4)
    assert_close(actual, widen(theirs), factor=20)


def test_quick_gelu_and_bias_split_gelu() -> None:
    x, bias = draw((2, 3, 14)), draw((14,), seed=1)
    wide = widen(x)
    [quick] = run_node("QuickGelu", {"x": x}, ["y"], alpha=1.25)
    assert_close(quick, wide / (1 + np.exp(-1.25 * wide)), factor=4)
    [split] = run_node("BiasSplitGelu", {"x": x, "bias": bias}, ["y"])
    biased = wide + widen(bias)
    assert_close(split, biased[..., :7] * gelu(biased[..., 7:]), factor=4)


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_fused_matmul(trans_a: int, trans_b: int) -> None:
    a, b = draw((2, 5, 7)), draw((7, 3), seed=1)
    inputs = {"a": np.ascontiguousarray(a.swapaxes(1, 2)) if trans_a else a, "b": b.T.copy() if trans_b else b}
    [[actual], [theirs]] = run_both("FusedMatMul", inputs, ["y"], transA=trans_a, transB=trans_b, alpha=0.125)
    assert_close(actual, 0.125 * (widen(a) @ widen(b)), factor=4)
    assert_close(actual, widen(theirs), factor=4)


@pytest.mark.parametrize(
    ("activation", "parameters", "with_sum"),
    [
        ("Relu", [], False),
        ("Relu", [], True),
        ("LeakyRelu", [0.2], False),
        ("Clip", [-0.5, 1.5], False),
        ("Tanh", [], False),
    ],
)
def test_fused_conv(activation: str, parameters: list[float], with_sum: bool) -> None:
    inputs = {"x": draw((1, 3, 9, 8)), "w": draw((5, 3, 3, 3), seed=1), "b": draw((5,), seed=2), "z": None}
    inputs["z"] = draw((1, 5, 9, 8), seed=3, scale=9) if with_sum else None
    rest: dict[str, Any] = {"activation_params": parameters} if parameters else {}
    [[actual], [theirs]] = run_both("FusedConv", inputs, ["y"], activation=activation, pads=[1, 1, 1, 1], **rest)
    assert np.any(theirs != 0)
    assert_close(actual, widen(theirs), factor=8)
