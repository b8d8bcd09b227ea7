"""Loop: counted, ended by a condition, with state and scan outputs of every kind of shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hip_compiler
from hip_compiler.errors import HipCompilerError, UnsupportedError
from tests.conversion.oracle import build, flag, integer, numbers, same_as_onnxruntime

TRIPS = (0, 1, 5)

COUNTED = """g (int64 M, float[N] x) => (float[N] y, float[T,N] s) {
  y, s = Loop (M, , x) <body = b (int64 i, bool go, float[N] a) => (bool on, float[N] next, float[N] slice) {
    on = Identity(go)
    number = Cast<to=1>(i)
    next = Add(a, number)
    slice = Mul(next, x) }>
}"""

ENDED = """g (int64 M, bool c, float[1] x) => (float[1] y, float[T,1] s, int64[T] t) {
  y, s, t = Loop (M, c, x) <body = b (int64 i, bool go, float[1] a) =>
                                    (bool on, float[1] next, float[1] slice, int64 k) {
    next = Add(a, a)
    limit = Constant<value = float[1] {20.0}>()
    less = Less(next, limit)
    zero = Constant<value = int64[1] {0}>()
    on = Squeeze(less, zero)
    k = Identity(i)
    slice = Identity(next) }>
}"""

GROWING = """g (int64 M, float[N] x, int64[K] indices) => (float[P] y, float[T,1] s) {
  y, s = Loop (M, , x) <body = b (int64 i, bool go, float[Q] a) => (bool on, float[R] next, float[1] slice) {
    on = Identity(go)
    one = Constant<value = int64[1] {1}>()
    row = Reshape(i, one)
    index = Gather(indices, row)
    slice = Gather(x, index)
    next = Concat<axis=0>(a, x) }>
}"""


def test_counted() -> None:
    same_as_onnxruntime(COUNTED, [{"M": integer(trips), "x": numbers(4)} for trips in TRIPS])


def test_no_iterations_keep_the_inner_extents() -> None:
    with hip_compiler.compile(build(COUNTED)) as session:
        found = session.run({"M": integer(-3), "x": numbers(4)})
    np.testing.assert_array_equal(found["y"], numbers(4))
    assert found["s"].shape == (0, 4)


def test_ended_by_the_condition_or_the_count() -> None:
    counts = (0, 1, 3, 2**62)
    feeds = [{"M": integer(count), "c": flag(c), "x": numbers(1)} for count in counts for c in (True, False)]
    same_as_onnxruntime(ENDED, feeds)


def test_neither_count_nor_condition() -> None:
    graph = ENDED.replace("Loop (M, c, x)", "Loop (, , x)").replace("int64 M, bool c, ", "")
    same_as_onnxruntime(graph, [{"x": numbers(1, start)} for start in (1, 19)])


def test_a_count_known_at_compile_time_reserves_the_scan_outputs() -> None:
    graph = ENDED.replace("{\n  y, s", "{\n  M = Constant<value = int64 {7}>()\n  y, s", 1).replace("int64 M, ", "")
    same_as_onnxruntime(graph, [{"c": flag(c), "x": numbers(1, start)} for c in (True, False) for start in (1, 19)])


CHUNKS = """g (int64 M, float[N] x) => (float[N] y, float[P] z, float[T,N] s, int64[T] t) {
  y, z, s, t = Loop (M, , x, x) <body = b (int64 i, bool go, float[N] a, float[Q] d) =>
                                          (bool on, float[N] next, float[R] longer, float[N] slice, int64 k) {
    one = Constant<value = float {1.0}>()
    next = Add(a, one)
    limit = Constant<value = int64 {99}>()
    on = Less(i, limit)
    longer = Concat<axis=0>(d, x)
    slice = Sub(next, x)
    k = Mul(i, i) }>
}"""


def test_scan_outputs_of_unknown_length_are_made_in_chunks() -> None:
    feeds = [{"M": integer(count), "x": numbers(3)} for count in (0, 1, 15, 16, 17, 48, 49, 1000)]
    same_as_onnxruntime(CHUNKS, feeds)
    same_as_onnxruntime(CHUNKS.replace("Loop (M,", "Loop (,").replace("int64 M, ", ""), [{"x": numbers(3)}])


def test_state_that_grows() -> None:
    feeds = [{"M": integer(t), "x": numbers(3), "indices": np.arange(5, dtype=np.int64) % 3} for t in TRIPS]
    same_as_onnxruntime(GROWING, feeds)


@pytest.mark.parametrize("ended", [False, True])
def test_state_that_grows_from_extents_known_at_compile_time(ended: bool) -> None:
    condition = "limit = Constant<value = float {20.0}>()\n on = Less(total, limit)" if ended else "on = Identity(go)"
    same_as_onnxruntime(
        f"""g (int64 M) => (float[P] y, float[T] s) {{
          x = Constant<value = float[2] {{1.0, 2.0}}>()
          y, s = Loop (M, , x) <body = b (int64 i, bool go, float[Q] a) => (bool on, float[R] next, float total) {{
            next = Concat<axis=0>(a, x)
            total = ReduceSum<keepdims=0>(a)
            {condition} }}>
        }}""",
        [{"M": integer(trips)} for trips in (*TRIPS, 30)],
    )


def test_slices_whose_extents_only_the_body_knows() -> None:
    graph = """g (int64 M, float[N] x) => (float[T,K] s) {
      c = Constant<value = bool {1}>()
      s = Loop (M, c) <body = b (int64 i, bool go) => (bool on, float[P] slice) {
        on = Identity(go)
        number = Cast<to=1>(i)
        moved = Sub(x, number)
        where = NonZero(moved)
        zero = Constant<value = int64[1] {0}>()
        rows = Squeeze(where, zero)
        slice = Gather(x, rows) }>
    }"""
    x = np.array([9, 0.5, 9, 9], np.float32)
    same_as_onnxruntime(graph, [{"M": integer(trips), "x": x} for trips in TRIPS])
    with hip_compiler.compile(build(graph)) as session, pytest.raises(HipCompilerError, match="differ in shape"):
        session.run({"M": integer(2), "x": numbers(4)})


def test_state_that_trades_places_and_state_that_stays() -> None:
    same_as_onnxruntime(
        """g (int64 M, float[N] x, float[N] y) => (float[N] p, float[N] q, float[N] r) {
          p, q, r = Loop (M, , x, y, x) <
              body = b (int64 i, bool go, float[N] a, float[N] d, float[N] e) =>
                       (bool on, float[N] a1, float[N] d1, float[N] e1) {
            on = Identity(go)
            a1 = Identity(d)
            d1 = Add(a, e)
            e1 = Identity(e) }>
        }""",
        [{"M": integer(trips), "x": numbers(3), "y": numbers(3, 7)} for trips in TRIPS],
    )


def test_reshaped_state_is_not_overwritten_while_it_is_read() -> None:
    same_as_onnxruntime(
        """g (int64 M, float[A,B] x) => (float[C,D] y, float[N] z) {
          flat = Constant<value = int64[1] {-1}>()
          v = Reshape(x, flat)
          y, z = Loop (M, , x, v) <body = b (int64 i, bool go, float[E,F] a, float[N] d) =>
                                         (bool on, float[F,E] a1, float[N] d1) {
            on = Identity(go)
            s = Shape(a)
            order = Constant<value = int64[2] {1, 0}>()
            turned = Gather(s, order)
            a1 = Reshape(a, turned)
            minus = Constant<value = int64[1] {-1}>()
            old = Reshape(a, minus)
            d1 = Add(d, old) }>
        }""",
        [{"M": integer(trips), "x": numbers(6).reshape(2, 3)} for trips in TRIPS],
    )


def test_nested_loops_and_branches() -> None:
    same_as_onnxruntime(
        """g (int64 M, float[N] x, float[N] y) => (float[N] p, float[N] q, float[T,K] r) {
          p, q, r = Loop (M, , x, y) <
              body = b (int64 i, bool go, float[N] a, float[N] d) =>
                       (bool on, float[N] a1, float[N] d1, float[L] slice) {
            on = Identity(go)
            a1 = Identity(d)
            d1, grown = Loop (i, go, a, x) <
                body = bb (int64 j, bool gi, float[N] ee, float[G] gg) => (bool oi, float[N] e2, float[H] g2) {
              oi = Identity(gi)
              two = Constant<value = int64 {2}>()
              rest = Mod(j, two)
              odd = Cast<to=9>(rest)
              e2, g2 = If (odd) <then_branch = t () => (float[N] u, float[U] u2) { u = Add(ee, a)
                                                                               u2 = Concat<axis=0>(gg, a) },
                             else_branch = l () => (float[N] v, float[V] v2) { v = Sub(ee, d)
                                                                               v2 = Identity(gg) }> }>
            slice = ReduceMax<keepdims=1>(grown) }>
        }""",
        [{"M": integer(trips), "x": numbers(3), "y": numbers(3, 7)} for trips in TRIPS],
    )


def test_an_error_in_an_iteration_names_its_node_and_frees_its_memory() -> None:
    x = np.zeros(20_000, np.float32)
    good = {"M": integer(8), "x": x, "indices": np.zeros(8, np.int64)}
    bad = {"M": integer(8), "x": x, "indices": np.array([0] * 6 + [10**6] * 2, np.int64)}
    with hip_compiler.compile(build(GROWING)) as session:
        session.run(good)
        with pytest.raises(HipCompilerError, match=r"slice \(gather\).*index 1000000 is outside"):
            session.run(bad)
        before = _resident_bytes()
        for _ in range(1000):
            with pytest.raises(HipCompilerError):
                session.run(bad)
        assert _resident_bytes() - before < 20 * x.nbytes
        assert session.run(good)["y"].shape == (9 * x.size,)


def test_iterations_give_their_memory_back() -> None:
    x = np.zeros(20_000, np.float32)
    with hip_compiler.compile(build(GROWING)) as session:
        session.run({"M": integer(200), "x": x, "indices": np.zeros(200, np.int64)})
        # The last state, the one before, and a copy; all states together would be a hundred times as much.
        assert session.arena_bytes < 4 * 201 * x.nbytes


def test_state_that_changes_its_rank_is_reported() -> None:
    model = build(
        """g (int64 M, float[N] x) => (float[N] y) {
          y = Loop (M, , x) <body = b (int64 i, bool go, float[N] a) => (bool on, float[1,N] next) {
            on = Identity(go)
            zero = Constant<value = int64[1] {0}>()
            next = Unsqueeze(a, zero) }>
        }"""
    )
    with pytest.raises(UnsupportedError, match="state of a loop changes from 1 to 2 dimensions"):
        hip_compiler.compile(model)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096
