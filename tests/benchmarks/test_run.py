"""How far two engines' outputs are apart."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.run import difference


def test_difference_is_relative_to_the_output() -> None:
    theirs = {"y": np.array([100.0, 0.0], np.float32), "n": np.array([7])}
    assert difference(theirs, theirs) == 0
    ours = {"y": np.array([100.0, 1.0], np.float32), "n": np.array([7])}
    assert difference(ours, theirs) == pytest.approx(0.01)


def test_difference_agrees_on_what_is_not_finite() -> None:
    theirs = {"y": np.array([1.0, np.nan, np.inf])}
    assert difference({"y": np.array([1.0, np.nan, np.inf])}, theirs) == 0
    assert difference({"y": np.array([1.0, 2.0, np.inf])}, theirs) == np.inf
    assert difference({"y": np.array([np.nan, np.nan, np.inf])}, theirs) == np.inf
    assert difference({"y": np.array([1.0, np.nan, 3.0])}, theirs) == np.inf


@pytest.mark.parametrize("ours", [{}, {"y": np.zeros((1, 2))}, {"y": np.zeros(2, np.float32)}, {"z": np.zeros(2)}])
def test_another_interface_is_infinitely_far(ours: dict[str, np.ndarray]) -> None:
    assert difference(ours, {"y": np.zeros(2)}) == np.inf
