"""Numbers that a run reads and that make an extent negative: an error with the node's name, and no memory harmed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hip_compiler
from hip_compiler.errors import HipCompilerError
from tests.conversion.oracle import build, integer, numbers

ONES = np.ones((1, 1, 3, 3), np.float32)

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    # What the graph returns is never the tensor of a negative extent: its size alone would be a wrong number.
    "ConstantOfShape": ("g (int64[2] v) => (int64 n) { y = ConstantOfShape (v)\n n = Size (y) }", {"v": [2, -3]}),
    "Expand": ("g (float[1] x, int64[2] v) => (int64 n) { y = Expand (x, v)\n n = Size (y) }",
               {"x": numbers(1), "v": [2, -3]}),
    "Tile": ("g (float[3] x, int64[1] v) => (int64 n) { y = Tile (x, v)\n n = Size (y) }",
             {"x": numbers(3), "v": [-2]}),
    "Reshape": ("g (float[N] x, int64[2] v) => (int64[2] n) { y = Reshape (x, v)\n n = Shape (y) }",
                {"x": numbers(6), "v": [-2, -3]}),
    "OneHot": ("g (int64[N] x, int64 v, float[2] w) => (int64 n) { y = OneHot (x, v, w)\n n = Size (y) }",
               {"x": np.arange(3), "v": -2, "w": numbers(2)}),
    "TopK": ("g (float[N] x, int64[1] v) => (int64 n) { y, i = TopK (x, v)\n n = Size (y) }",
             {"x": numbers(6), "v": [-2]}),
    "Pad": ("g (float[N] x, int64[2] v) => (int64 n) { y = Pad (x, v)\n n = Size (y) }",
            {"x": numbers(3), "v": [-2, -3]}),
    "Resize": ("g (float[1, 1, N, N] x, int64[4] v) => (int64 n) { y = Resize (x, , , v)\n n = Size (y) }",
               {"x": ONES, "v": [1, 1, -2, 3]}),
    "Split": ("g (float[N] x, int64[2] v) => (int64 n) { y, z = Split <axis = 0> (x, v)\n n = Size (z) }",
              {"x": numbers(3), "v": [4, -1]}),
    # This one had its place before the beginning of the arena.
    "MaxUnpool": (
        "g (float[1, 1, 2, 2] x, int64[1, 1, 2, 2] i, int64[4] v) => (float[A, B, C, D] y) {\n"
        "z = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (x, i, v)\n y = Neg (z) }",
        {"x": numbers(4).reshape(1, 1, 2, 2), "i": np.arange(4).reshape(1, 1, 2, 2), "v": [1, 1, -4, 4]},
    ),
}  # fmt: skip


def test_a_divisor_of_an_extent_may_be_zero() -> None:
    """The division is done before the operator refuses the block, and must not trap."""
    graph = (
        "g (float[1, 4, N] x, int64[2] size, int64[2] block) => (float[A, B, C, D] y) { y = Col2Im (x, size, block) }"
    )
    with hip_compiler.compile(build(graph, 18)) as session:
        feeds = {"x": np.ones((1, 4, 4), np.float32), "size": np.array([3, 3])}
        assert session.run({**feeds, "block": np.array([2, 2])})["y"].shape == (1, 1, 3, 3)
        for block in ([0, 2], [-1, -(2**63)]):
            with pytest.raises(HipCompilerError, match=r"must be positive|negative"):
                session.run({**feeds, "block": np.array(block)})


@pytest.mark.parametrize("name", CASES)
def test_a_negative_extent_is_an_error_of_the_run(name: str) -> None:
    graph, feeds = CASES[name]
    with hip_compiler.compile(build(graph, 19)) as session:
        for _ in range(3):
            with pytest.raises(HipCompilerError, match=r"negative|smaller than") as caught:
                session.run(feeds)
            assert caught.value.code == "HIPC0701"


def test_a_range_that_ends_before_it_begins_is_empty() -> None:
    graph = "g (int64 v) => (int64[A] y) { z = Constant <value_int = 0> ()\n o = Constant <value_int = 1> ()\n"
    with hip_compiler.compile(build(graph + "y = Range (z, v, o) }")) as session:
        assert session.run({"v": integer(-3)})["y"].shape == (0,)
        assert session.run({"v": integer(2)})["y"].tolist() == [0, 1]


def test_equal_parts_that_leave_less_than_nothing_are_refused() -> None:
    graph = "g (float[{n}] x) => (float[A] a, float[B] b, float[C] c, float[D] d) {{\n"
    graph += "a, b, c, d = Split <axis = 0, num_outputs = 4> (x) }}"
    with pytest.raises(hip_compiler.UnsupportedError, match="a part of -1"):
        hip_compiler.compile(build(graph.format(n=5), 18))
    with hip_compiler.compile(build(graph.format(n="N"), 18)) as session:
        assert [session.run({"x": numbers(6)})[name].size for name in "abcd"] == [2, 2, 2, 0]
        with pytest.raises(HipCompilerError, match="the size of a part is negative"):
            session.run({"x": numbers(5)})
