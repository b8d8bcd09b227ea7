"""Nodes, constants and subgraphs of a `GraphProto` as operations of the `onnx` dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.frontend.attributes import (
    UNKNOWN,
    constant_attributes,
    constant_type,
    dense_attribute,
    tensor_type,
)
from hip_compiler.core.frontend.external import ExternalData
from hip_compiler.core.frontend.tensors import element_type, sparse_array, tensor_array
from hip_compiler.core.mlir import ir
from hip_compiler.errors import ErrorCode, HipCompilerError


@dataclass
class Scope:
    """Values by name in one graph; a subgraph sees the values of the graphs around it.

    Attributes:
        block: block that receives the graph's operations.
        parent: scope of the graph around this one.
        later: names that nodes of the graph define, for telling an unsorted graph from an unknown value.
    """

    block: Any
    parent: Scope | None = None
    later: frozenset[str] = frozenset()
    values: dict[str, Any] = field(default_factory=dict)
    none: Any = None

    def define(self, name: str, value: Any, where: str) -> None:
        """Name a value.

        Raises:
            HipCompilerError: `HIPC0102` when the name is taken.
        """
        if name in self.values:
            raise HipCompilerError(ErrorCode.MODEL_INVALID, f"two values are named '{name}'", where=where)
        self.values[name] = value

    def lookup(self, name: str, where: str) -> Any:
        """The value of a name, here or in a surrounding graph.

        Raises:
            HipCompilerError: `HIPC0102` when no value has the name so far.
        """
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        scope = self
        while scope is not None:
            if name in scope.later:
                raise HipCompilerError(
                    ErrorCode.MODEL_INVALID,
                    f"value '{name}' is used before the node that produces it",
                    where=where,
                    why="ONNX asks for nodes in topological order",
                )
            scope = scope.parent
        raise HipCompilerError(ErrorCode.MODEL_INVALID, f"nothing produces value '{name}'", where=where)

    def no_value(self) -> Any:
        """The `onnx.NoValue` of this block, which stands for absent inputs."""
        if self.none is None:
            operation = ir.Operation.create(
                "onnx.NoValue", results=[ir.NoneType.get()], ip=ir.InsertionPoint.at_block_begin(self.block)
            )
            self.none = operation.results[0]
        return self.none


class GraphBuilder:
    """Builds operations at the end of a scope's block. An MLIR context must be active.

    Args:
        constants: receives the contents of large constants.
        external: the model's external data.
    """

    def __init__(self, constants: ConstantPool, external: ExternalData) -> None:
        self.constants = constants
        self.external = external
        self._types: dict[str, onnx.TypeProto] = {}
        self._cache: dict[tuple[int, tuple[int | None, ...] | None], Any] = {}
        self._unknown = ir.Type.parse(UNKNOWN)
        self._none = ir.NoneType.get()
        self._i64 = ir.IntegerType.get_signless(64)
        self._f32 = ir.F32Type.get()

    def declare(self, graph: onnx.GraphProto) -> None:
        """Learn the types that a graph records for its values."""
        for info in (*graph.output, *graph.value_info, *graph.input):
            if info.HasField("type"):
                self._types[info.name] = info.type

    def type_of(self, name: str) -> Any:
        """Type of a named value; `!onnx.unknown` when nothing is known."""
        proto = self._types.get(name)
        return self._unknown if proto is None else self._type(proto, name)

    def initializer(self, tensor: onnx.TensorProto, scope: Scope) -> None:
        self._constant(tensor.name, tensor_array(tensor, self.external), tensor.name, scope)

    def sparse_initializer(self, sparse: onnx.SparseTensorProto, scope: Scope) -> None:
        self._constant(sparse.values.name, sparse_array(sparse, self.external), sparse.values.name, scope)

    def lifted_constant(self, name: str, tensor: onnx.TensorProto, node: onnx.NodeProto, scope: Scope) -> None:
        """The `Constant` node of a large tensor."""
        self._constant(name, tensor_array(tensor, self.external), node.name or name, scope)

    def node(self, node: onnx.NodeProto, scope: Scope) -> None:
        """One node.

        Raises:
            HipCompilerError: `HIPC0102` for values that are not there, names used twice, or broken attributes.
        """
        outputs = node.output
        label = node.name or next((name for name in outputs if name), "") or node.op_type
        where = f"node '{label}' ({node.op_type})"
        default_domain = node.domain in ("", "ai.onnx")
        if node.op_type == "Constant" and default_domain:
            array = self._constant_node(node, where)
            if len(outputs) != 1 or not outputs[0]:
                raise HipCompilerError(ErrorCode.MODEL_INVALID, "a Constant node has one output", where=where)
            self._constant(outputs[0], array, label, scope, where)
            return
        if not node.op_type or any(not (c.isalnum() or c in "_$.") for c in node.op_type):
            raise HipCompilerError(ErrorCode.MODEL_INVALID, f"'{node.op_type}' is no operator name", where=where)
        names = list(node.input)
        while names and not names[-1]:
            names.pop()
        operands = [scope.lookup(name, where) if name else scope.no_value() for name in names]
        graphs: list[tuple[str, onnx.GraphProto]] = []
        attributes: dict[str, Any] = {} if default_domain else {"domain": ir.StringAttr.get(node.domain)}
        for attribute in node.attribute:
            if attribute.name in attributes or any(attribute.name == name for name, _ in graphs):
                raise HipCompilerError(
                    ErrorCode.MODEL_INVALID, f"attribute '{attribute.name}' is given twice", where=where
                )
            if attribute.type == AttributeProto.GRAPH:
                graphs.append((attribute.name, attribute.g))
            else:
                attributes[attribute.name] = self._attribute(attribute, where)
        graphs.sort(key=lambda item: item[0])
        if graphs:
            attributes["region_names"] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name, _ in graphs])
        operation = ir.Operation.create(
            f"onnx.{node.op_type}",
            results=[self.type_of(name) if name else self._none for name in outputs],
            operands=operands,
            attributes=attributes,
            regions=len(graphs),
            loc=ir.Location.name(label),
            ip=ir.InsertionPoint(scope.block),
        )
        for region, (name, graph) in zip(operation.regions, graphs, strict=True):
            self._subgraph(graph, region, scope, f"{where}, {name}")
        for name, result in zip(outputs, operation.results, strict=True):
            if name:
                scope.define(name, result, where)

    def _subgraph(self, graph: onnx.GraphProto, region: Any, parent: Scope, where: str) -> None:
        outer = dict(self._types)
        self.declare(graph)
        defined = {tensor.name for tensor in graph.initializer}
        inputs = [info.name for info in graph.input if info.name not in defined]
        block = region.blocks.append(*[self.type_of(name) for name in inputs])
        scope = Scope(block, parent, frozenset(name for node in graph.node for name in node.output))
        for name, argument in zip(inputs, block.arguments, strict=True):
            scope.define(name, argument, where)
        for tensor in graph.initializer:
            self.initializer(tensor, scope)
        for sparse in graph.sparse_initializer:
            self.sparse_initializer(sparse, scope)
        for node in graph.node:
            self.node(node, scope)
        results = [scope.lookup(info.name, f"{where}, output") for info in graph.output]
        ir.Operation.create("onnx.Yield", operands=results, ip=ir.InsertionPoint(block))
        self._types = outer

    def _constant(self, name: str, array: np.ndarray, label: str, scope: Scope, where: str = "") -> None:
        operation = ir.Operation.create(
            "onnx.Constant",
            results=[constant_type(array)],
            attributes=constant_attributes(array, name, self.constants),
            loc=ir.Location.name(label),
            ip=ir.InsertionPoint(scope.block),
        )
        scope.define(name, operation.results[0], where or f"initializer '{name}'")

    def _constant_node(self, node: onnx.NodeProto, where: str) -> np.ndarray:
        given = [attribute for attribute in node.attribute if attribute.name in ("value", "sparse_value", *_CONSTANTS)]
        if len(given) != 1:
            raise HipCompilerError(
                ErrorCode.MODEL_INVALID, f"a Constant node has one value attribute, not {len(given)}", where=where
            )
        attribute = given[0]
        if attribute.name == "value":
            return tensor_array(attribute.t, self.external)
        if attribute.name == "sparse_value":
            return sparse_array(attribute.sparse_tensor, self.external)
        return _CONSTANTS[attribute.name](attribute)

    def _attribute(self, attribute: AttributeProto, where: str) -> Any:
        kind = attribute.type
        if kind == AttributeProto.INT:
            return ir.IntegerAttr.get(self._i64, attribute.i)
        if kind == AttributeProto.FLOAT:
            return ir.FloatAttr.get(self._f32, attribute.f)
        if kind == AttributeProto.STRING:
            return ir.StringAttr.get(attribute.s)
        if kind == AttributeProto.INTS:
            return ir.DenseI64ArrayAttr.get(list(attribute.ints))
        if kind == AttributeProto.FLOATS:
            return ir.DenseF32ArrayAttr.get(list(attribute.floats))
        if kind == AttributeProto.STRINGS:
            return ir.ArrayAttr.get([ir.StringAttr.get(text) for text in attribute.strings])
        if kind == AttributeProto.TENSOR:
            array = tensor_array(attribute.t, self.external)
            if array.dtype != object and not np.iscomplexobj(array):
                return dense_attribute(array)
            return ir.DictAttr.get(constant_attributes(array, attribute.name, self.constants))
        if kind == AttributeProto.TYPE_PROTO:
            return ir.TypeAttr.get(self._type(attribute.tp, where))
        word = AttributeProto.AttributeType.Name(kind) if kind in AttributeProto.AttributeType.values() else str(kind)
        raise HipCompilerError(
            ErrorCode.MODEL_INVALID,
            f"attribute '{attribute.name}' is of kind {word}, which no operator takes",
            where=where,
            why=f"it refers to attribute '{attribute.ref_attr_name}' of a function" if attribute.ref_attr_name else "",
        )

    def _type(self, proto: onnx.TypeProto, name: str) -> Any:
        kind = proto.WhichOneof("value")
        if kind != "tensor_type":
            return ir.Type.parse(_OPAQUE.get(kind or "", UNKNOWN))
        tensor = proto.tensor_type
        if tensor.elem_type == onnx.TensorProto.UNDEFINED:
            return self._unknown
        shape: tuple[int | None, ...] | None = None
        if tensor.HasField("shape"):
            shape = tuple(
                dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in tensor.shape.dim
            )
        key = (tensor.elem_type, shape)
        if key not in self._cache:
            self._cache[key] = tensor_type(element_type(tensor.elem_type, f"value '{name}'"), shape)
        return self._cache[key]


_OPAQUE = {
    "sequence_type": "!onnx.sequence",
    "optional_type": "!onnx.optional",
    "map_type": "!onnx.map",
    "sparse_tensor_type": "!onnx.sparse_tensor",
}


def _strings(values: list[bytes], shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)


_CONSTANTS: dict[str, Callable[[AttributeProto], np.ndarray]] = {
    "value_float": lambda attribute: np.array(attribute.f, np.float32),
    "value_floats": lambda attribute: np.array(attribute.floats, np.float32),
    "value_int": lambda attribute: np.array(attribute.i, np.int64),
    "value_ints": lambda attribute: np.array(attribute.ints, np.int64),
    "value_string": lambda attribute: _strings([attribute.s], ()),
    "value_strings": lambda attribute: _strings(list(attribute.strings), (len(attribute.strings),)),
}
