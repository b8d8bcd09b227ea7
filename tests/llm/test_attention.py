"""Attention of ONNX, MultiHeadAttention and Attention of com.microsoft, RotaryEmbedding: graphs against oracles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hip_compiler
from tests.kernels.compare import assert_close, draw, widen
from tests.llm import oracles
from tests.llm.graphs import node_model, run_both, run_node
from tests.llm.oracles import join_heads, split_heads


def check(results: tuple[list[np.ndarray], list[np.ndarray]], expected: list[np.ndarray]) -> None:
    """Ours against float64, and against ONNX Runtime."""
    ours, theirs = results
    for actual, wanted, other in zip(ours, expected, theirs, strict=True):
        assert_close(actual, wanted, factor=6)
        assert_close(actual, widen(other), factor=20)


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", ["none", "bool", "float"])
@pytest.mark.parametrize("past", [0, 4])
def test_onnx_attention(rank: int, causal: int, mask: str, past: int) -> None:
    q, k, v = draw((2, 6, 5, 16), scale=1), draw((2, 3, 7, 16), seed=1, scale=1), draw((2, 3, 7, 24), seed=2, scale=1)
    caches = [draw((2, 3, past, width), seed=5 + width, scale=1) for width in (16, 24)]
    keys, values = np.concatenate([caches[0], k], 2), np.concatenate([caches[1], v], 2)
    bias = {"none": None, "float": draw((5, 7 + past), seed=3), "bool": draw((2, 1, 5, 7 + past), seed=3) > -1}[mask]
    operands = [join_heads(x) for x in (q, k, v)] if rank == 3 else [q, k, v]
    inputs = dict(zip(("q", "k", "v"), operands, strict=True)) | {"mask": bias}
    outputs = ["y"]
    if past:
        inputs |= {"past_k": caches[0], "past_v": caches[1]}
        outputs = ["y", "present_k", "present_v"]
    heads = {"q_num_heads": 6, "kv_num_heads": 3} if rank == 3 else {}
    y = oracles.attention(q, keys, values, causal=bool(causal), past=[past, past], bias=bias)
    expected = [join_heads(y) if rank == 3 else y, keys, values][: len(outputs)]
    results = run_both("Attention", inputs, outputs, domain="", opset=23, is_causal=causal, **heads)
    check(results, expected)


def test_onnx_attention_softcap_scale_and_the_body_for_scores() -> None:
    q, k, v = (draw((1, 2, 4, 8), seed=seed) for seed in range(3))
    inputs = {"q": q, "k": k, "v": v}
    rest: dict[str, Any] = {"domain": "", "opset": 23, "softcap": 3.0, "scale": 0.2}
    expected = oracles.attention(q, k, v, softcap=3.0, scale=0.2)
    assert_close(run_node("Attention", inputs, ["y"], **rest)[0], expected, factor=4)
    y, scores = run_node("Attention", inputs, ["y", "", "", "scores"], **rest)
    assert_close(y, expected, factor=8)
    assert scores.shape == (1, 2, 4, 4)


def test_onnx_attention_over_a_cache_filled_elsewhere() -> None:
    q, k, v = draw((2, 4, 2, 16)), draw((2, 2, 9, 16), seed=1), draw((2, 2, 9, 16), seed=2)
    filled = np.array([9, 5])
    inputs = {"q": q, "k": k, "v": v, "mask": None, "past_k": None, "past_v": None, "filled": filled}
    [y] = run_node("Attention", inputs, ["y"], domain="", opset=24, is_causal=1)
    assert_close(y, oracles.attention(q, k, v, causal=True, past=[7, 3], valid=[9, 5]), factor=4)


def test_onnx_attention_windows() -> None:
    q, k, v = (draw((1, 2, 12, 16), seed=seed) for seed in range(3))
    inputs = {"q": q, "k": k, "v": v}
    [y] = run_node("Attention", inputs, ["y"], domain="", opset=25, is_causal=1, left_window_size=3)
    assert_close(y, oracles.attention(q, k, v, causal=True, window=4), factor=4)


@pytest.mark.parametrize("packing", ["separate", "qkv", "kv", "cross"])
@pytest.mark.parametrize("with_bias", [True, False])
def test_multi_head_attention_layouts(packing: str, with_bias: bool) -> None:
    length = 5 if packing == "qkv" else 7
    q, k, v = (draw((2, n, 3 * 16), seed=seed, scale=1) for seed, n in enumerate((5, length, length)))
    bias = draw((3 * 48,), seed=4) if with_bias and packing != "cross" else None
    parts = [x.reshape(2, -1, 3, 16) for x in (q, k, v)]
    inputs: dict[str, Any] = {"q": q, "k": k, "v": v}
    if packing == "qkv":
        inputs = {"q": np.stack(parts, 3), "k": None, "v": None}
    elif packing == "kv":
        inputs = {"q": q, "k": np.stack(parts[1:], 3), "v": None}
    elif packing == "cross":
        inputs = {"q": q, "k": split_heads(k, 3), "v": split_heads(v, 3)}
    wide = [widen(x) + (0 if bias is None else widen(bias)[48 * i : 48 * i + 48]) for i, x in enumerate((q, k, v))]
    expected = join_heads(oracles.attention(*(split_heads(x, 3) for x in wide)))
    inputs["bias"] = bias
    if packing == "separate":
        check(run_both("MultiHeadAttention", inputs, ["y"], num_heads=3), [expected])
    assert_close(run_node("MultiHeadAttention", inputs, ["y"], num_heads=3)[0], expected, factor=6)


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("mask", ["none", "padding", "bias", "both"])
@pytest.mark.parametrize("past", [0, 4])
def test_multi_head_attention_masks_and_past(unidirectional: int, mask: str, past: int) -> None:
    q, k, v = (draw((2, 5, 3 * 16), seed=seed, scale=1) for seed in range(3))
    caches = [draw((2, 3, past, 16), seed=seed, scale=1) for seed in (5, 6)]
    keys, values = (np.concatenate([c, split_heads(x, 3)], 2) for c, x in zip(caches, (k, v), strict=True))
    padding = np.ones((2, 5 + past), np.int32)
    padding[1, 3:5] = 0
    bias = draw((1, 3, 5, 5 + past), seed=8)
    inputs = {
        "q": q, "k": k, "v": v, "bias": None,
        "padding": padding if mask in ("padding", "both") else None,
        "attention_bias": bias if mask in ("bias", "both") else None,
    }  # fmt: skip
    outputs = ["y"]
    if past:
        inputs |= {"past_k": caches[0], "past_v": caches[1]}
        outputs = ["y", "present_k", "present_v"]
    added = np.zeros((2, 3, 5, 5 + past))
    if inputs["padding"] is not None:
        added += np.where(padding, 0, -10000.0)[:, None, None, :]
    if inputs["attention_bias"] is not None:
        added += widen(bias)
    y = oracles.attention(split_heads(q, 3), keys, values, causal=bool(unidirectional), past=[past] * 2, bias=added)
    results = run_both("MultiHeadAttention", inputs, outputs, num_heads=3, unidirectional=unidirectional)
    check(results, [join_heads(y), keys, values][: len(outputs)])


@pytest.mark.parametrize("past", [0, 3])
@pytest.mark.parametrize("mask", ["none", "lengths", "padding"])
def test_microsoft_attention(past: int, mask: str) -> None:
    x, weights, bias = draw((2, 5, 20), scale=1), draw((20, 96), seed=1, scale=0.3), draw((96,), seed=2)
    cache = draw((2, 2, 4, past, 8), seed=3, scale=1)
    lengths = np.array([5 + past, 2 + past], np.int32)
    padding = (np.arange(5 + past) < lengths[:, None]).astype(np.int32)
    chosen = {"none": None, "lengths": lengths, "padding": padding}[mask]
    inputs = {"x": x, "weights": weights, "bias": bias, "mask": chosen, "past": cache if past else None}
    q, k, v = (split_heads(part, 4) for part in np.split(widen(x) @ widen(weights) + widen(bias), 3, -1))
    keys, values = np.concatenate([widen(cache[0]), k], 2), np.concatenate([widen(cache[1]), v], 2)
    valid = None if mask == "none" else list(lengths)
    y = oracles.attention(q, keys, values, causal=True, past=[past] * 2, valid=valid)
    outputs = ["y", "present"] if past else ["y"]
    results = run_both("Attention", inputs, outputs, num_heads=4, unidirectional=1, constants=["weights", "bias"])
    expected = [join_heads(y), np.stack([keys, values])][: len(outputs)]
    for actual, wanted in zip(results[0], expected, strict=True):
        assert_close(actual, wanted, factor=12)
    for actual, other in zip(*results, strict=True):
        assert_close(actual, widen(other), factor=30)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [({"do_rotary": 1}, "rotary embedding inside"), ({"past_present_share_buffer": 1}, "a shared cache")],
)
def test_microsoft_attention_variants_are_refused(attributes: dict[str, Any], reason: str) -> None:
    inputs = {"x": draw((2, 5, 20)), "weights": draw((20, 96)), "bias": draw((96,))}
    with pytest.raises(hip_compiler.UnsupportedError, match=reason):
        hip_compiler.compile(node_model("Attention", inputs, ["y"], num_heads=4, **attributes))


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("width", [0, 8])
@pytest.mark.parametrize("offset", [True, False])
def test_microsoft_rotary_embedding(interleaved: int, rank: int, width: int, offset: bool) -> None:
    x, (cos, sin) = draw((2, 3, 5, 16)), oracles.rotary_tables(30, (width or 16) // 2)
    positions = np.array([4]) if offset else np.array([[0, 5, 2, 9, 29], [1, 2, 3, 4, 5]])
    rows = np.broadcast_to(4 + np.arange(5), (2, 5)) if offset else positions
    expected = oracles.rotary(x, cos, sin, rows, interleaved=bool(interleaved))
    inputs = {"x": x if rank == 4 else join_heads(x), "positions": positions, "cos": cos, "sin": sin}
    partial = {"rotary_embedding_dim": width, "num_heads": 3} if width else {}
    results = run_both("RotaryEmbedding", inputs, ["y"], interleaved=interleaved, **partial)
    check(results, [expected if rank == 4 else join_heads(expected)])


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("with_positions", [True, False])
def test_onnx_rotary_embedding(interleaved: int, rank: int, with_positions: bool) -> None:
    x, (cos, sin) = draw((2, 3, 5, 16)), oracles.rotary_tables(30, 4)
    positions = np.array([[0, 5, 2, 9, 29], [1, 2, 3, 4, 5]])
    expected = oracles.rotary(x, cos, sin, positions, interleaved=bool(interleaved))
    tables = (cos, sin) if with_positions else (cos[positions], sin[positions])
    inputs = {
        "x": x if rank == 4 else join_heads(x), "cos": tables[0], "sin": tables[1],
        "positions": positions if with_positions else None,
    }  # fmt: skip
    heads = {"num_heads": 3} if rank == 3 else {}
    [y] = run_node(
        "RotaryEmbedding", inputs, ["y"], domain="", opset=23, interleaved=interleaved, rotary_embedding_dim=8, **heads
    )
    assert_close(y, expected if rank == 4 else join_heads(expected), factor=2)
