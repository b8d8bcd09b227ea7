"""Scan: loops over slices of tensors."""

from __future__ import annotations

import numpy as np
import pytest

import hip_compiler
from hip_compiler.errors import HipCompilerError
from tests.conversion.oracle import build, numbers, same_as_onnxruntime

TWO_WAYS = """g (float[A] s0, float[T,A] x, float[A,U] y) => (float[A] s, float[T,A] o, float[A,T] p) {
  s, o, p = Scan <num_scan_inputs=2, scan_input_axes=[0,1], scan_input_directions=[0,1], scan_output_axes=[0,-1],
                  scan_output_directions=[1,0],
                  body = b (float[A] a, float[A] u, float[A] v) => (float[A] an, float[A] r, float[A] q) {
                    an = Add(a, u)
                    r = Mul(an, v)
                    q = Sub(an, v) }> (s0, x, y)
}"""


def test_axes_and_directions() -> None:
    feeds = [
        {"s0": numbers(3), "x": numbers(3 * t).reshape(t, 3), "y": numbers(3 * t, 5).reshape(3, t)} for t in (1, 2, 5)
    ]
    same_as_onnxruntime(TWO_WAYS, feeds)


def test_no_iterations_keep_the_inner_extents() -> None:
    with hip_compiler.compile(build(TWO_WAYS)) as session:
        found = session.run({"s0": numbers(3), "x": np.zeros((0, 3), np.float32), "y": np.zeros((3, 0), np.float32)})
    np.testing.assert_array_equal(found["s"], numbers(3))
    assert found["o"].shape == (0, 3)
    assert found["p"].shape == (3, 0)


def test_inputs_of_different_lengths_are_an_error() -> None:
    with (
        hip_compiler.compile(build(TWO_WAYS)) as session,
        pytest.raises(HipCompilerError, match="scan inputs have one length"),
    ):
        session.run({"s0": numbers(3), "x": numbers(6).reshape(2, 3), "y": numbers(9).reshape(3, 3)})


def test_without_state_and_with_values_from_around() -> None:
    same_as_onnxruntime(
        """g (float[T] x, float[N] w) => (float[T,N] y) {
          y = Scan <num_scan_inputs=1, body = b (float u) => (float[N] v) { v = Mul(w, u) }> (x)
        }""",
        [{"x": numbers(t), "w": numbers(3)} for t in (1, 4)],
    )


def test_batches_of_opset_8() -> None:
    same_as_onnxruntime(
        """g (float[B,2] s0, float[B,T,2] x) => (float[B,2] s, float[B,T,2] y) {
          s, y = Scan <num_scan_inputs=1, directions=[1],
                       body = b (float[2] a, float[2] u) => (float[2] an, float[2] r) { an = Add(a, u)
                                                                                  r = Identity(an) }> ("", s0, x)
        }""".replace('""', ""),
        [{"s0": numbers(4).reshape(2, 2), "x": numbers(12).reshape(2, 3, 2)}],
        opset=8,
    )
