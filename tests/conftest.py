"""What holds for every test."""

from __future__ import annotations

import os

import pytest

from tests.kernels.harness import CACHE, share_objects


def pytest_configure(config: pytest.Config) -> None:
    """Before any test, and once: what tests build begins with what the package was built of."""
    if not hasattr(config, "workerinput"):
        share_objects(CACHE)


LEFT_OUT = ("emulated", "llm", "thorough")
"""Marks of tests that run only where `-m` names the mark."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes minutes and was not asked for."""
    marks = [name for name in LEFT_OUT if name not in config.option.markexpr]
    left = [item for item in items if any(item.get_closest_marker(name) for name in marks)]
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]


@pytest.fixture(scope="session", autouse=True)
def reports_of_failures(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests make compilations fail: what is kept of those stays out of the user's cache folder, here and in
    the processes that tests start."""
    os.environ["HIPC_REPRO_DIR"] = str(tmp_path_factory.mktemp("repro"))
