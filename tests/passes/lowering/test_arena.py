"""Offsets of buffers: nothing in use at the same time overlaps, and little is wasted."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from hip_compiler.core.passes.arena import Lifetime, lower_bound, plan_offsets


@st.composite
def lifetimes(draw: st.DrawFn) -> list[Lifetime]:
    found = []
    for _ in range(draw(st.integers(1, 40))):
        start = draw(st.integers(0, 60))
        found.append(Lifetime(draw(st.integers(1, 50)) * 64, start, start + draw(st.integers(0, 12))))
    return found


def overlaps(a: Lifetime, b: Lifetime) -> bool:
    return a.start <= b.end and b.start <= a.end


@settings(max_examples=150, deadline=None)
@given(lifetimes())
def test_buffers_in_use_together_do_not_overlap(buffers: list[Lifetime]) -> None:
    plan = plan_offsets(buffers)
    assert plan.peak == max(offset + buffer.size for offset, buffer in zip(plan.offsets, buffers, strict=True))
    assert (
        plan.bound
        == max(sum(b.size for b in buffers if b.start <= point <= b.end) for point in range(80))
        == lower_bound(buffers)
    )
    for i, a in enumerate(buffers):
        assert plan.offsets[i] >= 0
        assert plan.offsets[i] % 64 == 0
        for j, b in enumerate(buffers[:i]):
            if overlaps(a, b):
                disjoint = plan.offsets[i] >= plan.offsets[j] + b.size or plan.offsets[j] >= plan.offsets[i] + a.size
                assert disjoint, (a, b)


@settings(max_examples=150, deadline=None)
@given(lifetimes())
def test_random_lifetimes_cost_little_more_than_the_bound(buffers: list[Lifetime]) -> None:
    plan = plan_offsets(buffers)
    assert plan.bound <= plan.peak <= 1.35 * plan.bound


def test_a_chain_of_layers_reaches_the_bound() -> None:
    chain = [Lifetime(size * 64, step, step + 1) for step, size in enumerate([6, 24, 6, 18, 6, 24, 6, 18] * 20)]
    assert plan_offsets(chain).ratio == 1.0


def test_layers_with_residuals_stay_near_the_bound() -> None:
    generator = random.Random(7)
    buffers = []
    for layer in range(60):
        start = layer * 8
        buffers.append(Lifetime(6 * 64, start, start + 8))
        buffers += [
            Lifetime(
                generator.choice([6, 6, 6, 18, 24, 96]) * 64,
                start + step,
                start + step + generator.choice([1, 1, 2, 3]),
            )
            for step in range(8)
        ]
    assert plan_offsets(buffers).ratio <= 1.15
