"""Operators that the ONNX standard defines by a function of other operators, converted node by node."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import onnx
import onnx.defs
import onnx.helper
import onnx.numpy_helper

from hip_compiler.core.conversion.onnx_op import NotSupportedError, OnnxOp, Subgraph, refuse_either
from hip_compiler.core.conversion.tensors import Absent, Tensor, constant
from hip_compiler.dtypes import BY_NUMPY
from hip_compiler.errors import Unsupported

Values: TypeAlias = ChainMap[str, "Tensor | None"]

_CALL = "hip.subgraph"
"""Domain of nodes that stand for a subgraph of the operator, by the name of its attribute."""


class Expansion:
    """The function body of an operator in its place.

    Args:
        convert: converts an operator, given how deep in functions it is.
        findings: receives what `convert` cannot do; the expansion takes it out again to say it of the operator.
        opsets: versions of the domains that the body does not import itself.
    """

    def __init__(
        self,
        convert: Callable[[OnnxOp, int], Sequence[Tensor | None]],
        findings: list[Unsupported],
        op: OnnxOp,
        body: onnx.FunctionProto,
        depth: int,
        opsets: Mapping[str, int],
    ) -> None:
        self._convert = convert
        self._findings = findings
        self._op = op
        self._body = body
        self._depth = depth
        self._opsets = {**opsets, **{entry.domain: entry.version for entry in body.opset_import}}

    def run(self) -> Sequence[Tensor | None]:
        """Results of the operator.

        Raises:
            NotSupportedError: what operators of the body need.
        """
        values: Values = ChainMap({"": None})
        for position, name in enumerate(self._body.input):
            values[name] = self._op.optional(position)
        self.nodes(self._body.node, self._body.output, values)
        # A function made for this node leaves out results that nobody asked for.
        return [values.get(name) for name in self._body.output][: self._op.outputs]

    def nodes(self, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], values: Values) -> None:
        """Convert nodes in order; their results join the values."""
        before = len(self._findings)
        reads = [_reads(node) for node in nodes]
        for number, node in enumerate(nodes):
            if node.domain == _CALL:
                subgraph: Subgraph = self._op.attr(node.op_type)
                given = [value for value in map(values.get, node.input) if value is not None]
                values.update(zip(node.output, subgraph.convert(given), strict=True))
                continue
            later = set(outputs).union(*reads[number + 1 :])
            inner = OnnxOp(
                name=f"{self._op.name}/{node.name or node.op_type}",
                op=node.op_type,
                domain=node.domain,
                version=self._opsets.get(node.domain, 1),
                inputs=_trim([values[name] for name in node.input]),
                outputs=len(node.output),
                attributes=self._attributes(node, values),
                used=[name in later for name in node.output],
            )
            results = self._convert(inner, self._depth)
            if len(self._findings) > before:
                reasons = "; ".join(f"{f.op}: {f.reason}" for f in self._findings[before:])
                del self._findings[before:]
                raise NotSupportedError(f"its function body needs {reasons}")
            found = (None if isinstance(result, Absent) else result for result in results)
            values.update(zip(node.output, found, strict=False))

    def _attributes(self, node: onnx.NodeProto, values: Values) -> dict[str, Any]:
        """Attributes of a node; references take the value of the function's attribute."""
        found = {}
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                value = self._op.attributes.get(attribute.ref_attr_name, self._default(attribute.ref_attr_name))
                if value is not None:
                    found[attribute.name] = value
            elif attribute.type == onnx.AttributeProto.GRAPH:
                found[attribute.name] = _GraphSubgraph(self, attribute.g, values)
            else:
                found[attribute.name] = _attribute_value(attribute)
        return found

    def _default(self, name: str) -> Any:
        """What an attribute of the operator is when a model does not give it; None: nothing."""
        op = self._op
        declared = onnx.defs.get_schema(op.op, op.version, op.domain).attributes[name].default_value
        return None if declared.type == onnx.AttributeProto.UNDEFINED else _attribute_value(declared)


def _attribute_value(attribute: onnx.AttributeProto) -> Any:
    """Value of an attribute as Python and NumPy objects."""
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if attribute.type == onnx.AttributeProto.STRINGS:
        return [text.decode() for text in value]
    return value


class _GraphSubgraph:
    """A subgraph in a function body; see `Subgraph`."""

    def __init__(self, expansion: Expansion, graph: onnx.GraphProto, values: Values) -> None:
        self._expansion = expansion
        self._graph = graph
        self._values = values
        self.inputs = len(graph.input)
        self.outputs = len(graph.output)

    def passed(self) -> tuple[int | None, ...]:
        inputs = {info.name: number for number, info in enumerate(self._graph.input)}
        sources = {node.output[0]: node.input[0] for node in self._graph.node if node.op_type == "Identity"}
        found = []
        for info in self._graph.output:
            name = info.name
            while name in sources:
                name = sources[name]
            found.append(inputs.get(name))
        return tuple(found)

    def convert(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        graph = self._graph
        values = self._values.new_child({})
        for info, source in zip(graph.input, inputs, strict=True):
            values[info.name] = None if isinstance(source, Absent) else source
        for tensor in graph.initializer:
            array = onnx.numpy_helper.to_array(tensor)
            values[tensor.name] = constant(array, BY_NUMPY[array.dtype])
        outputs = [info.name for info in graph.output]
        self._expansion.nodes(graph.node, outputs, values)
        results = [values[name] for name in outputs]
        found = [result for result in results if result is not None]
        if len(found) < len(results):
            raise NotSupportedError("a subgraph without one of its outputs")
        refuse_either(inputs, found)
        return found


def function_body(op: OnnxOp) -> onnx.FunctionProto | None:
    """The function that the ONNX standard defines an operator by, at its opset version; None when there is none."""
    if not onnx.defs.has(op.op, op.version, op.domain):
        return None
    schema = onnx.defs.get_schema(op.op, op.version, op.domain)
    if schema.has_function:
        return schema.function_body
    if not schema.has_context_dependent_function:
        return None
    node = onnx.helper.make_node(
        op.op,
        ["" if source is None else f"input{i}" for i, source in enumerate(op.inputs)],
        [f"output{i}" if op.wants(i) else "" for i in range(op.outputs)],
        domain=op.domain,
        **{name: _call(name, value) if hasattr(value, "passed") else value for name, value in op.attributes.items()},
    )
    types = []
    for source in op.inputs:
        if source is None:
            types.append(onnx.TypeProto().SerializeToString())
            continue
        extents = [str(extent) if extent.value is None else extent.value for extent in source.shape]
        types.append(onnx.helper.make_tensor_type_proto(source.dtype.onnx, extents).SerializeToString())
    serialized = schema.get_context_dependent_function(node.SerializeToString(), types)
    if not serialized:
        return None
    body = onnx.FunctionProto()
    body.ParseFromString(serialized)
    return body


def _call(name: str, subgraph: Subgraph) -> onnx.GraphProto:
    """What takes a subgraph's place while ONNX makes the body: one node, converted as the subgraph itself."""
    inputs, outputs = ([f"{kind}{i}" for i in range(count)]
                       for kind, count in (("i", subgraph.inputs), ("o", subgraph.outputs)))  # fmt: skip
    return onnx.helper.make_graph(
        [onnx.helper.make_node(name, inputs, outputs, domain=_CALL)],
        name,
        [onnx.helper.make_empty_tensor_value_info(value) for value in inputs],
        [onnx.helper.make_empty_tensor_value_info(value) for value in outputs],
    )


def _reads(node: onnx.NodeProto) -> set[str]:
    """Names that a node and the nodes of its subgraphs read."""
    names = set(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            names |= {info.name for info in attribute.g.output}
            names = names.union(*(_reads(inner) for inner in attribute.g.node))
    return names


def _trim(inputs: list[Tensor | None]) -> list[Tensor | None]:
    while inputs and inputs[-1] is None:
        inputs.pop()
    return inputs
