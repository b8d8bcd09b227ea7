"""hip.attention, hip.rotary and hip.kv_append against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.core.dialects.hip.attention import OPS
from tests.kernels.compare import BF16, assert_close, draw, widen
from tests.kernels.harness import KernelError, call_op
from tests.llm import oracles

BY_NAME = {op.name.removeprefix("hip."): op for op in OPS}
TYPES = (np.float32, np.float16, BF16)


def attend(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    bias: np.ndarray | None = None,
    past: Any = None,
    valid: Any = None,
    sink: np.ndarray | None = None,
    threads: int = 1,
    **attributes: Any,
) -> np.ndarray:
    """Rank-4 operands."""
    lengths = [None if numbers is None else np.array(numbers, np.int32) for numbers in (past, valid)]
    attributes.setdefault("scale", 1 / np.sqrt(q.shape[3]))
    return call_op(
        BY_NAME["attention"], [q, k, v, bias, *lengths, sink], [((*q.shape[:3], v.shape[3]), q.dtype)],
        q_heads=q.shape[1], kv_heads=k.shape[1], size=q.shape[3], v_size=v.shape[3], threads=threads, **attributes,
    )[0]  # fmt: skip


def qkv(batch: int, heads: tuple[int, int], lengths: tuple[int, int], size: int, dtype: Any = np.float32) -> Any:
    queries, keys = lengths
    shapes = [(batch, heads[0], queries, size), (batch, heads[1], keys, size), (batch, heads[1], keys, size)]
    return [draw(shape, dtype, seed, 1.0) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [32, 40, 64, 80, 128, 256])
@pytest.mark.parametrize("lengths", [(1, 131), (3, 40), (61, 61)])
def test_head_sizes(dtype: Any, size: int, lengths: tuple[int, int]) -> None:
    q, k, v = qkv(2, (4, 2), lengths, size, dtype)
    assert_close(attend(q, k, v), oracles.attention(q, k, v), factor=4)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("queries", [1, 2, 5, 17, 130])
def test_masks_of_positions_and_lengths(queries: int, causal: bool) -> None:
    past, valid = [3, 20], [3 + queries, 20 + queries]
    q, k, v = qkv(2, (6, 3), (queries, 160), 48)
    for window in (0, 4, 300):
        rest: dict[str, Any] = {"causal": causal, "window": window, "past": past, "valid": valid}
        assert_close(attend(q, k, v, **rest), oracles.attention(q, k, v, **rest), factor=4)


@pytest.mark.parametrize("queries", [1, 40])
@pytest.mark.parametrize("shape", [(2, 6, -1, 70), (1, 1, -1, 70), (1, 6, 1, 70), (-1, 70), (2, 1, 1, 70)])
def test_bias_broadcasts(queries: int, shape: tuple[int, ...]) -> None:
    q, k, v = qkv(2, (6, 6), (queries, 70), 32)
    bias = draw([queries if extent == -1 else extent for extent in shape], seed=9)
    assert_close(attend(q, k, v, bias=bias), oracles.attention(q, k, v, bias=bias), factor=4)
    mask = bias > -0.5
    assert_close(attend(q, k, v, bias=mask), oracles.attention(q, k, v, bias=mask), factor=4)


@pytest.mark.parametrize("queries", [1, 40])
def test_softcap_sinks_and_smooth_softmax(queries: int) -> None:
    q, k, v = qkv(1, (6, 2), (queries, 70), 32)
    q *= 4
    sink = draw((6,), seed=7)
    for rest in ({"softcap": 2.5}, {"sink": sink}, {"smooth": True}, {"softcap": 5.0, "sink": sink}):
        assert_close(attend(q, k, v, **rest), oracles.attention(q, k, v, **rest), factor=6)
    assert not np.allclose(attend(q / 64, k, v, smooth=True), attend(q / 64, k, v), rtol=1e-3)


@pytest.mark.parametrize("queries", [1, 4, 33])
def test_keys_are_split_over_threads(queries: int) -> None:
    q, k, v = qkv(1, (2, 1), (queries, 1500), 64)
    rest: dict[str, Any] = {"causal": True, "past": [1500 - queries], "valid": [1500]}
    assert_close(attend(q, k, v, threads=4, **rest), oracles.attention(q, k, v, **rest), factor=4)


def test_rows_without_keys_are_zero_and_nan_shows() -> None:
    q, k, v = qkv(1, (2, 2), (3, 5), 32)
    mask = np.ones((3, 5), bool)
    mask[1] = False
    y = attend(q, k, v, bias=mask)
    assert np.all(y[:, :, 1] == 0)
    assert_close(y, oracles.attention(q, k, v, bias=mask), factor=4)
    q[0, 1, 2, 3] = np.nan
    y = attend(q, k, v)
    assert np.isnan(y[0, 1, 2]).all()
    assert np.isfinite(y[0, 0]).all()


def test_case_c3_large_half_precision_scores() -> None:
    """Values to 466 overflow binary16 in the scores: the sums must be float32."""
    q, k, v = qkv(1, (5, 5), (96, 512), 64, np.float16)
    q, k = ((x / np.abs(x).max() * 466).astype(np.float16) for x in (q, k))
    assert np.abs(widen(q) @ widen(k).swapaxes(2, 3)).max() > 65504
    y = attend(q, k, v, scale=0.125)
    assert np.isfinite(y.astype(np.float32)).all()
    assert_close(y, oracles.attention(q, k, v, scale=0.125), factor=8)


def test_packed_columns_equal_separate_tensors() -> None:
    q, k, v = qkv(2, (4, 2), (5, 5), 24)
    packed = np.concatenate([oracles.join_heads(x) for x in (q, k, v)], -1)
    y = call_op(
        BY_NAME["attention"], [packed, packed, packed, None, None, None, None], [((2, 5, 96), np.float32)],
        q_heads=4, kv_heads=2, size=24, v_size=24, k_first=96, v_first=144, scale=0.2, causal=True,
    )[0]  # fmt: skip
    expected = oracles.attention(q, k, v, scale=0.2, causal=True)
    assert_close(y, oracles.join_heads(expected), factor=4)


def test_lengths_beyond_the_cache_are_refused() -> None:
    q, k, v = qkv(1, (2, 2), (1, 8), 32)
    with pytest.raises(KernelError, match="the number of keys of batch entry 0 is 9; the cache holds 8"):
        attend(q, k, v, valid=[9])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("half", [16, 6])
def test_rotary(dtype: Any, interleaved: bool, half: int) -> None:
    x, (cos, sin) = draw((2, 3, 5, 32), dtype), oracles.rotary_tables(20, half, dtype)
    for positions in (np.array([[0, 3, 1, 19, 7], [5, 6, 7, 8, 9]]), np.array([11])):
        rows = positions if positions.size > 1 else np.broadcast_to(11 + np.arange(5), (2, 5))
        expected = oracles.rotary(x, cos, sin, rows, interleaved=interleaved)
        rest: dict[str, Any] = {"heads": 3, "size": 32, "interleaved": interleaved}
        [y] = call_op(BY_NAME["rotary"], [x, cos, sin, positions], [(x.shape, dtype)], **rest)
        assert_close(y, expected, factor=2)
        flat = oracles.join_heads(x)
        [y] = call_op(BY_NAME["rotary"], [flat, cos, sin, positions], [(flat.shape, dtype)], **rest)
        assert_close(y, oracles.join_heads(expected), factor=2)
    with pytest.raises(KernelError, match="position 20 is outside the tables of 20 rows"):
        call_op(BY_NAME["rotary"], [x, cos, sin, np.array([16])], [(x.shape, dtype)], **rest)


def test_kv_append_grows_a_cache_and_refuses_a_small_one() -> None:
    past, update = draw((2, 3, 6, 8)), draw((2, 2, 24), seed=1)
    lengths = np.array([4, 1], np.int32)
    [present] = call_op(BY_NAME["kv_append"], [update, past, lengths], [((2, 3, 7, 8), np.float32)], heads=3, size=8)
    new = oracles.split_heads(update, 3)
    for b, kept in enumerate(lengths):
        np.testing.assert_array_equal(present[b, :, :kept], past[b, :, :kept])
        np.testing.assert_array_equal(present[b, :, kept : kept + 2], new[b])
        assert np.all(present[b, :, kept + 2 :] == 0)
    with pytest.raises(KernelError, match="the cache holds 5 positions; batch entry 0 needs 6"):
        call_op(BY_NAME["kv_append"], [update, past, lengths], [((2, 3, 5, 8), np.float32)], heads=3, size=8)
