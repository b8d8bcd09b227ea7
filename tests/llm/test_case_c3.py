"""Case C3: half precision whose sums do not fit half precision. They are float32: results that fit are right."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.compare import assert_close, draw, widen
from tests.llm import oracles
from tests.llm.graphs import feeds_of, node_model, ours
from tests.llm.test_group_query_attention import OP, OUTPUTS, Case

MOST = 65504
ALPHA = 0.125
UNCERTAIN = 16
"""Scores of 1e5 are uncertain by 1e-2 in float32, and so are the weights of keys that are nearly alike."""
BATCH, POSITIONS, SIZE = 5, 4096, 64
ROWS = slice(None, None, 173)


def spread(shape: tuple[int, ...], seed: int, most: float) -> np.ndarray:
    """Half precision with `most` as the largest magnitude."""
    values = draw(shape, np.float32, seed, 1.0)
    return (values / np.abs(values).max() * most).astype(np.float16)


def test_scores_of_4096_positions() -> None:
    """[5, 4096, 64] x [5, 64, 4096] times 0.125, inputs to 466: all of the results, every row that is checked exact."""
    q, k = spread((BATCH, POSITIONS, SIZE), 1, 466), spread((BATCH, SIZE, POSITIONS), 2, 10)
    arrays: dict[str, np.ndarray | None] = {"a": q, "b": k}
    model = node_model("FusedMatMul", arrays, ["y"], alpha=ALPHA)
    [y] = ours(model, feeds_of(model, arrays))
    assert y.shape == (BATCH, POSITIONS, POSITIONS) and y.dtype == np.float16
    assert np.isfinite(y).all()
    sums = widen(q[:, ROWS]) @ widen(k)
    assert np.abs(sums * ALPHA).max() > 466
    assert_close(y[:, ROWS], sums * ALPHA, factor=2)


def test_scores_that_overflow_before_they_are_scaled() -> None:
    q, k = spread((BATCH, 256, SIZE), 3, 466), spread((BATCH, SIZE, POSITIONS), 4, 80)
    arrays: dict[str, np.ndarray | None] = {"a": q, "b": k}
    model = node_model("FusedMatMul", arrays, ["y"], alpha=ALPHA)
    sums = widen(q) @ widen(k)
    assert np.abs(sums).max() > MOST > np.abs(sums * ALPHA).max()
    [y] = ours(model, feeds_of(model, arrays))
    assert_close(y, sums * ALPHA, factor=2)


def test_attention_over_4096_positions() -> None:
    """Scores overflow half precision before they are scaled; the weights are right all the same."""
    size = BATCH * SIZE
    q, k = spread((1, POSITIONS, size), 5, 466), spread((1, POSITIONS, size), 6, 100)
    v = draw((1, POSITIONS, size), np.float16, 7, 1.0)
    arrays: dict[str, np.ndarray | None] = {"query": q, "key": k, "value": v}
    model = node_model("MultiHeadAttention", arrays, ["y"], num_heads=BATCH, scale=ALPHA)
    [y] = ours(model, feeds_of(model, arrays))
    heads = [oracles.split_heads(x, BATCH) for x in (q, k, v)]
    assert np.abs(widen(heads[0][:, :, :256]) @ widen(heads[1]).swapaxes(2, 3)).max() > MOST
    expected = oracles.attention(heads[0][:, :, ROWS], *heads[1:], scale=ALPHA)
    assert_close(y[:, ROWS], oracles.join_heads(expected), factor=UNCERTAIN)


@pytest.mark.parametrize("packed", [True, False])
def test_prefill_of_256_positions_of_a_large_layer(packed: bool) -> None:
    """64 heads of 128 over 8 of keys, as a model of 70 billion parameters has them; queries to 466."""
    case = Case(heads=64, shared=8, size=128, length=256, packed=packed, dtype=np.float16)
    arrays = case.arrays()
    for name, columns, most in (("query", 64 * 128, 466), ("key", 8 * 128, 90)):
        array = arrays["query"] if packed else arrays[name]
        assert array is not None
        start = 64 * 128 if packed and name == "key" else 0
        array[..., start : start + columns] *= most / np.abs(array[..., start : start + columns]).max()
    model = node_model(OP, arrays, OUTPUTS, **case.attributes())
    heads, keys, _ = case.heads_of(arrays)
    assert np.abs(heads[:, ::8] @ keys.swapaxes(2, 3)).max() > MOST
    y, *_ = ours(model, feeds_of(model, arrays))
    assert np.isfinite(y).all()
    assert_close(y, case.expected(arrays)[0], factor=UNCERTAIN)


def test_sums_over_28672_columns() -> None:
    """The down projection of such a layer: partial sums pass 65504, the results do not."""
    rows, inner, columns = 256, 28672, 32
    a, b = np.full((rows, inner), 8, np.float16), draw((inner, columns), np.float16, 9, 1.0)
    b[: inner // 2] = np.abs(b[: inner // 2])
    b[inner // 2 :] = -np.abs(b[inner // 2 :])
    assert (widen(a[:1, : inner // 2]) @ widen(b[: inner // 2])).max() > MOST
    arrays: dict[str, np.ndarray | None] = {"a": a, "b": b}
    model = node_model("FusedMatMul", arrays, ["y"])
    [y] = ours(model, feeds_of(model, arrays))
    expected = widen(a) @ widen(b)
    assert np.abs(expected).max() < MOST
    np.testing.assert_allclose(y, expected, atol=2.0**-9 * np.abs(expected).max() + 1e-6 * 8 * inner)
