"""LinearAttention, CausalConvWithState and GatherBlockQuantized in graphs, against float64 and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hip_compiler
from tests.kernels.compare import assert_close, draw, widen
from tests.llm.graphs import node_model, run_both, run_node
from tests.llm.oracles import join_heads, pack_bits, split_heads


def recurrence(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, state: np.ndarray, decay: np.ndarray | None, beta: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """q [B, H, T, D], k and v [B, G, T, .], decay [B, G, T, 1 or D], beta [B, 1 or G, T, 1]; scale 1 / sqrt(D)."""
    group, results = q.shape[1] // k.shape[1], []
    for t in range(q.shape[2]):
        value = v[:, :, t]
        if decay is not None:
            state = state * np.exp(decay[:, :, t])[..., None]
        if beta is not None:
            value = beta[:, :, t] * (value - np.einsum("bhdm,bhd->bhm", state, k[:, :, t]))
        state = state + k[:, :, t, :, None] * value[..., None, :]
        read = np.einsum("bhd,bhdm->bhm", q[:, :, t], state.repeat(group, 1))
        results.append(read / np.sqrt(q.shape[3]))
    return np.stack(results, 2), state


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("each_key", [True, False])
@pytest.mark.parametrize(("length", "with_past"), [(6, False), (1, True), (3, True)])
def test_linear_attention(rule: str, each_key: bool, length: int, with_past: bool) -> None:
    q, k, v = (
        draw((2, length, 4 * 16), scale=0.3),
        draw((2, length, 32), seed=1, scale=0.3),
        draw((2, length, 2 * 72), seed=2),
    )
    past = draw((2, 2, 16, 72), seed=3) if with_past else None
    decay = -np.abs(draw((2, length, 32 if each_key else 2), seed=4)) if "gated" in rule else None
    beta = 1 / (1 + np.exp(-draw((2, length, 1 if each_key else 2), seed=5))) if "delta" in rule else None
    inputs = {"q": q, "k": k, "v": v, "past": past, "decay": decay, "beta": beta}
    state = np.zeros((2, 2, 16, 72)) if past is None else widen(past)
    y, state = recurrence(
        split_heads(widen(q), 4), split_heads(widen(k), 2), split_heads(widen(v), 2), state,
        None if decay is None else split_heads(widen(decay), 2),
        None if beta is None else widen(beta).swapaxes(1, 2)[..., None],
    )  # fmt: skip
    rest: dict[str, Any] = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule}
    results, theirs = run_both("LinearAttention", inputs, ["y", "present"], **rest)
    for actual, expected, other in zip(results, [join_heads(y), state], theirs, strict=True):
        assert_close(actual, expected, factor=6)
        assert_close(actual, widen(other), factor=30)


def test_linear_attention_refuses_gates_that_do_not_fit_the_rule() -> None:
    inputs = {"q": draw((1, 2, 16)), "k": draw((1, 2, 16)), "v": draw((1, 2, 16))}
    model = node_model("LinearAttention", inputs, ["y"], q_num_heads=2, kv_num_heads=2, update_rule="gated")
    with pytest.raises(hip_compiler.UnsupportedError, match="the gates of update rule gated"):
        hip_compiler.compile(model)


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize(("length", "dilation"), [(1, 1), (7, 1), (2, 3)])
@pytest.mark.parametrize("with_past", [True, False])
def test_causal_conv(activation: str, length: int, dilation: int, with_past: bool) -> None:
    carried = 3 * dilation
    x, w, bias = draw((2, 5, length)), draw((5, 1, 4), seed=1), draw((5,), seed=2)
    past = draw((2, 5, carried), seed=3) if with_past else None
    line = np.concatenate([np.zeros((2, 5, carried)) if past is None else widen(past), widen(x)], 2)
    y = sum(widen(w)[:, 0, tap, None] * line[:, :, tap * dilation :][:, :, :length] for tap in range(4))
    y = y + widen(bias)[:, None]
    y = y / (1 + np.exp(-y)) if activation == "silu" else y
    inputs = {"x": x, "w": w, "bias": bias, "past": past}
    rest: dict[str, Any] = {"dilation": dilation, "activation": activation}
    results, theirs = run_both("CausalConvWithState", inputs, ["y", "present"], **rest)
    for actual, expected, other in zip(results, [y, line[:, :, length:]], theirs, strict=True):
        assert_close(actual, expected, factor=4)
        assert_close(actual, widen(other), factor=10)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("with_zeros", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_gather_of_packed_bytes(bits: int, with_zeros: bool, dtype: Any) -> None:
    rng = np.random.default_rng(bits)
    levels, scales = rng.integers(0, 1 << bits, (20, 80)), rng.uniform(0.1, 1, (20, 5)).astype(dtype)
    offsets = rng.integers(0, 1 << bits, (20, 5)) if with_zeros else np.full((20, 5), 1 << (bits - 1))
    indices = np.array([[3, 0, -1], [19, 7, 3]])
    exact = ((levels.reshape(20, 5, 16) - offsets[..., None]) * widen(scales)[..., None]).reshape(20, 80)
    inputs = {
        "table": pack_bits(levels, bits), "indices": indices, "scales": scales,
        "zeros": pack_bits(offsets, bits) if with_zeros else None,
    }  # fmt: skip
    constants = ["table", "scales", *(["zeros"] if with_zeros else [])]
    rest: dict[str, Any] = {
        "bits": bits,
        "block_size": 16,
        "quantize_axis": 1,
        "gather_axis": 0,
        "constants": constants,
    }
    [[y], [theirs]] = run_both("GatherBlockQuantized", inputs, ["y"], **rest)
    assert_close(y, exact[indices])
    np.testing.assert_array_equal(y, theirs)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
def test_gather_of_4_bit_types(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    signed = dtype is ml_dtypes.int4
    levels = rng.integers(-8 if signed else 0, 8 if signed else 16, (9, 32))
    scales, indices = rng.uniform(0.1, 1, (9, 2)).astype(np.float32), np.array([8, 0, 4])
    inputs = {"table": levels.astype(dtype), "indices": indices, "scales": scales}
    rest: dict[str, Any] = {"block_size": 16, "quantize_axis": 1, "constants": ["table", "scales"]}
    [y] = run_node("GatherBlockQuantized", inputs, ["y"], **rest)
    exact = (levels.reshape(9, 2, 16) * widen(scales)[..., None]).reshape(9, 32)
    assert_close(y, exact[indices])


def test_gather_outside_the_table_gives_zeros() -> None:
    table, scales = np.full((4, 8), 0x9A, np.uint8), np.ones((4, 1), np.float32)
    inputs = {"table": table, "indices": np.array([1, 4, -5]), "scales": scales}
    [y] = run_node("GatherBlockQuantized", inputs, ["y"], bits=4, block_size=16, quantize_axis=1)
    np.testing.assert_array_equal(y, [[2, 1] * 8, [0] * 16, [0] * 16])


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"gather_axis": 1}, "another axis than 0"),
        ({"quantize_axis": 0}, "another axis than the last"),
        ({"bits": 3}, "3 bits"),
    ],
)
def test_gather_variants_are_refused(attributes: dict[str, Any], reason: str) -> None:
    inputs = {"table": np.zeros((4, 8), np.uint8), "indices": np.array([1]), "scales": np.ones((4, 1), np.float32)}
    given: dict[str, Any] = {"bits": 4, "block_size": 16, "quantize_axis": 1} | attributes
    with pytest.raises(hip_compiler.UnsupportedError, match=reason):
        hip_compiler.compile(node_model("GatherBlockQuantized", inputs, ["y"], **given))
