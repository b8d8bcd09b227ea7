"""If: one of two branches, with whatever they read from around them."""

from __future__ import annotations

import numpy as np
import pytest

import hip_compiler
from hip_compiler.errors import HipCompilerError, UnsupportedError
from tests.conversion.oracle import build, flag, integer, numbers, same_as_onnxruntime

BOTH = (True, False)


def test_branches_of_different_extents() -> None:
    same_as_onnxruntime(
        """g (float[N] x, bool c) => (float[M] y) {
          y = If (c) <then_branch = t () => (float[K] a) { a = Add(x, x) },
                      else_branch = e () => (float[K] b) { b = Concat<axis=0>(x, x) }>
        }""",
        [{"x": numbers(size), "c": flag(c)} for size in (1, 3) for c in BOTH],
    )


def test_branches_that_pass_values_on() -> None:
    same_as_onnxruntime(
        """g (float[2,N] x, bool c) => (float[P,Q] y, float[N,2] z) {
          k = Constant<value = float[1,2] {7.0, 8.0}>()
          t = Transpose<perm=[1,0]>(x)
          one = Constant<value = int64[1] {1}>()
          zero = Constant<value = int64[1] {0}>()
          y, z = If (c) <then_branch = t () => (float[A,B] a, float[A2,B2] a2) { a = Identity(x)
                                                                              a2 = Identity(t) },
                         else_branch = e () => (float[A,B] b, float[A2,B2] b2) { b = Slice(x, zero, one, zero)
                                                                              b2 = Sub(t, k) }>
        }""",
        [{"x": numbers(6).reshape(2, 3), "c": flag(c)} for c in BOTH],
    )


def test_nested_branches_read_values_of_every_level() -> None:
    same_as_onnxruntime(
        """g (float[N] x, bool c, bool d) => (float[N] y) {
          y = If (c) <then_branch = t () => (float[N] a) {
              p = Mul(x, x)
              a = If (d) <then_branch = tt () => (float[N] u) { u = Add(p, x) },
                          else_branch = te () => (float[N] v) { q = Exp(p)
                                                             v = Sub(q, x) }> },
            else_branch = e () => (float[N] b) { b = Neg(x) }>
        }""",
        [{"x": numbers(3) / 4, "c": flag(c), "d": flag(d)} for c in BOTH for d in BOTH],
    )


def test_known_conditions_leave_one_branch() -> None:
    # The other branch could not be compiled at all.
    model = build(
        """g (float[N,3] x) => (float[N,3] y) {
          s = Shape<start=1>(x)
          three = Constant<value = int64[1] {3}>()
          c = Equal(s, three)
          y = If (c) <then_branch = t () => (float[N,3] a) { a = Relu(x) },
                      else_branch = e () => (float[N,3] b) { z = SequenceEmpty()
                                                          b = ConcatFromSequence<axis=0>(z) }>
        }"""
    )
    x = numbers(6, -3).reshape(2, 3)
    with hip_compiler.compile(model) as session:
        np.testing.assert_array_equal(session.run({"x": x})["y"], np.maximum(x, 0))


def test_extents_known_outside_stay_known() -> None:
    # The matrix product would need a check at run time if the branches' common extent were lost.
    same_as_onnxruntime(
        """g (float[N,4] x, float[4,2] w, bool c) => (float[N,2] y) {
          h = If (c) <then_branch = t () => (float[N,4] a) { a = Tanh(x) },
                      else_branch = e () => (float[N,4] b) { b = Sigmoid(x) }>
          y = MatMul(h, w)
        }""",
        [{"x": numbers(8).reshape(2, 4), "w": numbers(8).reshape(4, 2), "c": flag(c)} for c in BOTH],
    )


def test_numbers_that_shapes_depend_on() -> None:
    same_as_onnxruntime(
        """g (float[N] x, bool c) => (float[M] y) {
          zero = Constant<value = int64[1] {0}>()
          n = If (c) <then_branch = t () => (int64[1] a) { a = Constant<value = int64[1] {2}>() },
                      else_branch = e () => (int64[1] b) { b = Shape(x) }>
          y = Slice(x, zero, n)
        }""",
        [{"x": numbers(5), "c": flag(c)} for c in BOTH],
    )


SQUEEZE = """g (float[A,N,4] x) => (float[P,Q] y) {
  s = Shape<start=1, end=2>(x)
  one = Constant<value = int64[1] {1}>()
  c = Equal(s, one)
  h = If (c) <then_branch = t () => (float[A,4] a) { a = Squeeze(x, one) },
              else_branch = e () => (float[A,N,4] b) { b = Identity(x) }>
  y = Gemm(h, h)
}"""


def test_rank_that_depends_on_an_extent() -> None:
    same_as_onnxruntime(SQUEEZE.replace("Gemm(h, h)", "Softmax(h)"), [{"x": numbers(8).reshape(2, 1, 4)}])
    session = hip_compiler.compile(build(SQUEEZE.replace("Gemm(h, h)", "Softmax(h)")))
    with pytest.raises(HipCompilerError, match="compiled for true: the rank depends on it"):
        session.run({"x": numbers(24).reshape(2, 3, 4)})


def test_second_branch_where_the_first_does_not_fit_the_rest() -> None:
    graph = SQUEEZE.replace("y = Gemm(h, h)", "y = Transpose<perm=[0,2,1]>(h)").replace("float[P,Q]", "float[P,Q,R]")
    x = numbers(24).reshape(2, 3, 4)
    with hip_compiler.compile(build(graph)) as session:
        np.testing.assert_array_equal(session.run({"x": x})["y"], x.transpose(0, 2, 1))


def test_what_cannot_be_compiled_is_reported_at_its_node() -> None:
    model = build(
        """g (float[N] x, bool c) => (float[N] y) {
          y = If (c) <then_branch = t () => (float[N] a) { z = SequenceEmpty()
                                                        a = ConcatFromSequence<axis=0>(z) },
                      else_branch = e () => (float[N] b) { b = Identity(x) }>
        }"""
    )
    with pytest.raises(UnsupportedError) as caught:
        hip_compiler.compile(model)
    assert [finding.op for finding in caught.value.findings] == ["ConcatFromSequence"]


def test_results_nobody_reads_need_not_fit() -> None:
    same_as_onnxruntime(
        """g (int64 n, bool c) => (int64 y) {
          y, z = If (c) <then_branch = t () => (int64 a, int64[1] a1) { a = Neg(n)
                                                                   a1 = Shape(n) },
                         else_branch = e () => (int64 b, int64[1] b1) { b = Add(n, n)
                                                                   b1 = Shape(n) }>
        }""",
        [{"n": integer(5), "c": flag(c)} for c in BOTH],
    )


SCALAR_OR_VECTOR = """
    one = Constant<value = float {1.0}>()
    v = Constant<value = float[1] {2.0}>()
    s = If (c) <then_branch = t () => (float a) { a = Neg(one) }, else_branch = e () => (float[1] b) { b = Neg(v) }>
"""


def test_a_scalar_beside_a_vector_of_one_element_broadcasts() -> None:
    """What exporters of AffineGrid's function body write; nested, and through casts."""
    same_as_onnxruntime(
        f"""g (float[N] x, bool c, bool d) => (float[N] y, float[N] z) {{ {SCALAR_OR_VECTOR}
          n = If (d) <then_branch = t () => (float f) {{ f = Identity(s) }},
                      else_branch = e () => (float g) {{ g = Exp(one) }}>
          w = Cast<to = 11>(n)
          u = CastLike(w, x)
          m = Mul(u, one)
          y = Add(m, x)
          p = Equal(m, n)
          z = Where(p, x, m)
        }}""",
        [{"x": numbers(3), "c": flag(c), "d": flag(d)} for c in BOTH for d in BOTH],
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("y = Identity(s)", "y: graph output"),
        ("q = Shape(s) y = Cast<to = 1>(q)", "Shape"),
        ("y = Concat<axis = 0>(s, x)", "Concat"),
        ("q = Softplus(s) y = Unsqueeze(q, zero)", "Unsqueeze"),
        ("q, y = Loop(two, , s) <body = b (int64 i, bool k, float h) => (bool k2, float h2, float o) {"
         " k2 = Identity(k) h2 = Add(h, h) o = Identity(h) }>", "Loop"),
        ("q, y = Loop(two, , one) <body = b (int64 i, bool k, float h) => (bool k2, float h2, float o) {"
         " k2 = Identity(k) h2 = Add(h, s) o = Identity(h) }>", "Loop"),
    ],
)  # fmt: skip
def test_what_tells_a_scalar_from_a_vector_is_refused(body: str, words: str) -> None:
    constants = "zero = Constant<value = int64[1] {0}>() two = Constant<value = int64 {2}>()"
    model = build(f"g (float[N] x, bool c) => (float[M] y) {{ {SCALAR_OR_VECTOR} {constants} {body} }}")
    with pytest.raises(UnsupportedError, match="a scalar in one branch of an If") as caught:
        hip_compiler.compile(model)
    assert words in str(caught.value)
