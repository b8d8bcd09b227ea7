"""The plugin by itself: which additions it takes, and the numbers that its kernel gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import TensorProto, helper

import hip_compiler


def model(dtype: int, a: Sequence[str], b: Sequence[str]) -> bytes:
    inputs = [helper.make_tensor_value_info(name, dtype, shape) for name, shape in (("a", a), ("b", b))]
    output = helper.make_tensor_value_info("out", dtype, None)
    node = helper.make_node("Add", ["a", "b"], ["out"], name="/add")
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(
        helper.make_graph([node], "g", inputs, [output]), opset_imports=opset, ir_version=9
    ).SerializeToString()


SHAPES = [
    ((), ()),
    ((5,), (5,)),
    ((3, 4), (4,)),
    ((3, 1), (1, 4)),
    ((2, 3, 4), (3, 1)),
    ((2, 1, 4), (2, 3, 1)),
    ((1,), (2, 3)),
    ((0, 3), (1, 3)),
]


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_sums_are_right_at_extents_known_at_run_time_only(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    names = [[f"{name}{axis}" for axis in range(len(shape))] for name, shape in (("a", a), ("b", b))]
    draw = np.random.default_rng(1)
    feeds = {"a": draw.normal(size=a).astype(np.float32), "b": draw.normal(size=b).astype(np.float32)}
    with hip_compiler.compile(model(TensorProto.FLOAT, names[0], names[1])) as session:
        assert session.metadata.plugins_used["vendor-add"].startswith("hip-compiler-vendor-add")
        np.testing.assert_array_equal(session.run(feeds)["out"], feeds["a"] + feeds["b"])


def test_extents_that_do_not_broadcast_end_the_run_with_the_nodes_name() -> None:
    with hip_compiler.compile(model(TensorProto.FLOAT, ["m"], ["n"])) as session:
        with pytest.raises(hip_compiler.HipCompilerError, match="/add") as caught:
            session.run({"a": np.zeros(2, np.float32), "b": np.zeros(3, np.float32)})
        assert caught.value.code == hip_compiler.ErrorCode.RUN_FAILED


def test_other_elements_are_left_to_hip_compiler() -> None:
    with hip_compiler.compile(model(TensorProto.INT32, ["n"], ["n"])) as session:
        numbers = np.arange(5, dtype=np.int32)
        np.testing.assert_array_equal(session.run({"a": numbers, "b": numbers})["out"], 2 * numbers)
