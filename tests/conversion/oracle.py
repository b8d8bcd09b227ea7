"""Models as text, compiled and compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx.parser
import onnxruntime

import hip_compiler

Feeds = Mapping[str, np.ndarray]


def build(graph: str, opset: int = 17) -> onnx.ModelProto:
    """A model of one graph in the text form of ONNX."""
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{graph}')


def same_as_onnxruntime(graph: str, feeds: Sequence[Feeds], opset: int = 17) -> None:
    """Compile once, and compare every run. Where ONNX Runtime gives nothing, extents that it makes up do not count."""
    model = build(graph, opset)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    oracle = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in oracle.get_outputs()]
    with hip_compiler.compile(model) as session:
        for feed in feeds:
            expected = dict(zip(names, oracle.run(names, feed), strict=True))
            found = session.run(feed)
            for name in names:
                assert found[name].dtype == expected[name].dtype, name
                if expected[name].size == 0:
                    assert found[name].ndim == expected[name].ndim, name
                    assert found[name].shape[:1] == expected[name].shape[:1], name
                    continue
                assert found[name].shape == expected[name].shape, name
                np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=name)


def integer(value: int) -> np.ndarray:
    """A rank-0 int64."""
    return np.asarray(value, np.int64)


def flag(value: bool) -> np.ndarray:
    """A rank-0 bool."""
    return np.asarray(value)


def numbers(count: int, start: int = 1) -> np.ndarray:
    """float32 from `start` on."""
    return np.arange(start, start + count, dtype=np.float32)
