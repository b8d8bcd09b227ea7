"""Offsets for buffers with known lifetimes in one block of memory. Pure numbers: no IR.

Packing is NP-hard (it is dynamic storage allocation); several greedy orders are tried, then orders derived from the
best one by putting first what stands in its way, and the smallest result is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ROUNDS = 30
"""Attempts to improve on the best greedy order while it is above the lower bound."""


@dataclass(frozen=True)
class Lifetime:
    """One buffer: a size in units, and the first and last program point at which it is in use (both included)."""

    size: int
    start: int
    end: int


@dataclass(frozen=True)
class Plan:
    """Where every buffer goes.

    Attributes:
        offsets: in units, by buffer.
        peak: end of the highest buffer.
        bound: most units in use at one program point; no plan can do with less.
    """

    offsets: tuple[int, ...]
    peak: int
    bound: int

    @property
    def ratio(self) -> float:
        return self.peak / self.bound if self.bound else 1.0


def plan_offsets(lifetimes: Sequence[Lifetime]) -> Plan:
    """Offsets such that no two buffers in use at the same time overlap."""
    bound = lower_bound(lifetimes)
    neighbours = _neighbours(lifetimes)
    numbers = range(len(lifetimes))
    orders = (
        sorted(numbers, key=lambda n: (-lifetimes[n].size, lifetimes[n].start)),
        sorted(numbers, key=lambda n: (lifetimes[n].start - lifetimes[n].end, -lifetimes[n].size)),
        sorted(numbers, key=lambda n: -lifetimes[n].size * (lifetimes[n].end - lifetimes[n].start + 1)),
        sorted(numbers, key=lambda n: (lifetimes[n].start, -lifetimes[n].size)),
    )
    best: Plan | None = None
    best_order: list[int] = []
    for order in orders:
        for tight in (False, True):
            plan = Plan(*_place(lifetimes, neighbours, order, tight), bound)
            if best is None or plan.peak < best.peak:
                best, best_order = plan, list(order)
            if best.peak == bound:
                return best
    assert best is not None
    return _improve(lifetimes, neighbours, best, best_order)


def lower_bound(lifetimes: Sequence[Lifetime]) -> int:
    """Most units in use at one program point."""
    changes: dict[int, int] = {}
    for lifetime in lifetimes:
        changes[lifetime.start] = changes.get(lifetime.start, 0) + lifetime.size
        changes[lifetime.end + 1] = changes.get(lifetime.end + 1, 0) - lifetime.size
    used = peak = 0
    for point in sorted(changes):
        used += changes[point]
        peak = max(peak, used)
    return peak


def _improve(lifetimes: Sequence[Lifetime], neighbours: list[list[int]], best: Plan, order: list[int]) -> Plan:
    for _ in range(ROUNDS):
        # Whatever reaches the peak came too late to find a low place: place it earlier.
        highest = [n for n in order if best.offsets[n] + lifetimes[n].size == best.peak]
        order = highest + [n for n in order if n not in highest]
        for tight in (False, True):
            plan = Plan(*_place(lifetimes, neighbours, order, tight), best.bound)
            if plan.peak < best.peak:
                best = plan
        if best.peak == best.bound:
            break
    return best


def _neighbours(lifetimes: Sequence[Lifetime]) -> list[list[int]]:
    """For every buffer, those in use at the same time as it."""
    found: list[list[int]] = [[] for _ in lifetimes]
    alive: list[int] = []
    for number in sorted(range(len(lifetimes)), key=lambda n: lifetimes[n].start):
        alive = [other for other in alive if lifetimes[other].end >= lifetimes[number].start]
        for other in alive:
            found[number].append(other)
            found[other].append(number)
        alive.append(number)
    return found


def _place(
    lifetimes: Sequence[Lifetime], neighbours: list[list[int]], order: Sequence[int], tight: bool
) -> tuple[tuple[int, ...], int]:
    """Place in order: in the lowest gap that fits, or (`tight`) in the smallest one."""
    offsets = [-1] * len(lifetimes)
    peak = 0
    for number in order:
        size = lifetimes[number].size
        taken = sorted(
            (offsets[other], offsets[other] + lifetimes[other].size)
            for other in neighbours[number]
            if offsets[other] >= 0
        )
        offset, smallest, top = -1, 0, 0
        for low, high in taken:
            gap = low - top
            if gap >= size and (offset < 0 or gap < smallest):
                offset, smallest = top, gap
                if not tight:
                    break
            top = max(top, high)
        offsets[number] = top if offset < 0 else offset
        peak = max(peak, offsets[number] + size)
    return tuple(offsets), peak
