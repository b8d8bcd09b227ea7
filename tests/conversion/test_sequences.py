"""Sequences and optionals that the compiler can follow, and how it refuses what it cannot."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import hip_compiler
from tests.conversion.oracle import build, integer, numbers, same_as_onnxruntime


def test_parts_of_a_tensor_are_put_together_in_another_order() -> None:
    graph = """
    g (float[N, 6] x) => (float[N, 6] y, int64 n) {
        size = Constant <value_int = 2> ()
        two = Constant <value_int = -1> ()
        zero = Constant <value_int = 0> ()
        parts = SplitToSequence <axis = 1> (x, size)
        last = SequenceAt (parts, two)
        rest = SequenceErase (parts, two)
        turned = SequenceInsert (rest, last, zero)
        y = ConcatFromSequence <axis = -1> (turned)
        n = SequenceLength (turned)
    }
    """
    same_as_onnxruntime(graph, [{"x": numbers(12).reshape(2, 6)}, {"x": numbers(18).reshape(3, 6)}])


def test_rows_are_stacked_along_a_new_axis() -> None:
    graph = """
    g (float[3, 2] x) => (y) {
        rows = SplitToSequence <axis = 0, keepdims = 0> (x)
        y = ConcatFromSequence <axis = -1, new_axis = 1> (rows)
    }
    """
    with hip_compiler.compile(build(graph)) as session:
        x = numbers(6).reshape(3, 2)
        np.testing.assert_array_equal(session.run({"x": x})["y"], x.T)


def test_an_uneven_split_leaves_a_smaller_part() -> None:
    graph = """
    g (float[5] x) => (float[?] y) {
        size = Constant <value_int = 2> ()
        at = Constant <value_int = 2> ()
        parts = SplitToSequence (x, size)
        y = SequenceAt (parts, at)
    }
    """
    same_as_onnxruntime(graph, [{"x": numbers(5)}])


def test_a_subgraph_maps_over_a_sequence() -> None:
    graph = """
    g (float[4] x, float[1] z) => (float[4] y) {
        size = Constant <value_int = 2> ()
        parts = SplitToSequence (x, size)
        sums = SequenceMap <body = b (float[2] a, float[1] c) => (float[2] s) { s = Add (a, c) }> (parts, z)
        y = ConcatFromSequence <axis = 0> (sums)
    }
    """
    feeds = {"x": numbers(4), "z": numbers(1, 10)}
    with hip_compiler.compile(build(graph)) as session:
        np.testing.assert_array_equal(session.run(feeds)["y"], feeds["x"] + feeds["z"])


def test_optionals_are_followed() -> None:
    graph = """
    g (float[2] x) => (float[2] y, bool some, bool none) {
        full = Optional (x)
        empty = Optional <type = float[2]> ()
        some = OptionalHasElement (full)
        none = OptionalHasElement (empty)
        y = OptionalGetElement (full)
    }
    """
    with hip_compiler.compile(build(graph, opset=18)) as session:
        found = session.run({"x": numbers(2)})
    assert bool(found["some"]) and not bool(found["none"])
    np.testing.assert_array_equal(found["y"], numbers(2))


REFUSED = {
    "outside": (
        "g (float[2] x) => (float[2] y) { i = Constant <value_int = 2> ()\n s = SequenceConstruct (x, x)\n"
        "y = SequenceAt (s, i) }",
        "position 2 of a sequence of 2",
    ),
    "sizes": (
        "g (float[N] x) => (seq(float[K]) s) { i = Constant <value_ints = [4, -1]> ()\n s = SplitToSequence (x, i) }",
        "a part of -1",
    ),
    "element type": (
        "g (float[N] x) => (seq(float[N]) t) { s = SequenceEmpty <dtype = 7> ()\n t = SequenceInsert (s, x) }",
        "a tensor of float into a sequence of int64",
    ),
    "input": (
        "g (seq(complex64[N]) s) => (int64 n) { n = SequenceLength (s) }",
        "complex numbers have no kernels",
    ),
    "operator": ("g (seq(float[N]) s) => (float[N] y) { y = Neg (s) }", "an input is a sequence or an optional"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_followed_is_refused_with_the_reason(name: str) -> None:
    graph, reason = REFUSED[name]
    with pytest.raises(hip_compiler.UnsupportedError, match=reason):
        hip_compiler.compile(build(graph))


def test_an_empty_optional_is_an_output() -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    node = helper.make_node("Optional", [], ["o"], type=helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    graph = helper.make_graph([node], "g", [], [helper.make_value_info("o", kind)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with hip_compiler.compile(model) as session:
        assert session.run({}) == {"o": None}


def test_a_branch_that_is_known_may_give_a_sequence() -> None:
    graph = """
    g (float[2] x) => (int64 n) {
        c = Constant <value_ints = [1]> ()
        yes = Cast <to = 9> (c)
        s = If (yes) <then_branch = t () => (seq(float[2]) a) { a = SequenceConstruct (x, x) },
                      else_branch = e () => (seq(float[2]) b) { b = SequenceConstruct (x) }>
        n = SequenceLength (s)
    }
    """
    with hip_compiler.compile(build(graph)) as session:
        assert session.run({"x": numbers(2)})["n"] == integer(2)
