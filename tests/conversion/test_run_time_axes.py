"""Operators that move elements, with axes, bounds and steps that are data, against NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import hip_compiler
from hip_compiler.runtime import Session
from tests.conversion.models import compiled
from tests.fuzz.drawing import part

FAR = 2**63 - 1
PAIR = ("int64", [2])
X = np.arange(1, 3 * 4 * 5 + 1, dtype=np.float32).reshape(3, 4, 5)


@cache
def slicer() -> Session:
    nodes = [
        helper.make_node("Slice", ["x", "starts", "ends", "axes", "steps"], ["free"]),
        helper.make_node("Slice", ["x", "starts", "ends"], ["leading"]),
    ]
    lists = dict.fromkeys(("starts", "ends", "axes", "steps"), PAIR)
    return compiled(nodes, {"x": ("float", [3, "n", 5]), **lists}, ["free", "leading"])


BOUNDS = st.one_of(st.integers(-8, 8), st.sampled_from([FAR, -FAR - 1]))
STEPS = st.sampled_from([1, 2, 3, -1, -2, FAR, -FAR - 1])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    starts=st.tuples(BOUNDS, BOUNDS),
    ends=st.tuples(BOUNDS, BOUNDS),
    steps=st.tuples(STEPS, STEPS),
    axes=st.permutations([0, 1, 2]),
    back=st.booleans(),
)
def test_slices(
    starts: tuple[int, int], ends: tuple[int, int], steps: tuple[int, int], axes: list[int], back: bool
) -> None:
    named = axes[:2]
    lists = {"starts": starts, "ends": ends, "steps": steps, "axes": [axis - 3 * back for axis in named]}
    results = slicer().run({"x": X, **{name: np.array(values, np.int64) for name, values in lists.items()}})
    window = [slice(None)] * 3
    for axis, start, end, step in zip(named, starts, ends, steps, strict=True):
        window[axis] = part(X.shape[axis], start, end, step)
    np.testing.assert_array_equal(results["free"], X[tuple(window)])
    np.testing.assert_array_equal(results["leading"], X[starts[0] : ends[0], starts[1] : ends[1]])


@pytest.mark.parametrize(("change", "words"), [({"steps": [0, 1]}, "step of 0"), ({"axes": [0, 3]}, "out of range")])
def test_slices_that_cannot_be(change: dict[str, Sequence[int]], words: str) -> None:
    lists = {"starts": [0, 0], "ends": [1, 1], "steps": [1, 1], "axes": [0, 1], **change}
    with pytest.raises(hip_compiler.HipCompilerError, match=words):
        slicer().run({"x": X, **{name: np.array(values) for name, values in lists.items()}})


@cache
def unsqueezer() -> Session:
    return compiled(
        [helper.make_node("Unsqueeze", ["x", "axes"], ["y"])], {"x": ("float", [3, "n", 5]), "axes": PAIR}, ["y"]
    )


@pytest.mark.parametrize("axes", [(0, 1), (3, 1), (4, -3), (-1, -5)])
def test_unsqueeze(axes: tuple[int, int]) -> None:
    y = unsqueezer().run({"x": X, "axes": np.array(axes)})["y"]
    np.testing.assert_array_equal(y, np.expand_dims(X, axes))


def test_unsqueeze_of_one_axis_twice() -> None:
    with pytest.raises(hip_compiler.HipCompilerError, match="given twice"):
        unsqueezer().run({"x": X, "axes": np.array([1, -4])})


@cache
def squeezer() -> Session:
    return compiled(
        [helper.make_node("Squeeze", ["x", "axes"], ["y"])], {"x": ("float", ["a", "b", "c", 1]), "axes": PAIR}, ["y"]
    )


@pytest.mark.parametrize(("shape", "axes"), [((1, 4, 1, 1), (2, 0)), ((1, 4, 5, 1), (-1, 0)), ((3, 1, 1, 1), (1, 2))])
def test_squeeze(shape: tuple[int, ...], axes: tuple[int, int]) -> None:
    x = np.random.default_rng(3).uniform(1, 2, shape).astype(np.float32)
    y = squeezer().run({"x": x, "axes": np.array(axes)})["y"]
    np.testing.assert_array_equal(y, x.squeeze(axes))


def test_squeeze_of_more_than_1() -> None:
    with pytest.raises(hip_compiler.HipCompilerError, match="axis 1, whose extent is not 1"):
        squeezer().run({"x": np.ones((1, 2, 1, 1), np.float32), "axes": np.array([0, 1])})


@cache
def padder() -> Session:
    node = helper.make_node("Pad", ["x", "pads", "", "axes"], ["y"])
    return compiled([node], {"x": ("float", [3, "n", 5]), "pads": ("int64", [4]), "axes": PAIR}, ["y"])


@pytest.mark.parametrize("axes", [(0, 2), (-2, 0), (2, 1)])
def test_pad(axes: tuple[int, int]) -> None:
    y = padder().run({"x": X, "pads": np.array([1, 2, 3, 0]), "axes": np.array(axes)})["y"]
    widths = [(0, 0)] * 3
    widths[axes[0]], widths[axes[1]] = (1, 3), (2, 0)
    np.testing.assert_array_equal(y, np.pad(X, widths))


def test_ranges() -> None:
    dtypes = ("float", "double", "int64", "int32")
    nodes = [helper.make_node("Range", [f"{d}0", f"{d}1", f"{d}2"], [d]) for d in dtypes]
    session = compiled(nodes, {f"{d}{i}": (d, []) for d in dtypes for i in range(3)}, dtypes)
    numpy = {"float": np.float32, "double": np.float64, "int64": np.int64, "int32": np.int32}
    for start, limit, delta in [(1, 10, 3), (10, 1, -3), (5, 5, 1), (-4, 7, 1), (3, 9, -1), (9, -9, -2)]:
        values = (start, limit, delta)
        results = session.run({f"{d}{i}": np.array(values[i], numpy[d]) for d in dtypes for i in range(3)})
        for d in dtypes:
            np.testing.assert_array_equal(results[d], np.arange(start, limit, delta, dtype=numpy[d]))


@pytest.mark.parametrize(("policy", "expected"), [("not_larger", (6, 3)), ("not_smaller", (8, 4))])
def test_resize_keeps_the_aspect_ratio(policy: str, expected: tuple[int, int]) -> None:
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], keep_aspect_ratio_policy=policy, axes=[2, 3])
    session = compiled([node], {"x": ("float", [1, 1, "h", "w"]), "sizes": PAIR}, ["y"])
    x = np.arange(8, dtype=np.float32).reshape(1, 1, 4, 2)
    y = session.run({"x": x, "sizes": np.array([6, 4])})["y"]
    assert y.shape == (1, 1, *expected)
    assert set(y.flat) == set(x.flat)
