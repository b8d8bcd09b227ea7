"""Loops and branches in each other, around operators of every kind."""

from __future__ import annotations

import numpy as np

from tests.conversion.oracle import flag, integer, numbers, same_as_onnxruntime

TRIPS = (0, 1, 5)
BOTH = (True, False)


def test_products_with_weights_in_a_loop() -> None:
    weights = ", ".join(str(value) for value in np.random.default_rng(0).uniform(-1, 1, 256).round(3))
    same_as_onnxruntime(
        f"""g (int64 M, float[N,16] x) => (float[N,16] y, float[N,16] z, float[T,N] s)
          <float[16,16] w = {{{weights}}}> {{
          y, s = Loop (M, , x) <body = b (int64 i, bool go, float[N,16] a) =>
                                      (bool on, float[N,16] an, float[N] total) {{
            on = Identity(go)
            h = MatMul(a, w)
            k = Softmax<axis=-1>(h)
            an = Add(k, x)
            total = ReduceMax<keepdims=0, axes=[1]>(k) }}>
          z = Sub(y, x)
        }}""",
        [{"M": integer(trips), "x": numbers(48).reshape(3, 16) / 50} for trips in TRIPS],
    )


def test_a_count_that_is_an_extent() -> None:
    same_as_onnxruntime(
        """g (float[N,4] x) => (float[4] y, float[N,4] s) {
          zero = Constant<value = int64 {0}>()
          extents = Shape(x)
          rows = Gather(extents, zero)
          initial = Constant<value = float[4] {0.0, 0.0, 0.0, 0.0}>()
          y, s = Loop (rows, , initial) <body = b (int64 i, bool go, float[4] a) =>
                                                (bool on, float[4] an, float[4] sum) {
            on = Identity(go)
            row = Gather(x, i)
            an = Add(a, row)
            sum = Identity(an) }>
        }""",
        [{"x": numbers(4 * rows).reshape(rows, 4)} for rows in (1, 5)],
    )


def test_a_loop_in_a_branch_with_state_of_several_types() -> None:
    same_as_onnxruntime(
        """g (int64 M, bool c, float16[N] x, bool[N] q) => (float16[N] y, bool[N] p, int32 n) {
          y, p, n = If (c) <
              then_branch = t () => (float16[N] a, bool[N] a2, int32 a3) {
                three = Constant<value = int32 {3}>()
                a, a2, a3 = Loop (M, c, x, q, three) <
                    body = b (int64 i, bool go, float16[N] s1, bool[N] s2, int32 s3) =>
                             (bool on, float16[N] n1, bool[N] n2, int32 n3) {
                  n1 = Add(s1, x)
                  n2 = Not(s2)
                  n3 = Mul(s3, s3)
                  limit = Constant<value = int32 {1000}>()
                  on = Less(n3, limit) }> },
              else_branch = e () => (float16[N] b, bool[N] b2, int32 b3) {
                b = Neg(x)
                b2 = Identity(q)
                b3 = Constant<value = int32 {-1}>() }>
        }""",
        [
            {"M": integer(trips), "x": numbers(4).astype(np.float16), "c": flag(c), "q": np.arange(4) % 3 == 0}
            for trips in TRIPS
            for c in BOTH
        ],
    )


def test_a_branch_in_a_loop_that_may_leave_the_state_alone() -> None:
    same_as_onnxruntime(
        """g (int64 M, float[1,2,N] x, float[2,2,3] w) => (float[1,2,N] y) {
          y = Loop (M, , x) <body = b (int64 i, bool go, float[1,2,N] a) => (bool on, float[1,2,N] an) {
            on = Identity(go)
            two = Constant<value = int64 {2}>()
            rest = Mod(i, two)
            odd = Cast<to=9>(rest)
            an = If (odd) <then_branch = t () => (float[1,2,N] u) { u = Conv<pads=[1,1]>(a, w) },
                           else_branch = e () => (float[1,2,N] v) { v = Identity(a) }> }>
        }""",
        [
            {"M": integer(t), "x": numbers(12).reshape(1, 2, 6), "w": numbers(12, -5).reshape(2, 2, 3) / 9}
            for t in TRIPS
        ],
    )


def test_loops_with_conditions_in_each_other() -> None:
    same_as_onnxruntime(
        """g (float[1] x) => (float[1] y, int64 n) {
          zero = Constant<value = int64 {0}>()
          axis = Constant<value = int64[1] {0}>()
          c = Constant<value = bool {1}>()
          y, n = Loop (, c, x, zero) <body = b (int64 i, bool go, float[1] a, int64 k) =>
                                            (bool on, float[1] an, int64 kn) {
            h, inner = Loop (, go, a, k) <
                body = bb (int64 j, bool gi, float[1] u, int64 m) => (bool oi, float[1] un, int64 mn) {
              two = Constant<value = float[1] {2.0}>()
              un = Mul(u, two)
              limit = Constant<value = float[1] {50.0}>()
              less = Less(un, limit)
              oi = Squeeze(less, axis)
              mn = Add(m, i) }>
            thirty = Constant<value = float[1] {30.0}>()
            an = Sub(h, thirty)
            forty = Constant<value = float[1] {40.0}>()
            few = Less(an, forty)
            on = Squeeze(few, axis)
            kn = Add(inner, i) }>
        }""",
        [{"x": numbers(1, start)} for start in (3, 11)],
    )


def test_reads_and_writes_at_the_iteration() -> None:
    same_as_onnxruntime(
        """g (int64 M, float[N] x) => (float[N] y, float[K] z) {
          five = Constant<value = float[1] {5.0}>()
          one = Constant<value = int64[1] {1}>()
          y, z = Loop (M, , x, five) <
              body = b (int64 i, bool go, float[N] a, float[P] d) => (bool on, float[N] an, float[Q] dn) {
            on = Identity(go)
            at = Reshape(i, one)
            end = Add(at, one)
            part = Slice(x, at, end)
            dn = Concat<axis=0>(part, d)
            old = Gather(a, at)
            twice = Add(old, old)
            an = ScatterElements<axis=0>(a, at, twice) }>
        }""",
        [{"M": integer(trips), "x": numbers(5)} for trips in TRIPS],
    )
