"""Drawn sequences through operators whose positions only run time knows, against Python's lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hip_compiler.errors import HipCompilerError
from tests.fuzz.drawing import budget, extents, floats, session

NAMES = ("N", "M", "K")
INSERT = "g (seq({t}) s, {t} x, int64 at) => (seq({t}) r) {{ r = SequenceInsert (s, x, at) }}"
APPEND = "g (seq({t}) s, {t} x, int64 at) => (seq({t}) r) {{ r = SequenceInsert (s, x) }}"
ERASE = "g (seq({t}) s, int64 at) => (seq({t}) r) {{ r = SequenceErase (s, at) }}"
AT = "g (seq({t}) s, int64 at) => ({t} r) {{ r = SequenceAt (s, at) }}"


@st.composite
def sequences(draw: st.DrawFn) -> tuple[str, list[np.ndarray], np.ndarray]:
    """The type of the tensors, a sequence of up to four, and one more."""
    rank = draw(st.integers(0, 3))
    count = draw(st.integers(1, 5))
    seed = draw(st.integers(0, 2**31))
    arrays = [floats([draw(extents) for _ in range(rank)], seed + number) for number in range(count)]
    return "float" if rank == 0 else f"float[{', '.join(NAMES[:rank])}]", arrays[1:], arrays[0]


def _same(found: Any, expected: list[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


@budget(10)
@given(drawn=sequences(), at=st.integers(-5, 5))
def test_insertion(drawn: tuple[str, list[np.ndarray], np.ndarray], at: int) -> None:
    kind, arrays, added = drawn
    feeds = {"s": arrays, "x": added, "at": np.asarray(at)}
    _same(session(APPEND.format(t=kind)).run(feeds)["r"], [*arrays, added])
    if not -len(arrays) <= at <= len(arrays):
        with pytest.raises(HipCompilerError, match="outside of the sequence"):
            session(INSERT.format(t=kind)).run(feeds)
        return
    expected = list(arrays)
    expected.insert(at, added)
    _same(session(INSERT.format(t=kind)).run(feeds)["r"], expected)


@budget(10)
@given(drawn=sequences(), at=st.integers(-5, 5))
def test_choice_and_erasure(drawn: tuple[str, list[np.ndarray], np.ndarray], at: int) -> None:
    kind, arrays, _ = drawn
    feeds = {"s": arrays, "at": np.asarray(at)}
    if not -len(arrays) <= at < len(arrays):
        for graph in (AT, ERASE):
            with pytest.raises(HipCompilerError, match="outside of the sequence"):
                session(graph.format(t=kind)).run(feeds)
        return
    _same([session(AT.format(t=kind)).run(feeds)["r"]], [arrays[at]])
    expected = list(arrays)
    del expected[at]
    _same(session(ERASE.format(t=kind)).run(feeds)["r"], expected)


@budget(8)
@given(
    rows=st.integers(0, 9), columns=extents, size=st.integers(-1, 10), axis=st.integers(0, 1), seed=st.integers(0, 99)
)
def test_parts_and_their_whole(rows: int, columns: int, size: int, axis: int, seed: int) -> None:
    graph = f"""g (float[N, M] x, int64 size) => (seq(float[K, L]) s, float[N, M] y) {{
        s = SplitToSequence <axis = {axis}> (x, size)
        y = ConcatFromSequence <axis = {axis}> (s)
    }}"""
    x = floats((rows, columns), seed)
    x = x if axis == 0 else np.ascontiguousarray(x.T)
    feeds = {"x": x, "size": np.asarray(size)}
    if size <= 0 or rows == 0:
        with pytest.raises(HipCompilerError, match="not positive" if size <= 0 else "a sequence of no tensors"):
            session(graph).run(feeds)
        return
    found = session(graph).run(feeds)
    _same(found["s"], np.split(x, range(size, rows, size), axis))
    _same([found["y"]], [x])
