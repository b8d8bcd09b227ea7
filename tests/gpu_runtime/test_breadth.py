"""Small graphs of operators beyond products and norms, compiled for GPUs and emulated, against the host target.

Extents that depend on values are among them: the host waits for their count, and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx import helper

import hip_compiler
from hip_compiler.runtime.native import FOLDER
from tests.fake_hip import FakeHip
from tests.gpu_runtime.test_models import FLOAT, emulated, model

__all__ = ["emulated"]

pytestmark = pytest.mark.skipif(
    not (FOLDER / "kernels.pack").is_file(), reason="kernels.pack is not built: python kernels/build.py"
)
LONG, BOOL = 7, 9


def draw(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def same(built: Any, feeds: dict[str, np.ndarray]) -> None:
    with hip_compiler.compile(built) as host, hip_compiler.compile(built, "amdgpu", arch=("gfx1151",)) as gpu:
        expected, actual = host.run(feeds), gpu.run(feeds)
    for name, value in expected.items():
        assert value.size
        assert actual[name].shape == value.shape
        np.testing.assert_allclose(actual[name], value, rtol=2e-5, atol=2e-5)


def test_extents_that_depend_on_values(emulated: FakeHip) -> None:
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["positive"]),
        helper.make_node("NonZero", ["positive"], ["places"]),
        helper.make_node("Transpose", ["places"], ["tuples"]),
        helper.make_node("GatherND", ["x", "tuples"], ["kept"]),
        helper.make_node("Compress", ["x", "rows"], ["chosen"], axis=0),
        helper.make_node("Round", ["x"], ["rounded"]),
        helper.make_node("Unique", ["rounded"], ["values", "first", "inverse", "counts"], sorted=0),
    ]
    outputs = {"kept": (FLOAT, ["k"]), "chosen": (FLOAT, ["c", 5]), "values": (FLOAT, ["u"]), "counts": (LONG, ["u"])}
    built = model(nodes, {"x": (FLOAT, [4, 5]), "rows": (BOOL, [4])}, outputs, zero=np.float32(0))
    same(built, {"x": draw(4, 5), "rows": np.array([True, False, True, True])})


def test_a_decoder_of_pictures(emulated: FakeHip) -> None:
    """Transposed convolution, resizing by scales that are constant, pooled regions and sampling at a grid."""
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w", "b"], ["up"], strides=[2, 2]),
        helper.make_node("Resize", ["up", "", "scales"], ["large"], mode="linear"),
        helper.make_node("LRN", ["large"], ["flat"], size=3),
        helper.make_node("GridSample", ["flat", "grid"], ["sampled"]),
        helper.make_node("RoiAlign", ["flat", "rois", "images"], ["pooled"], output_height=2, output_width=2),
    ]
    constants = {
        "w": draw(3, 2, 2, 2), "b": draw(2), "scales": np.array([1, 1, 3, 2], np.float32), "images": np.array([0, 1]),
        "rois": np.array([[0, 0, 5, 4], [1, 2, 6, 6]], np.float32), "grid": np.clip(draw(2, 3, 2, 2), -1, 1),
    }  # fmt: skip
    outputs = {"sampled": (FLOAT, [2, 2, 3, 2]), "pooled": (FLOAT, [2, 2, 2, 2])}
    same(model(nodes, {"x": (FLOAT, [2, 3, "h", 4])}, outputs, **constants), {"x": draw(2, 3, 5, 4)})


def test_recurrent_networks(emulated: FakeHip) -> None:
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "b"], ["y", "h", "c"], hidden_size=3, direction="bidirectional"),
        helper.make_node("GRU", ["x", "gw", "gr"], ["", "z"], hidden_size=4, linear_before_reset=1),
    ]
    constants = {"w": draw(2, 12, 5), "r": draw(2, 12, 3), "b": draw(2, 24), "gw": draw(1, 12, 5), "gr": draw(1, 12, 4)}
    outputs = {"y": (FLOAT, ["t", 2, 2, 3]), "c": (FLOAT, [2, 2, 3]), "z": (FLOAT, [1, 2, 4])}
    same(model(nodes, {"x": (FLOAT, ["t", 2, 5])}, outputs, **constants), {"x": draw(6, 2, 5)})


def test_boxes(emulated: FakeHip) -> None:
    nodes = [helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap"], ["chosen"])]
    constants = {"most": np.array([3]), "overlap": np.array([0.4], np.float32)}
    inputs = {"boxes": (FLOAT, [1, 12, 4]), "scores": (FLOAT, [1, 2, 12])}
    corners = np.abs(draw(1, 12, 2, seed=2))
    boxes = np.concatenate([corners, corners + np.abs(draw(1, 12, 2, seed=3)) + 0.5], 2)
    same(model(nodes, inputs, {"chosen": (LONG, ["n", 3])}, **constants), {"boxes": boxes, "scores": draw(1, 2, 12)})


def test_scales_that_are_an_input(emulated: FakeHip) -> None:
    nodes = [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="cubic")]
    built = model(nodes, {"x": (FLOAT, [1, 1, 4, 4]), "scales": (FLOAT, [4])}, {"y": (FLOAT, [1, 1, "h", "w"])})
    same(built, {"x": draw(1, 1, 4, 4), "scales": np.array([1, 1, 0.5, 2.5], np.float32)})


STACK = """
<ir_version: 8, opset_import: ["" : 17]>
g (seq(float[N]) s, int64 at, int64 size) => (seq(float[N]) left, float[K] y, seq(float[P]) parts) {
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
    sum = Add (x, z)
    next = SequenceInsert (shorter, sum, at) }>
  left = SequenceErase (sums, at)
  y = ConcatFromSequence <axis = 0> (sums)
  parts = SplitToSequence (y, size)
}
"""


def test_sequences_of_run_time(emulated: FakeHip) -> None:
    built = onnx.parser.parse_model(STACK)
    feeds = {"s": [draw(3, seed=seed) for seed in range(4)], "at": np.asarray(0), "size": np.asarray(5)}
    with hip_compiler.compile(built) as host, hip_compiler.compile(built, "amdgpu", arch=("gfx1151",)) as gpu:
        expected, actual = host.run(feeds), gpu.run(feeds)
    assert len(expected["parts"]) == 3
    for name in ("left", "parts"):
        for one, other in zip(actual[name], expected[name], strict=True):
            np.testing.assert_array_equal(one, other, strict=True)
    np.testing.assert_array_equal(actual["y"], expected["y"], strict=True)
