from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime import programs


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    """Path of the small runtime's bitcode."""
    path = tmp_path / "runtime.bc"
    path.write_bytes(programs.bitcode(programs.RUNTIME))
    return path
