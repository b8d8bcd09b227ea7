"""The profile of `make fuzz`: `--hypothesis-profile=fuzz`."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("fuzz", max_examples=2000, deadline=None)
