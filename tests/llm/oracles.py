"""Float64 oracles: attention with everything its variants add, rotary embedding, dequantised products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.kernels.compare import widen


def attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    scale: float | None = None,
    past: Sequence[int] | None = None,
    valid: Sequence[int] | None = None,
    causal: bool = False,
    window: int = 0,
    softcap: float = 0.0,
    bias: np.ndarray | None = None,
    sink: np.ndarray | None = None,
    smooth: bool = False,
) -> np.ndarray:
    """Attention of q [B, H, S, D] over k [B, G, T, D] and v [B, G, T, E], query heads sharing the G others evenly.

    Args:
        past: position of the first query, per batch entry.
        valid: number of keys that count, per batch entry.
        bias: added to the scores; a bool array hides keys where it is False.
        sink: score per query head that takes weight and has no value; `smooth`: a sink of 0.
    """
    q, k, v = widen(q), widen(k), widen(v)
    batch, heads, queries, size = q.shape
    keys, group = k.shape[2], heads // k.shape[1]
    k, v = k.repeat(group, 1), v.repeat(group, 1)
    scores = q @ k.swapaxes(2, 3) * (1 / np.sqrt(size) if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = np.where(bias, scores, -np.inf) if bias.dtype == bool else scores + widen(bias)[..., :keys]
    position = np.arange(queries)[None, :, None] + np.asarray(past or [0] * batch)[:, None, None]
    key = np.arange(keys)[None, None, :]
    visible = key < np.asarray(valid or [keys] * batch)[:, None, None]
    if causal:
        visible = visible & (key <= position)
    if window:
        visible = visible & (key > position - window)
    scores = np.where(visible[:, None], scores, -np.inf)
    if smooth and sink is None:
        sink = np.zeros(heads)
    if sink is not None:
        extra = np.broadcast_to(widen(sink)[None, :, None, None], (*scores.shape[:3], 1))
        scores = np.concatenate([scores, extra], -1)
    greatest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(greatest), greatest, 0))
    total = weights.sum(-1, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    return weights[..., :keys] @ v


def rotary(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, positions: np.ndarray, *, interleaved: bool) -> np.ndarray:
    """x [B, H, S, D] rotated by the table rows at positions [B, S]."""
    half, result = cos.shape[-1], widen(x).copy()
    c, s = widen(cos)[positions][:, None], widen(sin)[positions][:, None]
    first, second = (
        (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(0, half), slice(half, 2 * half))
    )
    a, b = widen(x)[..., first], widen(x)[..., second]
    result[..., first], result[..., second] = a * c - b * s, a * s + b * c
    return result


def split_heads(x: np.ndarray, heads: int) -> np.ndarray:
    """[B, S, H * D] to [B, H, S, D]."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def join_heads(x: np.ndarray) -> np.ndarray:
    """[B, H, S, D] to [B, S, H * D]."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def rotary_tables(length: int, half: int, dtype: np.dtype | type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of the usual angles, [length, half]."""
    angles = np.arange(length)[:, None] * 10000.0 ** (-np.arange(half) / half)[None]
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


def pack_bits(levels: np.ndarray, bits: int) -> np.ndarray:
    """Levels along the last axis as bytes, lowest bits first; the last byte is filled with zeros."""
    per_byte = 8 // bits
    missing = -levels.shape[-1] % per_byte
    padded = np.concatenate([levels, np.zeros((*levels.shape[:-1], missing), levels.dtype)], -1).astype(np.uint8)
    fields = padded.reshape(*levels.shape[:-1], -1, per_byte)
    return np.bitwise_or.reduce(fields << (np.arange(per_byte, dtype=np.uint8) * bits).astype(np.uint8), -1).astype(
        np.uint8
    )


@dataclass(frozen=True)
class Quantised:
    """A matrix [K, N] of few bits as MatMulNBits takes it, and its exact value.

    Attributes:
        weights: [N, blocks, block * bits / 8]; scales: [N * blocks]; zeros: as asked for, or None.
        matrix: float64 [K, N].
    """

    weights: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None
    matrix: np.ndarray


def quantised(
    n: int, k: int, bits: int, block: int, zeros: str = "none", seed: int = 0, dtype: np.dtype | type = np.float32
) -> Quantised:
    """A random matrix; `zeros` is none, packed or float."""
    rng = np.random.default_rng((seed, n, k, bits, block))
    blocks = -(-k // block)
    levels = rng.integers(0, 1 << bits, (n, blocks * block))
    scales = (rng.uniform(0.5, 1.5, (n, blocks)) * rng.choice([-1, 1], (n, blocks)) / (1 << bits)).astype(dtype)
    offsets: np.ndarray = np.full((n, blocks), 1 << (bits - 1))
    given: np.ndarray | None = None
    if zeros == "packed":
        offsets = rng.integers(0, 1 << bits, (n, blocks))
        given = pack_bits(offsets, bits)
    elif zeros == "float":
        given = rng.uniform(0, 1 << bits, (n, blocks)).astype(dtype)
        offsets = widen(given)
    matrix = (levels.reshape(n, blocks, block) - offsets[..., None]) * widen(scales)[..., None]
    weights = pack_bits(levels.reshape(n, blocks, block), bits)
    return Quantised(weights, scales.reshape(-1), given, matrix.reshape(n, -1)[:, :k].T)
