"""Naming what exists when a name is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def listing(names: Iterable[str]) -> str:
    """Names for a message."""
    return ", ".join(sorted(map(str, names))) or "none"


def nearest(name: str, names: Iterable[str]) -> str:
    """A question with the nearest names, or nothing."""
    lowered = {str(other).lower(): str(other) for other in names}
    matches = [lowered[match] for match in get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)]
    return f"did you mean {' or '.join(repr(match) for match in matches)}?" if matches else ""
