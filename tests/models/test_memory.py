"""What a run may allocate: the planned arena at the first run, nothing at a second one with the same shapes."""

from __future__ import annotations

import numpy as np
import pytest

from hip_compiler.core.driver import compile_model
from hip_compiler.core.options import CompileOptions
from hip_compiler.runtime import Session
from tests.models import find
from tests.models.weights import with_random_weights

BOUND = 1.15
"""Largest allowed quotient of the planned arena and the most bytes that are alive at one time."""


@pytest.mark.parametrize("key", ["light_squeezenet", "light_shufflenet", "light_resnet50"])
def test_the_arena_of_a_static_model_is_close_to_the_bound(key: str) -> None:
    compiled = compile_model(with_random_weights(find(key).path()), CompileOptions())
    static = compiled.report.arena["functions"]["main_graph"]["static"]
    assert static["bound"] > 0
    assert static["bound"] <= static["peak"] <= BOUND * static["bound"]


@pytest.mark.models
def test_a_second_run_with_the_same_shapes_allocates_nothing() -> None:
    model = find("minilm_l3")
    session = Session(compile_model(model.path(), CompileOptions()).artifact, num_threads=2)
    feeds = model.feeds(0)
    first = session.run(feeds)
    held, resident = session.arena_bytes, _resident_bytes()
    for _ in range(20):
        again = session.run(feeds)
        assert session.arena_bytes == held
    for name, value in first.items():
        np.testing.assert_array_equal(again[name], value)
    outputs = sum(value.nbytes for value in first.values())
    # Outputs are fresh arrays: the process may hold a few of them, and nothing else.
    assert _resident_bytes() - resident < 8 * outputs + 2**20


def test_trim_gives_the_arena_back_and_a_run_takes_it_again() -> None:
    model = find("light_squeezenet")
    proto = with_random_weights(model.path())
    session = Session(compile_model(proto, CompileOptions()).artifact)
    feeds = model.feeds()
    before = session.run(feeds)
    held = session.arena_bytes
    assert held > 0
    session.trim()
    assert session.arena_bytes == 0
    for name, value in session.run(feeds).items():
        np.testing.assert_array_equal(value, before[name])
    assert session.arena_bytes == held


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096
