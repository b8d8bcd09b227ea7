"""A fake HIP in the place of the real one, and the choice among the many cases of `test_oracles`."""

from __future__ import annotations

import zlib

import pytest

from tests.gpu_runtime.conftest import fake_library, make_hip

__all__ = ["fake_library", "make_hip"]

SHARE = 8


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One case in eight runs by default, always the same ones; the others are marked `emulated`."""
    for item in items:
        if item.path.name == "test_oracles.py" and zlib.crc32(item.name.encode()) % SHARE:
            item.add_marker(pytest.mark.emulated)
