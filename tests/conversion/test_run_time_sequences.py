"""Sequences and optionals of which only run time knows what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import hip_compiler
from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime import Session
from tests.conversion.oracle import build, flag, integer, numbers

A, B, C = numbers(3), numbers(2, 10), numbers(4, 20)
TABLES = [numbers(6).reshape(2, 3), numbers(9, 10).reshape(3, 3), numbers(3, 30).reshape(1, 3)]
WIDE = [numbers(6).reshape(2, 3), numbers(2, 10).reshape(2, 1), numbers(4, 30).reshape(2, 2)]
EQUAL = [numbers(6).reshape(2, 3), numbers(6, 10).reshape(2, 3)]


@dataclass(frozen=True)
class Case:
    """A graph and feeds for which ONNX Runtime gives the reference."""

    graph: str
    feeds: tuple[dict[str, Any], ...]
    opset: int = 17


def _at(positions: tuple[int, ...], **others: Any) -> tuple[dict[str, Any], ...]:
    return tuple({"at": integer(position), **others} for position in positions)


CASES = {
    "insert at a position": Case(
        "g (seq(float[N]) s, float[M] x, int64 at) => (seq(float[K]) t) { t = SequenceInsert (s, x, at) }",
        (*_at((0, 1, 2, -1, -2), s=[A, B], x=C), *_at((0,), s=[], x=C), *_at((0,), s=[A[:0]], x=C[:0])),
    ),
    "insert at the end": Case(
        "g (seq(float[N]) s, float[M] x) => (seq(float[K]) t, int64 n) {\n"
        "t = SequenceInsert (s, x)\n n = SequenceLength (t) }",
        ({"s": [], "x": A}, {"s": [A, B], "x": C}),
    ),
    "erase": Case(
        "g (seq(float[N]) s, int64 at) => (seq(float[K]) t) { t = SequenceErase (s, at) }",
        (*_at((0, 1, 2, -1, -3), s=[A, B, C]), *_at((0,), s=[A])),
    ),
    "erase the last": Case(
        "g (seq(float[N]) s) => (seq(float[K]) t) { t = SequenceErase (s) }", ({"s": [A, B, C]}, {"s": [A]})
    ),
    "at": Case(
        "g (seq(float[N, 3]) s, int64 at) => (float[K, 3] y) { y = SequenceAt (s, at) }",
        _at((0, 1, 2, -1, -3), s=TABLES),
    ),
    "at, of scalars": Case(
        "g (seq(float) s, int64 at) => (float y) { y = SequenceAt (s, at) }",
        _at((0, 1), s=[np.asarray(3, np.float32), np.asarray(4, np.float32)]),
    ),
    "at, of tensors known one by one": Case(
        "g (float[N, 3] x, float[M, 3] z, int64 at) => (float[K, 3] y) {\n"
        "s = SequenceConstruct (x, z, x)\n y = SequenceAt (s, at) }",
        _at((0, 1, -1), x=TABLES[0], z=TABLES[1]),
    ),
    "length": Case("g (seq(float[]) s) => (int64 n) { n = SequenceLength (s) }", ({"s": []}, {"s": [A, TABLES[0], B]})),
    "concat along the first axis": Case(
        "g (seq(float[N, 3]) s) => (float[K, 3] y) { y = ConcatFromSequence <axis = 0> (s) }",
        ({"s": TABLES}, {"s": TABLES[:1]}, {"s": [TABLES[0][:0], TABLES[1]]}),
    ),
    "concat along the last axis": Case(
        "g (seq(float[2, N]) s) => (float[2, K] y) { y = ConcatFromSequence <axis = -1> (s) }",
        ({"s": WIDE}, {"s": WIDE[:1]}),
    ),
    "stack along a first axis": Case(
        "g (seq(float[N, M]) s) => (float[K, N, M] y) { y = ConcatFromSequence <axis = 0, new_axis = 1> (s) }",
        ({"s": EQUAL}, {"s": EQUAL[:1]}),
    ),
    "stack along a last axis": Case(
        "g (seq(float[N, M]) s) => (float[N, M, K] y) { y = ConcatFromSequence <axis = -1, new_axis = 1> (s) }",
        ({"s": EQUAL}, {"s": EQUAL[:1]}),
    ),
    "split by a size": Case(
        "g (float[N, M] x, int64 size) => (seq(float[K, M]) s) { s = SplitToSequence (x, size) }",
        tuple({"x": numbers(10).reshape(5, 2), "size": integer(size)} for size in (1, 2, 5, 7)),
    ),
    "split a later axis by a size": Case(
        "g (float[N, M] x, int64 size) => (seq(float[N, K]) s) { s = SplitToSequence <axis = 1> (x, size) }",
        tuple({"x": numbers(10).reshape(2, 5), "size": integer(size)} for size in (1, 2, 5, 7)),
    ),
    "split by sizes": Case(
        "g (float[N, M] x, int64[P] sizes) => (seq(float[N, K]) s) { s = SplitToSequence <axis = 1> (x, sizes) }",
        tuple({"x": numbers(10).reshape(2, 5), "sizes": np.array(sizes)} for sizes in ([5], [1, 4], [2, 0, 3])),
    ),
    "split by two sizes": Case(
        "g (float[N] x, int64[2] sizes) => (seq(float[K]) s) { s = SplitToSequence (x, sizes) }",
        ({"x": A, "sizes": np.array([1, 2])}, {"x": B, "sizes": np.array([2, 0])}),
    ),
    "split an unknown extent": Case(
        "g (float[N, M] x) => (seq(float[N]) s) { s = SplitToSequence <axis = 1, keepdims = 0> (x) }",
        ({"x": numbers(10).reshape(2, 5)}, {"x": numbers(2).reshape(2, 1)}),
    ),
    "a loop that collects": Case(
        """g (int64 M, float[N] x) => (seq(float[K]) s, float[P] y) {
          empty = SequenceEmpty()
          s = Loop (M, , empty) <body = b (int64 i, bool go, seq(float[K]) a) => (bool on, seq(float[K]) next) {
            on = Identity(go)
            factor = Cast <to = 1> (i)
            scaled = Mul (x, factor)
            next = SequenceInsert(a, scaled) }>
          y = ConcatFromSequence <axis = 0> (s)
        }""",
        ({"M": integer(3), "x": A}, {"M": integer(1), "x": B}),
    ),
    "a loop that ends early": Case(
        """g (seq(float[N]) s, int64 most) => (seq(float[N]) left, int64[K] lengths) {
          M = Constant <value = int64 {100}> ()
          go = Constant <value = bool {1}> ()
          left, lengths = Loop (M, go, s)
            <body = b (int64 i, bool c, seq(float[N]) a) => (bool on, seq(float[N]) next, int64 n) {
              next = SequenceErase (a)
              n = SequenceLength (next)
              on = Greater (n, most) }>
        }""",
        ({"s": [A, B, C, A], "most": integer(1)}, {"s": [A, B, C], "most": integer(2)}),
    ),
    "a stack machine": Case(
        """g (seq(float[N]) s) => (float[K] y) {
          n = SequenceLength (s)
          one = Constant <value = int64 {1}> ()
          M = Sub (n, one)
          go = Constant <value = bool {1}> ()
          last = Constant <value = int64 {-1}> ()
          sums = Loop (M, go, s) <body = b (int64 i, bool c, seq(float[N]) a) => (bool on, seq(float[N]) next) {
            on = Identity (c)
            x = SequenceAt (a, last)
            shorter = SequenceErase (a)
            z = SequenceAt (shorter, last)
            rest = SequenceErase (shorter)
            sum = Add (x, z)
            next = SequenceInsert (rest, sum) }>
          first = Constant <value = int64 {0}> ()
          y = SequenceAt (sums, first)
        }""",
        ({"s": [A, A * 2, A * 3]}, {"s": [B]}),
    ),
    "branches of different lengths": Case(
        """g (float[N] x, float[M] z, bool c) => (seq(float[K]) s, int64 n) {
          s = If (c) <then_branch = t () => (seq(float[K]) a) { a = SequenceConstruct (x) },
                      else_branch = e () => (seq(float[K]) b) { b = SequenceConstruct (z, x, z) }>
          n = SequenceLength (s)
        }""",
        ({"x": A, "z": B, "c": flag(True)}, {"x": A, "z": B, "c": flag(False)}),
    ),
    "branches of equal lengths": Case(
        """g (float[N] x, float[M] z, bool c) => (float[K] y) {
          s = If (c) <then_branch = t () => (seq(float[K]) a) { a = SequenceConstruct (x, z) },
                      else_branch = e () => (seq(float[K]) b) { b = SequenceConstruct (z, x) }>
          first = Constant <value = int64 {0}> ()
          y = SequenceAt (s, first)
        }""",
        ({"x": A, "z": B, "c": flag(True)}, {"x": A, "z": B, "c": flag(False)}),
    ),
    "the same sequence twice": Case(
        "g (seq(float[N]) s) => (seq(float[N]) t, seq(float[N]) u) { t = Identity (s)\n u = Identity (s) }",
        ({"s": [A, B]}, {"s": []}),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sequences_equal_those_of_onnxruntime(name: str) -> None:
    case = CASES[name]
    model = build(case.graph, case.opset)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    oracle = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in oracle.get_outputs()]
    with hip_compiler.compile(model) as session:
        for feeds in case.feeds:
            found = session.run(feeds)
            for output, expected in zip(names, oracle.run(names, feeds), strict=True):
                _same(found[output], expected)


def _same(found: Any, expected: Any) -> None:
    if not isinstance(expected, list):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected, strict=True)
        return
    assert isinstance(found, list) and len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


MAPS = """
g (seq(float[N]) s, seq(float[N]) t, float[N] z) => (seq(float[N]) u, seq(int64[1]) v) {
    u, v = SequenceMap <body = b (float[N] a, float[N] c, float[N] d) => (float[N] e, int64[1] f) {
        half = Add (a, c)
        e = Add (half, d)
        f = Shape (a) }> (s, t, z)
}
"""


def test_a_subgraph_maps_over_sequences() -> None:
    with hip_compiler.compile(build(MAPS)) as session:
        found = session.run({"s": [A, A + 1], "t": [A * 2, A * 3], "z": A * 10})
        _same(found["u"], [A + A * 2 + A * 10, A + 1 + A * 3 + A * 10])
        _same(found["v"], [np.array([3]), np.array([3])])
        assert session.run({"s": [], "t": [], "z": A}) == {"u": [], "v": []}
        with pytest.raises(HipCompilerError, match="SequenceMap: sequences of different lengths"):
            session.run({"s": [A], "t": [], "z": A})


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "double", "bfloat16", "int4"])
def test_every_element_type_goes_through(dtype: str) -> None:
    kind = hip_compiler.dtypes.BY_NAME[dtype].numpy
    assert kind is not None
    graph = f"g (seq({dtype}[N]) s, {dtype}[M] x, int64 at) => (seq({dtype}[K]) t) {{ t = SequenceInsert (s, x, at) }}"
    first, second, third = (np.array(row).astype(kind) for row in ([1, 0, 1], [0], [1, 1]))
    with hip_compiler.compile(build(graph, 18)) as session:
        _same(session.run({"s": [first, second], "x": third, "at": integer(1)})["t"], [first, third, second])


def test_a_sequence_may_mix_ranks_until_one_of_its_tensors_is_taken() -> None:
    mixed = [np.asarray(1, np.float32), A, TABLES[0]]
    with hip_compiler.compile(build("g (seq(float[]) s) => (seq(float[]) t) { t = SequenceErase (s) }")) as session:
        _same(session.run({"s": mixed})["t"], [mixed[0], A])
    graph = "g (seq(float[]) s, int64 at) => (float[N] y) { y = SequenceAt (s, at) }"
    with pytest.raises(hip_compiler.UnsupportedError, match="known at run time only; give the sequence a shape"):
        hip_compiler.compile(build(graph))


FAILURES = {
    "at": ("g (seq(float[N]) s, int64 at) => (float[N] y) { y = SequenceAt (s, at) }", 2, "outside of the sequence"),
    "before": ("g (seq(float[N]) s, int64 at) => (float[N] y) { y = SequenceAt (s, at) }", -3, "outside of the seq"),
    "erase": ("g (seq(float[N]) s, int64 at) => (seq(float[N]) y) { y = SequenceErase (s, at) }", 2, "outside of the"),
    "insert": (
        "g (seq(float[N]) s, int64 at) => (seq(float[N]) y) {\n"
        "x = Constant <value_floats = [1.0]> ()\n y = SequenceInsert (s, x, at) }",
        3,
        "outside of the sequence",
    ),
    "stack": (
        "g (seq(float[N]) s, int64 at) => (float[N, M] y) { y = ConcatFromSequence <axis = 0, new_axis = 1> (s)\n"
        "t = SequenceInsert (s, y, at) }",
        0,
        "tensors of a sequence differ in shape",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_does_not_fit_at_run_time_is_an_error(name: str) -> None:
    graph, at, message = FAILURES[name]
    with hip_compiler.compile(build(graph)) as session, pytest.raises(HipCompilerError, match=message):
        session.run({"s": [A, B], "at": integer(at)})


@pytest.mark.parametrize("sizes", [[1, 1], [4], [-1, 4], [4, -1]])
def test_parts_must_be_all_of_a_tensor(sizes: list[int]) -> None:
    graph = "g (float[N] x, int64[M] sizes) => (seq(float[K]) s) { s = SplitToSequence (x, sizes) }"
    with hip_compiler.compile(build(graph)) as session, pytest.raises(HipCompilerError, match="are not all of it"):
        session.run({"x": A, "sizes": np.array(sizes)})


def test_no_tensors_are_not_put_together() -> None:
    graph = "g (seq(float[N]) s) => (float[K] y) { y = ConcatFromSequence <axis = 0> (s) }"
    with (
        hip_compiler.compile(build(graph)) as session,
        pytest.raises(HipCompilerError, match="a sequence of no tensors"),
    ):
        session.run({"s": []})


FEEDS = {
    "a tensor": (
        A,
        "'s' is given a ndarray.*\n.*the model takes s: seq\\(float\\[N, 3\\]\\).*\n.*give a list of arrays",
    ),
    "nothing": (None, "'s' is given nothing"),
    "another element type": ([TABLES[0].astype(np.float64)], "'s\\[0\\]' has element type float64"),
    "another rank": ([TABLES[0], A], "'s\\[1\\]' has rank 1"),
    "another extent": ([TABLES[0], TABLES[0].T], "'s\\[1\\]' of shape \\[3, 2\\]"),
}


@pytest.mark.parametrize("name", FEEDS)
def test_feeds_that_are_no_such_sequence_are_refused(name: str) -> None:
    given, message = FEEDS[name]
    graph = "g (seq(float[N, 3]) s) => (int64 n) { n = SequenceLength (s) }"
    with hip_compiler.compile(build(graph)) as session, pytest.raises(HipCompilerError, match=message):
        session.run({"s": given})


def test_artifacts_keep_the_types(tmp_path: Path) -> None:
    graph = "g (seq(float[N]) s, int64 at) => (float[N] y, seq(float[N]) t) {\n"
    graph += "y = SequenceAt (s, at)\n t = SequenceErase (s, at) }"
    with hip_compiler.compile(build(graph)) as session:
        saved = session.save(tmp_path / "model")
    with Session(saved) as loaded:
        assert [str(info) for info in loaded.inputs] == ["s: seq(float[N])", "at: int64[]"]
        assert [str(info) for info in loaded.outputs][1] == "t: seq(float[N])"
        found = loaded.run({"s": [A, B], "at": integer(1)})
        _same(found["y"], B)
        _same(found["t"], [A])


# ---- optionals ---------------------------------------------------------------------------------------------


def _optional_model(body: str, inputs: list[Any], outputs: list[Any]) -> Any:
    """A model whose interface has optionals, which the text form of ONNX writes; checked for its nodes only."""
    model = build(body, 18)
    del model.graph.input[:], model.graph.output[:]
    model.graph.input.extend(inputs)
    model.graph.output.extend(outputs)
    return model


TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, ["N"])
SEQUENCE = helper.make_sequence_type_proto(TENSOR)
MAYBE, MAYBE_SEQUENCE = helper.make_optional_type_proto(TENSOR), helper.make_optional_type_proto(SEQUENCE)


def test_an_optional_tensor_is_an_array_or_none() -> None:
    model = _optional_model(
        "g () => (some, o) { some = OptionalHasElement (x)\n o = Identity (x) }",
        [helper.make_value_info("x", MAYBE)],
        [helper.make_tensor_value_info("some", TensorProto.BOOL, []), helper.make_value_info("o", MAYBE)],
    )
    with hip_compiler.compile(model) as session:
        assert str(session.inputs[0]) == "x: optional(float[N])"
        found = session.run({"x": A})
        assert found["some"]
        _same(found["o"], A)
        found = session.run({"x": None})
        assert not found["some"] and found["o"] is None


def test_an_optional_sequence_is_a_list_or_none() -> None:
    model = _optional_model(
        "g () => (some, o) { some = OptionalHasElement (x)\n o = Identity (x) }",
        [helper.make_value_info("x", MAYBE_SEQUENCE)],
        [helper.make_tensor_value_info("some", TensorProto.BOOL, []), helper.make_value_info("o", MAYBE_SEQUENCE)],
    )
    with hip_compiler.compile(model) as session:
        assert str(session.inputs[0]) == "x: optional(seq(float[N]))"
        for given in ([A, B], [], None):
            found = session.run({"x": given})
            assert found["some"] == (given is not None)
            if given is None:
                assert found["o"] is None
            else:
                _same(found["o"], given)


def test_what_an_optional_lacks_cannot_be_taken() -> None:
    model = _optional_model(
        "g () => (y) { y = OptionalGetElement (x) }",
        [helper.make_value_info("x", MAYBE)],
        [helper.make_value_info("y", TENSOR)],
    )
    with hip_compiler.compile(model) as session:
        _same(session.run({"x": A})["y"], A)
        with pytest.raises(HipCompilerError, match="the optional is empty"):
            session.run({"x": None})


def test_branches_may_leave_an_optional_empty() -> None:
    graph = """
    g (float[N] x, bool c) => (some, o) {
        o = If (c) <then_branch = t () => (optional(float[N]) a) { a = Optional (x) },
                    else_branch = e () => (optional(float[N]) b) { b = Optional <type = float[N]> () }>
        some = OptionalHasElement (o)
    }
    """
    model = _optional_model(
        graph,
        list(build("g (float[N] x, bool c) => (y) { y = Identity (x) }").graph.input),
        [helper.make_tensor_value_info("some", TensorProto.BOOL, []), helper.make_value_info("o", MAYBE)],
    )
    with hip_compiler.compile(model) as session:
        found = session.run({"x": A, "c": flag(True)})
        assert found["some"]
        _same(found["o"], A)
        found = session.run({"x": A, "c": flag(False)})
        assert not found["some"] and found["o"] is None


def test_a_value_of_two_kinds_is_refused() -> None:
    graph = """
    g (float[N] x, bool c) => (float[N] y) {
        y = If (c) <then_branch = t () => (float[N] a) { a = Identity (x) },
                    else_branch = e () => (seq(float[N]) b) { b = SequenceConstruct (x) }>
    }
    """
    with pytest.raises(hip_compiler.UnsupportedError, match="a tensor in one place, and a sequence"):
        hip_compiler.compile(build(graph))


@pytest.mark.parametrize("side", ["input", "output"])
def test_parts_have_names_of_their_own(side: str) -> None:
    """Else a run would take a tensor of the model for one of a sequence."""
    name = "s.elements" if side == "input" else "t.elements"
    nodes = [helper.make_node("Identity", ["s"], ["t"]), helper.make_node("Neg", [name], ["y"])]
    inputs = [helper.make_value_info("s", SEQUENCE), helper.make_value_info(name, TENSOR)]
    outputs = [helper.make_value_info("t", SEQUENCE), helper.make_value_info("y", TENSOR)]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(hip_compiler.UnsupportedError, match="has this name; rename it"):
        hip_compiler.compile(model)
