"""ONNX's own reference implementation as an oracle, run in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator


def reference(
    op: str, inputs: Sequence[np.ndarray | None], outputs: int = 1, *, opset: int = 22, **attributes: Any
) -> list[np.ndarray]:
    """Outputs of one node; floating-point inputs go in as they are."""
    names = ["" if value is None else f"i{n}" for n, value in enumerate(inputs)]
    results = [f"o{n}" for n in range(outputs)]
    node = helper.make_node(op, names, results, **attributes)
    graph = helper.make_graph(
        [node],
        "oracle",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in zip(names, inputs, strict=True)
            if value is not None
        ],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in results],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    assert isinstance(model, onnx.ModelProto)
    feeds = {name: value for name, value in zip(names, inputs, strict=True) if value is not None}
    return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, feeds)]
