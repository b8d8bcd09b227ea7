"""ONNX shape inference on a copy of the graph without its weights, so that it is quick and has no size limit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx

from hip_compiler.core.frontend.functions import inline_functions

KEPT_ELEMENTS = 1024
"""Initialisers of at most so many elements keep their contents: shapes, axes and the like decide other shapes."""

_HIDDEN = "hip.hidden:"
# Seen in onnx 1.23: their inference reads the type of an input without asking whether it has one.
_CRASHING = frozenset(
    {
        ("", "RegexFullMatch"),
        ("ai.onnx", "RegexFullMatch"),
        ("ai.onnx.ml", "LabelEncoder"),
        ("ai.onnx.ml", "TreeEnsemble"),
    }
)


@dataclass(frozen=True)
class InferredGraph:
    """A graph whose values have the types that ONNX could infer.

    Attributes:
        graph: nodes in order, calls of model-local functions inlined; large tensors are missing from it.
        inputs: names of the model's inputs (without those that initialisers define), in order.
        outputs: names of the model's outputs, in order.
        lifted: contents of large `Constant` nodes, which the graph does without: tensor and node, by value name.
    """

    graph: onnx.GraphProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    lifted: dict[str, tuple[onnx.TensorProto, onnx.NodeProto]]


def infer_graph(model: onnx.ModelProto, opsets: dict[str, int]) -> InferredGraph:
    """Inline functions and infer value types; inference that fails leaves values without types.

    Shapes that the exporter wrote for results of nodes are claims, not facts: they count only where ONNX has no
    operator schema.
    """
    nodes, mixed = inline_functions(model, opsets)
    skeleton = onnx.ModelProto(ir_version=max(model.ir_version, 4))
    skeleton.opset_import.extend(model.opset_import)
    # Inference gives up on the whole graph when one node's domain is not imported.
    missing = sorted({node.domain for node in nodes} - {"", "ai.onnx"} - opsets.keys())
    skeleton.opset_import.extend(onnx.helper.make_opsetid(domain, 1) for domain in missing)
    graph = skeleton.graph
    graph.name = model.graph.name or "graph"
    lifted: dict[str, tuple[onnx.TensorProto, onnx.NodeProto]] = {}
    for node in nodes:
        tensor = _large_constant(node)
        if tensor is None:
            graph.node.append(node)
        elif node.output[0] not in lifted:
            lifted[node.output[0]] = (tensor, node)
        else:
            graph.node.append(node)
    defined = {tensor.name for tensor in model.graph.initializer}
    defined |= {sparse.values.name for sparse in model.graph.sparse_initializer}
    inputs = [info for info in model.graph.input if info.name not in defined]
    graph.input.extend(inputs)
    foreign = {name for node in nodes if node.domain not in ("", "ai.onnx") for name in node.output}
    graph.output.extend(info if info.name in foreign else _without_shape(info) for info in model.graph.output)
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) <= KEPT_ELEMENTS and tensor.data_location != onnx.TensorProto.EXTERNAL:
            graph.initializer.append(tensor)
        else:
            graph.input.append(_typed(tensor.name, tensor.data_type, tensor.dims))
    for sparse in model.graph.sparse_initializer:
        graph.input.append(_typed(sparse.values.name, sparse.values.data_type, sparse.dims))
    for name, (tensor, _) in lifted.items():
        graph.input.append(_typed(name, tensor.data_type, tensor.dims))
    graph.value_info.extend(info for info in model.graph.value_info if info.name in foreign)
    inferred = skeleton if mixed else _infer(skeleton)
    return InferredGraph(
        inferred.graph,
        tuple(info.name for info in inputs),
        tuple(info.name for info in model.graph.output),
        lifted,
    )


def _infer(skeleton: onnx.ModelProto) -> onnx.ModelProto:
    hidden = _hide(skeleton.graph)
    skeleton.opset_import.extend(onnx.helper.make_opsetid(_HIDDEN + domain, 1) for domain in sorted(hidden))
    try:
        inferred = onnx.shape_inference.infer_shapes(skeleton, data_prop=True)
    except Exception:  # noqa: BLE001 - the types only help: any failure of ONNX's inference leaves them out
        inferred = skeleton
    if hidden:
        _unhide(inferred.graph)
    return inferred


def _hide(graph: onnx.GraphProto) -> set[str]:
    """Move nodes that ONNX's inference crashes on to domains that it does not know; returns their domains."""
    domains: set[str] = set()
    for node in graph.node:
        if (node.domain, node.op_type) in _CRASHING:
            domains.add(node.domain)
            node.domain = _HIDDEN + node.domain
        for attribute in node.attribute:
            if attribute.HasField("g"):
                domains |= _hide(attribute.g)
    return domains


def _unhide(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        node.domain = node.domain.removeprefix(_HIDDEN)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _unhide(attribute.g)


def _large_constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.output) != 1:
        return None
    for attribute in node.attribute:
        if attribute.name == "value" and attribute.HasField("t"):
            external = attribute.t.data_location == onnx.TensorProto.EXTERNAL
            if external or math.prod(attribute.t.dims) > KEPT_ELEMENTS:
                return attribute.t
    return None


def _without_shape(info: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(info)
    if copy.type.HasField("tensor_type"):
        copy.type.tensor_type.ClearField("shape")
    return copy


def _typed(name: str, data_type: int, dims: object) -> onnx.ValueInfoProto:
    info = onnx.ValueInfoProto(name=name)
    info.type.tensor_type.elem_type = data_type
    shape = info.type.tensor_type.shape
    for extent in dims:  # type: ignore[attr-defined]
        shape.dim.add().dim_value = max(extent, 0)
    return info
