"""Naming what exists when a name is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

ENOUGH = 0.6
"""Least similarity of a name worth offering."""
TIE = 0.05
"""Names this close to the best one are offered beside it."""


def listing(names: Iterable[str]) -> str:
    """Names for a message."""
    return ", ".join(sorted(map(str, names))) or "none"


def nearest(name: str, names: Iterable[str]) -> str:
    """A question with the nearest names, or nothing."""
    wanted = name.lower()
    ratios = {str(other): SequenceMatcher(None, wanted, str(other).lower()).ratio() for other in names}
    best = max(ratios.values(), default=0.0)
    if best < ENOUGH:
        return ""
    close = sorted((other for other in ratios if ratios[other] >= best - TIE), key=lambda other: -ratios[other])
    return f"did you mean {' or '.join(repr(other) for other in close[:3])}?"
