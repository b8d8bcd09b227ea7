"""Which convolutions take Winograd's way, and that the points of their kernels are the right ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import hip_compiler
from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.dialects.load import make_context
from hip_compiler.core.frontend import import_model
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.passes.add_context_arg import AddContextArg
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.convert_onnx_to_hip import ConvertOnnxToHip
from hip_compiler.core.passes.pack_weights import PackWeights
from hip_compiler.core.passes.winograd import points
from hip_compiler.registry.registry import load_registry

P, Q = 0.75, 1.5


def model(
    channels: int = 16, filters: int = 32, extent: Any = 20, kernel: int = 3, dtype: Any = np.float32, **attributes: Any
) -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    group = attributes.get("group", 1)
    w = rng.standard_normal((filters, channels // group, kernel, kernel)).astype(dtype)
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[kernel // 2] * 4, **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = helper.make_tensor_value_info("x", kind, ["n", channels, extent, extent])
    graph = helper.make_graph(
        [node], "g", [x], [helper.make_empty_tensor_value_info("y")], [numpy_helper.from_array(w, "w")]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def packed(proto: onnx.ModelProto, target: str = "host") -> str:
    """The module after `hip-pack-weights`."""
    registry = load_registry(())
    context, pool = make_context(registry), ConstantPool()
    passes = PassContext(CompileOptions(plugins=()), registry.targets[target], dict(registry.ops), (), pool, [])
    module = import_model(proto, context, pool)
    with context:
        for step in (AddContextArg(), ConvertOnnxToHip(), PackWeights()):
            step.apply(module.operation, passes)
        assert module.operation.verify()
    return str(module)


def test_a_convolution_that_gains_reads_points() -> None:
    assert "tensor<36x32x16xf32>" in packed(model())
    assert "tensor<36x32x272xf32>" in packed(model(channels=256)), "rows of 256 would meet in few sets of a cache"


@pytest.mark.parametrize(
    "given",
    [
        {"strides": [2, 2]},
        {"dilations": [2, 2]},
        {"group": 2, "channels": 32},
        {"kernel": 5},
        {"channels": 8},
        {"filters": 8},
        {"extent": 14},
        {"extent": "h"},
        {"dtype": np.float16},
    ],
    ids=str,
)
def test_others_keep_their_kernels(given: dict[str, Any]) -> None:
    assert "tensor<36x" not in packed(model(**given))


def test_other_targets_keep_their_kernels() -> None:
    assert "tensor<36x" not in packed(model(), "amdgpu")


def test_points_filter_as_kernels_do() -> None:
    """The identity behind it, in double precision, with the other two matrices as they are usually derived."""
    line = [0.0, P, -P, Q, -Q]
    at = np.array([[a**i for a in line] + [float(i == 3)] for i in range(4)])
    vandermonde = np.array([[a**i for i in range(6)] for a in line] + [[0.0] * 5 + [1.0]])
    scales = np.array([1 / np.prod([a - b for b in line if b != a]) for a in line] + [1.0])
    bt = np.linalg.inv(vandermonde).T / scales[:, None]
    rng = np.random.default_rng(0)
    tile, kernel = rng.standard_normal((6, 6)), rng.standard_normal((1, 1, 3, 3))
    found = at @ (points(kernel)[:, 0, 0].reshape(6, 6) * (bt @ tile @ bt.T)) @ at.T
    expected = [[(tile[i : i + 3, j : j + 3] * kernel[0, 0]).sum() for j in range(4)] for i in range(4)]
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_a_compiled_model_agrees_with_the_sum() -> None:
    proto = model(channels=24, filters=40, extent=30)
    w = numpy_helper.to_array(proto.graph.initializer[0]).astype(np.float64)
    x = np.random.default_rng(1).standard_normal((2, 24, 30, 30)).astype(np.float32)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = sum(
        np.einsum("nchw,mc->nmhw", padded[:, :, i : i + 30, j : j + 30], w[:, :, i, j])
        for i in range(3)
        for j in range(3)
    )
    with hip_compiler.compile(proto) as session:
        found = session.run({"x": x})["y"]
    assert np.abs(found - expected).max() < 3e-6 * np.abs(expected).max()
