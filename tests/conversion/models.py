"""Small models for tests of conversions: nodes, and inputs as `name: (element type, shape)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

import hip_compiler
from hip_compiler.dtypes import BY_NAME
from hip_compiler.runtime import Session

Inputs = Mapping[str, tuple[str, Sequence[Any]]]


def compiled(
    nodes: Sequence[onnx.NodeProto],
    inputs: Inputs,
    outputs: Sequence[str],
    opset: int = 20,
    domains: Mapping[str, int] | None = None,
) -> Session:
    """A session of a model made of the nodes."""
    values = [
        helper.make_tensor_value_info(name, BY_NAME[dtype].onnx, shape) for name, (dtype, shape) in inputs.items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(list(nodes), "test", values, results)
    imports = {"": opset, **(domains or {})}
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(name, version) for name, version in imports.items()], ir_version=10
    )
    return hip_compiler.compile(model)
