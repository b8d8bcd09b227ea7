"""Small models, and sessions of ONNX Runtime with and without the provider."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from hip_compiler.ort import PROVIDER, register

INNER, COLUMNS = 64, 32
VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:3])
BY_NAME = pytest.param(
    True,
    id="name",
    marks=pytest.mark.skipif(VERSION < (1, 25, 1), reason="ONNX Runtime before 1.25.1 knows no provider by its name"),
)
needs_outer_values = pytest.mark.skipif(
    VERSION < (1, 27, 0), reason="ONNX Runtime before 1.27 hides from a fused node what its subgraphs read"
)


def make(nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any], **constants: np.ndarray) -> onnx.ModelProto:
    """A model; inputs and outputs are shapes of float tensors, or pairs of element type and shape."""

    def info(name: str, kind: Any) -> onnx.ValueInfoProto:
        element, shape = kind if isinstance(kind, tuple) else (TensorProto.FLOAT, kind)
        return helper.make_tensor_value_info(name, element, shape)

    graph = helper.make_graph(
        nodes,
        "g",
        [info(*item) for item in inputs.items()],
        [info(*item) for item in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=9
    )


def node(op: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), name=name or op.lower(), **attributes)


def product() -> onnx.ModelProto:
    """y = Softmax(Erf(x w)): a constant that is large enough to be handed over by its address."""
    nodes = [node("MatMul", "x w", "a"), node("Erf", "a", "b"), node("Softmax", "b", "y")]
    return make(nodes, {"x": ["n", INNER]}, {"y": ["n", COLUMNS]}, w=values(INNER, COLUMNS))


def islands() -> onnx.ModelProto:
    """Nodes around two of Erf, which tests take away from the compiler; one constant is read on both sides."""
    nodes = [
        node("MatMul", "x w", "a", "first"),
        node("Erf", "a", "b", "erf/one"),
        node("Add", "b c", "d", "middle"),
        node("Erf", "d", "e"),
        node("Add", "e c", "f", "last"),
        node("Mul", "f a", "y", "product"),
    ]
    nodes[3].name = ""
    return make(nodes, {"x": ["n", INNER]}, {"y": ["n", COLUMNS]}, w=values(INNER, COLUMNS), c=values(1, COLUMNS))


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def session(model: onnx.ModelProto | str, options: dict[str, str] | None = None, **entries: str) -> Any:
    """A session with the provider. Entries are those of the session, with `_` for `.`."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    for key, value in entries.items():
        settings.add_session_config_entry(key.replace("ep_", "ep.", 1), value)
    settings.add_provider_for_devices(register(), options or {})
    return onnxruntime.InferenceSession(source(model), settings, enable_fallback=0)


def plain(model: onnx.ModelProto | str) -> Any:
    """A session of ONNX Runtime by itself."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    return onnxruntime.InferenceSession(source(model), settings, providers=["CPUExecutionProvider"])


def source(model: onnx.ModelProto | str) -> bytes | str:
    return model if isinstance(model, str) else model.SerializeToString()


def check(made: Any, model: onnx.ModelProto | str, feeds: dict[str, np.ndarray], tolerance: float = 1e-5) -> None:
    """The provider's outputs are plain ONNX Runtime's, within a part of their scale."""
    assert made.get_providers()[0] == PROVIDER
    for found, expected in zip(made.run(None, feeds), plain(model).run(None, feeds), strict=True):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        if not expected.size:
            continue
        assert np.any(expected) and np.all(np.isfinite(expected.astype(np.float64)))
        scale = np.abs(expected.astype(np.float64)).max()
        assert np.abs(found.astype(np.float64) - expected.astype(np.float64)).max() <= tolerance * scale
