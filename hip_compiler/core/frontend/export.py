"""`export_model`: a module of the `onnx` dialect becomes a `ModelProto` again."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import helper

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.frontend.attributes import constant_array
from hip_compiler.core.frontend.functions import OPSET_ATTRIBUTE
from hip_compiler.core.frontend.node import domain_of, node_proto, tensor_proto, type_proto
from hip_compiler.core.frontend.opsets import module_opsets, opset_of
from hip_compiler.core.mlir import ir

IR_VERSION = 10


def export_model(module: Any, constants: ConstantPool) -> onnx.ModelProto:
    """The model of a module.

    An operation that belongs to another version of its domain than the module (`hip.opset`) becomes a call
    of a model-local function with the import it needs.

    Args:
        module: module of the `onnx` dialect with one function.
        constants: contents of its large constants.
    """
    function = next(op for op in module.body.operations if op.operation.name == "func.func").operation
    exporter = _Exporter(constants, module_opsets(module))
    block = function.regions[0].blocks[0]
    graph = onnx.GraphProto(name=module.operation.attributes["onnx.model"].value)
    for argument, attributes in zip(block.arguments, function.attributes["arg_attrs"], strict=True):
        name = attributes["onnx.name"].value
        exporter.names[argument] = name
        graph.input.append(_value_info(name, argument.type))
    outputs = [attributes["onnx.name"].value for attributes in function.attributes["res_attrs"]]
    exporter.block(block, graph, outputs)
    model = helper.make_model(graph, opset_imports=exporter.imports(), functions=list(exporter.functions.values()))
    model.ir_version = IR_VERSION
    return model


class _Exporter:
    def __init__(self, constants: ConstantPool, opsets: dict[str, int]) -> None:
        self.constants = constants
        self.opsets = opsets
        self.names: dict[Any, str] = {}
        self.functions: dict[tuple[str, int], onnx.FunctionProto] = {}
        self.nodes: set[str] = set()
        self._count = 0

    def imports(self) -> list[onnx.OperatorSetIdProto]:
        extra = {f.domain: 1 for f in self.functions.values()}
        return [helper.make_opsetid(domain, version) for domain, version in (self.opsets | extra).items()]

    def block(self, block: Any, graph: onnx.GraphProto, outputs: list[str] | None) -> None:
        """Append a block's operations to a graph; the operands of its terminator become the outputs.

        Args:
            outputs: names of the graph's outputs; None: free ones.
        """
        terminator = None
        for op in block.operations:
            operation = op.operation
            if operation.name in ("func.return", "onnx.Yield"):
                terminator = operation
            elif operation.name == "onnx.Constant":
                self._constant(operation, graph)
            elif operation.name != "onnx.NoValue":
                graph.node.append(self._node(operation))
        assert terminator is not None, "a block of the onnx dialect ends in a terminator"
        for number, value in enumerate(terminator.operands):
            # The value keeps its own name: it may be an input, a constant, or an output twice.
            name = self._fresh("output") if outputs is None else outputs[number]
            graph.node.append(helper.make_node("Identity", [self._name(value)], [name]))
            graph.output.append(_value_info(name, value.type))

    def _constant(self, operation: Any, graph: onnx.GraphProto) -> None:
        value = operation.results[0]
        array = constant_array(value, self.constants)
        assert array is not None, "the operation is a constant"
        graph.initializer.append(tensor_proto(array, self._name(value)))

    def _node(self, operation: Any) -> onnx.NodeProto:
        inputs = ["" if isinstance(value.type, ir.NoneType) else self._name(value) for value in operation.operands]
        outputs = ["" if isinstance(value.type, ir.NoneType) else self._name(value) for value in operation.results]
        node = node_proto(operation, inputs, outputs)
        if node.name in self.nodes:
            # Rewrites leave several operations at one location; the names of nodes must differ.
            node.name = self._fresh(node.name)
        self.nodes.add(node.name)
        if len(operation.regions):
            for name, region in zip(operation.attributes["region_names"], operation.regions, strict=True):
                node.attribute.append(helper.make_attribute(name.value, self._graph(name.value, region.blocks[0])))
        opset = opset_of(operation, self.opsets)
        if OPSET_ATTRIBUTE not in operation.attributes or opset == self.opsets.get(domain_of(operation)):
            return node
        return self._call(node, opset)

    def _graph(self, name: str, block: Any) -> onnx.GraphProto:
        graph = onnx.GraphProto(name=name)
        for argument in block.arguments:
            graph.input.append(_value_info(self._name(argument), argument.type))
        self.block(block, graph, None)
        return graph

    def _call(self, node: onnx.NodeProto, opset: int) -> onnx.NodeProto:
        """A call of a function that holds the node alone and imports the version it needs."""
        domain = f"hip_compiler.opset{opset}"
        name = f"{node.op_type}_{len(self.functions)}"
        inner = onnx.NodeProto()
        inner.CopyFrom(node)
        formal_inputs = [f"i{number}" for number in range(len(node.input))]
        formal_outputs = [f"o{number}" for number in range(len(node.output))]
        del inner.input[:], inner.output[:]
        inner.input.extend(formal if actual else "" for formal, actual in zip(formal_inputs, node.input, strict=True))
        inner.output.extend(
            formal if actual else "" for formal, actual in zip(formal_outputs, node.output, strict=True)
        )
        self.functions[name, opset] = helper.make_function(
            domain, name, formal_inputs, formal_outputs, [inner], [helper.make_opsetid(node.domain, opset)]
        )
        return helper.make_node(name, list(node.input), list(node.output), name=node.name, domain=domain)

    def _name(self, value: Any) -> str:
        if value not in self.names:
            self.names[value] = self._fresh("value")
        return self.names[value]

    def _fresh(self, stem: str) -> str:
        self._count += 1
        return f"%{stem}{self._count}"


def _value_info(name: str, type_: Any) -> onnx.ValueInfoProto:
    info = onnx.ValueInfoProto(name=name)
    proto = type_proto(type_)
    if proto is not None:
        info.type.CopyFrom(proto)
    return info
