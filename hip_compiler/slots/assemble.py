"""Pipeline text from data."""

from __future__ import annotations

from collections.abc import Iterable

from hip_compiler.registry.slot import PipelineSlot

Step = str | PipelineSlot
"""The text of a pass, or a slot."""

SLOT_PREFIX = "slot:"


def pipeline_text(steps: Iterable[Step]) -> str:
    """Text that parses back to the same steps; slots are written `slot:NAME`."""
    return ",".join(f"{SLOT_PREFIX}{step}" if isinstance(step, PipelineSlot) else step for step in steps)
