"""Attention of a decoder layer with its rotation and its caches, on emulated GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.device.machine import ARCHITECTURES
from tests.device.operators import BF16, FLOATS, MakeHip, call, compare
from tests.gpu_runtime.harness import RunError

SOURCES = ("rotary_append", "attention", "attention_prefill", "attention_step")


@dataclass(frozen=True)
class Case:
    """A layer: new positions of a batch behind what its caches hold."""

    lengths: tuple[int, ...] = (5, 0)
    positions: int = 1
    heads: int = 4
    shared: int = 2
    size: int = 64
    half: int = 32
    capacity: int = 20
    interleaved: bool = False
    window: int = 0
    softcap: float = 0.0
    smooth: bool = False
    sink: bool = False
    given: bool = False
    """The angles are those of positions of their own."""


def run(make_hip: MakeHip, architecture: str, dtype: Any, case: Case, **changes: Any) -> None:
    """Compare with float64."""
    rng = np.random.default_rng(case.size + case.positions)
    batch, length, size, heads, shared = len(case.lengths), case.positions, case.size, case.heads, case.shared

    def draw(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(dtype)

    packed = draw(batch, length, (heads + 2 * shared) * size)
    angles = rng.uniform(0, 6, (case.capacity + 4, case.half))
    cos, sin = np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
    caches = [draw(batch, shared, case.capacity, size) for _ in "kv"]
    past = np.array(case.lengths, np.int32)
    given = rng.integers(0, len(cos), (batch, length)) if case.given else None
    sink = draw(heads) if case.sink else None
    tables = (cos, sin) if case.half else (None, None)
    inputs = [packed, packed, packed, *tables, given, *caches, past, past + np.int32(length), None, sink]
    for place, value in changes.get("inputs", {}).items():
        inputs[place] = value
    outputs = [((batch, length, heads * size), dtype), *[(cache.shape, dtype) for cache in caches]]
    firsts = (0, heads * size, (heads + shared) * size)
    scoring = (size**-0.5, case.window, case.softcap, case.smooth)
    attributes = (heads, shared, size, *firsts, case.interleaved, *scoring)
    y, k, v = call(make_hip, architecture, SOURCES, "hipc_cached_attention", inputs, outputs, *attributes)

    new = packed.astype(np.float64).reshape(batch, length, -1, size)
    turned, half = new.copy(), case.half
    first, second = slice(half), slice(half, 2 * half)
    if case.interleaved:
        first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    places = past[:, None] + np.arange(length)
    for b, s in np.ndindex(batch, length) if half else ():
        c, d = (table[given[b, s] if given is not None else places[b, s]].astype(np.float64) for table in (cos, sin))
        x, z = new[b, s, :, first], new[b, s, :, second]
        turned[b, s, :, first], turned[b, s, :, second] = x * c - z * d, x * d + z * c
    # What is stored is rounded.
    turned = turned.astype(dtype).astype(np.float64)
    wanted = [cache.astype(np.float64) for cache in caches]
    for b in range(batch):
        end = past[b] + length
        wanted[0][b, :, past[b] : end] = turned[b, :, heads : heads + shared].transpose(1, 0, 2)
        wanted[1][b, :, past[b] : end] = new[b, :, heads + shared :].transpose(1, 0, 2)
    expected = np.zeros((batch, length, heads, size))
    for b, s, h in np.ndindex(batch, length, heads):
        last = places[b, s] + 1
        begin = max(0, last - case.window) if case.window else 0
        keys, values = (cache[b, h * shared // heads, begin:last] for cache in wanted)
        scores = keys @ turned[b, s, h] * size**-0.5
        scores = case.softcap * np.tanh(scores / case.softcap) if case.softcap else scores
        extra = float(sink[h]) if sink is not None else 0.0 if case.smooth else -np.inf
        limit = max(scores.max(), extra)
        weights = np.exp(scores - limit)
        expected[b, s, h] = weights @ values / (weights.sum() + np.exp(extra - limit))
    compare(y, expected.reshape(y.shape).astype(dtype), factor=2)
    for found, cache, count in ((k, wanted[0], length), (v, wanted[1], length)):
        for b in range(batch):
            compare(found[b, :, : past[b] + count], cache[b, :, : past[b] + count].astype(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("size", [64, 128])
def test_one_position_in_one_launch(make_hip: MakeHip, architecture: str, dtype: Any, size: int) -> None:
    run(make_hip, architecture, dtype, Case(size=size, half=size // 2, lengths=(0, 5, 150), capacity=151))


@pytest.mark.parametrize("architecture", ["gfx1151", "gfx942"])
@pytest.mark.parametrize(
    "case",
    [
        Case(interleaved=True, half=16),
        Case(half=0, lengths=(7,)),
        Case(half=0, positions=2, lengths=(7,)),
        Case(half=20, window=3, lengths=(9, 1)),
        Case(sink=True, given=True),
        Case(smooth=True, heads=3, shared=3),
        Case(heads=2, shared=1, lengths=(900,), capacity=1100),
        Case(heads=2, shared=1, lengths=(700,), capacity=1100, window=600, size=128, half=64),
    ],
    ids=lambda case: f"{case.size}-{case.half}-{case.lengths[-1]}",
)
def test_variants(make_hip: MakeHip, architecture: str, case: Case) -> None:
    run(make_hip, architecture, np.float16, case)


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("interleaved", [False, True])
def test_several_positions(make_hip: MakeHip, architecture: str, dtype: Any, interleaved: bool) -> None:
    run(make_hip, architecture, dtype, Case(positions=3, size=24, half=8, interleaved=interleaved))


def test_a_prompt_on_matrix_units(make_hip: MakeHip) -> None:
    run(make_hip, "gfx1151", np.float16, Case(positions=40, lengths=(3,), capacity=50))


def test_one_position_with_a_capped_score(make_hip: MakeHip) -> None:
    run(make_hip, "gfx1151", np.float16, Case(softcap=4.0))


@pytest.mark.parametrize(
    ("place", "value"),
    [(8, np.array([20, 0], np.int32)), (8, np.array([-1, 0], np.int32)), (5, np.array([[3], [24]]))],
    ids=["behind the cache", "before it", "beyond the tables"],
)
def test_a_place_outside_ends_the_run(make_hip: MakeHip, place: int, value: Any) -> None:
    with pytest.raises(RunError, match="position"):
        run(make_hip, "gfx1151", np.float16, Case(), inputs={place: value})


def test_more_keys_than_the_cache_holds_end_the_run(make_hip: MakeHip) -> None:
    rng = np.random.default_rng(0)
    q, cache = rng.standard_normal((1, 1, 128)), rng.standard_normal((1, 2, 8, 64))
    inputs = [value.astype(np.float16) for value in (q, cache, cache)] + [None, None, np.array([9], np.int32), None]
    with pytest.raises(RunError, match="position"):
        call(
            make_hip, "gfx1151", SOURCES, "hipc_attention", inputs, [((1, 1, 128), np.float16)],
            2, 2, 64, 64, 0, 0, 0, 0.125, True, 0, 0.0, False,
        )  # fmt: skip
