"""Operators that move elements, over drawn extents and positions of both signs, against ONNX's reference evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.drawing import budget, extents, floats, part, same, same_as_reference, session

shapes = st.tuples(extents, extents, extents)
seeds = st.integers(0, 2**31)
some = extents.filter(bool)


@budget(30)
@given(shape=shapes, seed=seeds, data=st.data())
def test_slices_with_run_time_bounds_and_steps(shape: tuple[int, int, int], seed: int, data: st.DataObject) -> None:
    text = """g (float[A,B,C] x, int64[2] starts, int64[2] ends, int64[2] steps) => (float[P,B,Q] y) {
        axes = Constant <value_ints = [0, -1]> ()
        y = Slice (x, starts, ends, axes, steps)
    }"""
    bound, step = st.integers(-20, 20), st.sampled_from((-3, -2, -1, 1, 2, 3))
    drawn = {
        name: np.array([data.draw(kind), data.draw(kind)], np.int64)
        for name, kind in (("starts", bound), ("ends", bound), ("steps", step))
    }
    x, (first, last) = floats(shape, seed), zip(*drawn.values(), strict=True)
    wanted = x[part(shape[0], *map(int, first)), :, part(shape[2], *map(int, last))]
    same(session(text).run({"x": x, **drawn})["y"], wanted, "Slice")


@budget(24)
@given(shape=st.tuples(some, some, extents), seed=seeds, count=extents)
def test_gathers_with_positions_from_the_end(shape: tuple[int, int, int], seed: int, count: int) -> None:
    text = """g (float[A,B,C] x, int64[N] at, int64[A,M,C] each) => (float[A,N,C] y, float[A,M,C] z, float[N,B,C] w) {
        minus = Constant <value_ints = [-1]> ()
        y = Gather <axis = -2> (x, at)
        z = GatherElements <axis = 1> (x, each)
        zero = Constant <value_ints = [0]> ()
        rows = Mul (at, zero)
        column = Unsqueeze (rows, minus)
        w = GatherND (x, column)
    }"""
    rng = np.random.default_rng(seed)
    at = rng.integers(-shape[1], shape[1], count)
    each = rng.integers(-shape[1], shape[1], (shape[0], count, shape[2]))
    same_as_reference(text, {"x": floats(shape, seed), "at": at, "each": each})


@budget(24)
@given(shape=st.tuples(some, some), seed=seeds, count=st.integers(0, 3))
def test_scatters(shape: tuple[int, int], seed: int, count: int) -> None:
    text = """g (float[A,B] x, int64[A,N] at, float[A,N] u) => (float[A,B] y, float[A,B] z) {
        y = ScatterElements <axis = -1> (x, at, u)
        z = ScatterElements <axis = 1, reduction = "add"> (x, at, u)
    }"""
    rng, count = np.random.default_rng(seed), min(count, shape[1])
    at = np.stack([rng.permutation(shape[1])[:count] for _ in range(shape[0])]) - shape[1] * rng.integers(0, 2)
    updates = floats((shape[0], count), seed + 1, special=False)
    same_as_reference(text, {"x": floats(shape, seed, special=False), "at": at.astype(np.int64), "u": updates})


@budget(24)
@given(shape=shapes, seed=seeds, repeats=st.tuples(*[st.integers(0, 3)] * 3))
def test_copies(shape: tuple[int, int, int], seed: int, repeats: tuple[int, int, int]) -> None:
    text = """g (float[A,B,C] x, float[A,D,C] other, int64[3] r) => (
            float[P,Q,R] tiled, float[C,A,B] turned, float[A,E,C] joined, float[S] flat, float[A,1,B,C] wide) {
        tiled = Tile (x, r)
        turned = Transpose <perm = [2, 0, 1]> (x)
        joined = Concat <axis = -2> (x, other, x)
        all = Constant <value_ints = [-1]> ()
        flat = Reshape (x, all)
        two = Constant <value_ints = [-3]> ()
        wide = Unsqueeze (x, two)
    }"""
    other = floats((shape[0], 2, shape[2]), seed + 1)
    same_as_reference(text, {"x": floats(shape, seed), "other": other, "r": np.array(repeats, np.int64)})


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pads(mode: str) -> None:
    text = f"""g (float[A,B] x, int64[4] p) => (float[P,Q] y) {{ y = Pad <mode = "{mode}"> (x, p) }}"""

    @budget(16)
    @given(shape=st.tuples(some, some), seed=seeds, data=st.data())
    def holds(shape: tuple[int, int], seed: int, data: st.DataObject) -> None:
        # A reflection does not repeat the edge; wrapping by less than the extent is one NumPy and ONNX agree on.
        limits = [extent - 1 if mode in ("reflect", "wrap") else 4 for extent in shape]
        pads = [data.draw(st.integers(0, min(limit, 4))) for limit in (*limits, *limits)]
        same_as_reference(text, {"x": floats(shape, seed), "p": np.array(pads, np.int64)})

    holds()


@budget(24)
@given(shape=st.tuples(extents, extents), seed=seeds, target=extents)
def test_expansion_and_choice(shape: tuple[int, int], seed: int, target: int) -> None:
    text = """g (float[A,1] x, bool[A,B] c, float[B] z, int64[2] s) => (float[P,Q] y, float[A,B] w) {
        y = Expand (x, s)
        w = Where (c, x, z)
    }"""
    rng = np.random.default_rng(seed)
    feeds = {
        "x": floats((shape[0], 1), seed),
        "c": rng.random(shape) < 0.5,
        "z": floats((shape[1],), seed + 1),
        "s": np.array([1, target], np.int64),
    }
    same_as_reference(text, feeds)


@budget(20)
@given(shape=st.tuples(some, some), seed=seeds, exclusive=st.booleans(), reverse=st.booleans())
def test_running_sums(shape: tuple[int, int], seed: int, exclusive: bool, reverse: bool) -> None:
    text = f"""g (float[A,B] x) => (float[A,B] y) {{
        axis = Constant <value_int = -1> ()
        y = CumSum <exclusive = {int(exclusive)}, reverse = {int(reverse)}> (x, axis)
    }}"""
    same_as_reference(text, {"x": np.round(floats(shape, seed, special=False))})


@budget(20)
@given(shape=st.tuples(extents, some), seed=seeds, data=st.data())
def test_the_largest_in_order(shape: tuple[int, int], seed: int, data: st.DataObject) -> None:
    text = """g (float[A,B] x, int64[1] k) => (float[A,K] y, int64[A,K] at) { y, at = TopK <axis = -1> (x, k) }"""
    count = data.draw(st.integers(0, shape[1]))
    x = floats(shape, seed, special=False)
    same_as_reference(text, {"x": x, "k": np.array([count], np.int64)})
