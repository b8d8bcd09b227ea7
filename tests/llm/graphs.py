"""Small ONNX graphs by hand, run by hip-compiler and, as a second opinion, by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnxruntime

import hip_compiler
from hip_compiler.dtypes import BY_NUMPY

MICROSOFT = "com.microsoft"


def value_info(name: str, array: np.ndarray, *, dynamic: bool = False) -> onnx.ValueInfoProto:
    """The type of an array, with every extent left open when `dynamic`."""
    extents: list[Any] = [f"{name}_{axis}" if dynamic else extent for axis, extent in enumerate(array.shape)]
    return onnx.helper.make_tensor_value_info(name, BY_NUMPY[array.dtype].onnx, extents)


def node_model(
    op: str,
    inputs: Mapping[str, np.ndarray | None],
    outputs: Sequence[str],
    *,
    domain: str = MICROSOFT,
    constants: Sequence[str] = (),
    opset: int = 21,
    dynamic: bool = False,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node.

    Args:
        inputs: arrays by name in the operator's order; None where an optional input is absent.
        outputs: names in the operator's order; "" where one is not wanted.
        constants: inputs that become initialisers.
        dynamic: leave the extents of graph inputs open.
    """
    names = ["" if array is None else name for name, array in inputs.items()]
    while names and not names[-1]:
        names.pop()
    node = onnx.helper.make_node(op, names, list(outputs), name=f"/{op}", domain=domain, **attributes)
    given = {name: array for name, array in inputs.items() if array is not None}
    graph = onnx.helper.make_graph(
        [node],
        op,
        [value_info(name, array, dynamic=dynamic) for name, array in given.items() if name not in constants],
        [onnx.helper.make_empty_tensor_value_info(name) for name in outputs if name],
        [onnx.numpy_helper.from_array(given[name], name) for name in constants],
    )
    imports = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid(MICROSOFT, 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


def feeds_of(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray | None]) -> dict[str, np.ndarray]:
    """The inputs that are not initialisers."""
    wanted = {entry.name for entry in model.graph.input}
    return {name: array for name, array in inputs.items() if array is not None and name in wanted}


def ours(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Every output, computed by hip-compiler."""
    with hip_compiler.compile(model) as session:
        return [np.array(array) for array in session.run(feeds).values()]


def runtime(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Every output, computed by ONNX Runtime on the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def run_node(op: str, inputs: Mapping[str, np.ndarray | None], outputs: Sequence[str], **rest: Any) -> list[np.ndarray]:
    """Results of one node, computed by hip-compiler."""
    model = node_model(op, inputs, outputs, **rest)
    return ours(model, feeds_of(model, inputs))


def run_both(
    op: str, inputs: Mapping[str, np.ndarray | None], outputs: Sequence[str], **rest: Any
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Results of one node: ours, and ONNX Runtime's."""
    model = node_model(op, inputs, outputs, **rest)
    feeds = feeds_of(model, inputs)
    return ours(model, feeds), runtime(model, feeds)
