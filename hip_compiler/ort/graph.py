"""ONNX Runtime's graph as the compiler takes it: constants stay where they are, and nodes get names of their own."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx

from hip_compiler.core.frontend.load import LoadedModel

LOCATION = "memory"
"""Location of a constant that the provider gives by its address."""
SOURCE = "ONNX Runtime's graph"


def receive(data: bytes) -> LoadedModel:
    """A model from the provider of this process, whose constants are addresses in its memory.

    They must not be touched once the provider's call returns.
    """
    proto = onnx.ModelProto.FromString(data)
    memory: dict[str, np.ndarray] = {}
    for tensor in _initializers(proto.graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if entries.get("location") != LOCATION:
            continue
        buffer = (ctypes.c_uint8 * int(entries["length"])).from_address(int(entries["offset"]))
        location = f"{LOCATION}:{len(memory)}"
        memory[location] = np.ctypeslib.as_array(buffer)
        # The address is no part of the model: equal models look alike to the compile cache.
        del tensor.external_data[:]
        tensor.external_data.add(key="location", value=location)
    _import_what_is_used(proto)
    return LoadedModel(proto, (), SOURCE, memory)


def name_nodes(graph: onnx.GraphProto) -> tuple[list[str], dict[str, int]]:
    """Give every node of a graph and its subgraphs a name that no other has.

    Returns:
        Names of the graph's nodes as they were, for people; and the number of the graph's node by new name, that of the
        node around it for a node in a subgraph.
    """
    shown: list[str] = []
    numbers: dict[str, int] = {}
    for number, node in enumerate(graph.node):
        shown.append(node.name)
        for inner in (node, *nested(node)):
            name = inner.name or f"{inner.op_type}_{number}"
            unique, count = name, 1
            while unique in numbers:
                count += 1
                unique = f"{name}#{count}"
            inner.name = unique
            numbers[unique] = number
    return shown, numbers


def nested(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Nodes of the subgraphs of a node, at every depth."""
    for graph in subgraphs(node):
        for inner in graph.node:
            yield inner
            yield from nested(inner)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g


def reads(node: onnx.NodeProto) -> set[str]:
    """Names of values that a node reads, those that its subgraphs take from around them included."""
    names = {name for name in node.input if name}
    for graph in subgraphs(node):
        own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
        needed = {info.name for info in graph.output}
        for inner in graph.node:
            needed |= reads(inner)
            own |= set(inner.output)
        names |= needed - own
    return names


def extract(model: LoadedModel, numbers: Iterable[int], types: Mapping[str, onnx.ValueInfoProto]) -> LoadedModel:
    """The model of some nodes of a model's graph, as it is compiled when they are fused.

    Args:
        numbers: numbers of the nodes.
        types: types of the graph's values by name.
    """
    graph = model.proto.graph
    chosen = sorted(set(numbers))
    nodes = [graph.node[number] for number in chosen]
    made = {name for node in nodes for name in node.output if name}
    read = list(dict.fromkeys(name for node in nodes for name in sorted(reads(node))))
    constants = {tensor.name: tensor for tensor in graph.initializer}
    left = set(chosen)
    wanted = {info.name for info in graph.output}
    for number, node in enumerate(graph.node):
        if number not in left:
            wanted |= reads(node)
    part = onnx.ModelProto(ir_version=model.proto.ir_version)
    part.opset_import.extend(model.proto.opset_import)
    part.graph.name = graph.name
    part.graph.node.extend(nodes)
    part.graph.initializer.extend(constants[name] for name in read if name in constants)
    inputs = [name for name in read if name not in constants and name not in made]
    part.graph.input.extend(types.get(name, onnx.ValueInfoProto(name=name)) for name in inputs)
    outputs = [name for node in nodes for name in node.output if name in wanted]
    part.graph.output.extend(types.get(name, onnx.ValueInfoProto(name=name)) for name in outputs)
    return LoadedModel(part, model.roots, model.source, model.memory)


def value_types(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    """Types of a graph's values by name."""
    return {info.name: info for info in (*graph.value_info, *graph.output, *graph.input)}


def _initializers(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _initializers(inner)


def _import_what_is_used(proto: onnx.ModelProto) -> None:
    """Drop imports of domains that no node is of: ONNX Runtime lists all that it has."""
    used = {node.domain for top in proto.graph.node for node in (top, *nested(top))}
    kept = [entry for entry in proto.opset_import if entry.domain in used | {"", "ai.onnx"}]
    del proto.opset_import[:]
    proto.opset_import.extend(kept)
