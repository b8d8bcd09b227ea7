"""Model-local functions, inlined: every call becomes the function's nodes under names of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import onnx

from hip_compiler.errors import ErrorCode, HipCompilerError

INLINED_NODES = 1_000_000
"""Nested functions can grow exponentially; a model that grows beyond this is refused."""

OPSET_ATTRIBUTE = "hip.opset"
"""Attribute of a node whose operator is meant in another version of its domain than the model imports."""

Key = tuple[str, str, str]


@dataclass
class FunctionInliner:
    """Replaces calls of model-local functions by their nodes.

    Attributes:
        functions: function by domain, name and overload.
        opsets: versions that the model imports, by domain.
        mixed: set when a function needs another version of a domain than the model imports.
    """

    functions: Mapping[Key, onnx.FunctionProto]
    opsets: Mapping[str, int]
    mixed: bool = False
    _count: int = 0
    _calls: int = 0
    _stack: list[Key] = field(default_factory=list)

    def inline(self, nodes: Iterable[onnx.NodeProto]) -> list[onnx.NodeProto]:
        """The nodes with every call expanded, also in subgraphs; the given messages are not modified.

        Raises:
            HipCompilerError: `HIPC0102` for recursive functions, or calls that do not fit their function.
        """
        result: list[onnx.NodeProto] = []
        for node in nodes:
            key = (_domain(node.domain), node.op_type, node.overload)
            function = self.functions.get(key)
            if function is not None:
                result += self._expand(node, key, function)
                continue
            self._count += 1
            if self._count > INLINED_NODES:
                raise HipCompilerError(
                    ErrorCode.MODEL_INVALID, f"the model's functions expand to more than {INLINED_NODES} nodes"
                )
            result.append(self._inline_subgraphs(node))
        return result

    def _inline_subgraphs(self, node: onnx.NodeProto) -> onnx.NodeProto:
        if not any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute):
            return node
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for attribute in copy.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                body = self.inline(attribute.g.node)
                del attribute.g.node[:]
                attribute.g.node.extend(body)
        return copy

    def _expand(self, call: onnx.NodeProto, key: Key, function: onnx.FunctionProto) -> list[onnx.NodeProto]:
        where = f"node '{call.name or next(iter(call.output), '')}' ({call.op_type})"
        if key in self._stack:
            raise HipCompilerError(ErrorCode.MODEL_INVALID, "a model-local function calls itself", where=where)
        if len(call.input) > len(function.input) or len(call.output) > len(function.output):
            raise HipCompilerError(
                ErrorCode.MODEL_INVALID,
                f"the call has {len(call.input)} inputs and {len(call.output)} outputs, "
                f"the function {len(function.input)} and {len(function.output)}",
                where=where,
            )
        self._calls += 1
        name = call.name or call.op_type
        renamer = _Renamer(f"{name}#{self._calls}", _attributes(call, function))
        for number, formal in enumerate(function.input):
            renamer.names[formal] = call.input[number] if number < len(call.input) else ""
        forwarded: list[tuple[str, str]] = []
        for formal, actual in zip(function.output, call.output, strict=False):
            if not actual:
                continue
            if formal in renamer.names:
                forwarded.append((renamer.names[formal], actual))
            else:
                renamer.names[formal] = actual
        body = [renamer.node(node, name) for node in function.node]
        self._mark_opsets(body, function)
        body += [onnx.helper.make_node("Identity", [source], [target], name=name) for source, target in forwarded]
        self._stack.append(key)
        result = self.inline(body)
        self._stack.pop()
        return result

    def _mark_opsets(self, nodes: Iterable[onnx.NodeProto], function: onnx.FunctionProto) -> None:
        versions = {_domain(entry.domain): entry.version for entry in function.opset_import}
        differing = {domain: version for domain, version in versions.items() if self.opsets.get(domain) != version}
        if not differing:
            return
        for node in nodes:
            domain = _domain(node.domain)
            if domain in differing:
                self.mixed = True
                node.attribute.append(onnx.helper.make_attribute(OPSET_ATTRIBUTE, differing[domain]))
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    self._mark_opsets(attribute.g.node, function)


def inline_functions(model: onnx.ModelProto, opsets: Mapping[str, int]) -> tuple[list[onnx.NodeProto], bool]:
    """Nodes of the main graph with every call of a model-local function expanded.

    Returns:
        The nodes, and whether some of them carry `hip.opset`, that is belong to another operator set version.
    """
    if not model.functions:
        return list(model.graph.node), False
    functions = {(_domain(f.domain), f.name, f.overload): f for f in model.functions}
    inliner = FunctionInliner(functions, opsets)
    return inliner.inline(model.graph.node), inliner.mixed


@dataclass
class _Renamer:
    """Copies the nodes of one call with the call's values, attributes and name prefix."""

    prefix: str
    attributes: Mapping[str, onnx.AttributeProto]
    names: dict[str, str] = field(default_factory=dict)

    def value(self, name: str) -> str:
        if not name:
            return ""
        return self.names.setdefault(name, f"{self.prefix}/{name}")

    def node(self, node: onnx.NodeProto, caller: str) -> onnx.NodeProto:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{caller}/{node.name or node.op_type}"
        for values in (copy.input, copy.output):
            renamed = [self.value(name) for name in values]
            del values[:]
            values.extend(renamed)
        bound = [self._bind(attribute) for attribute in copy.attribute]
        del copy.attribute[:]
        copy.attribute.extend(attribute for attribute in bound if attribute is not None)
        for attribute in copy.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                self._subgraph(attribute.g, caller)
        return copy

    def _bind(self, attribute: onnx.AttributeProto) -> onnx.AttributeProto | None:
        if not attribute.ref_attr_name:
            return attribute
        given = self.attributes.get(attribute.ref_attr_name)
        if given is None:
            return None
        bound = onnx.AttributeProto()
        bound.CopyFrom(given)
        bound.name = attribute.name
        return bound

    def _subgraph(self, graph: onnx.GraphProto, caller: str) -> None:
        for info in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            info.name = self.value(info.name)
        for sparse in graph.sparse_initializer:
            sparse.values.name = self.value(sparse.values.name)
        nodes = [self.node(node, caller) for node in graph.node]
        del graph.node[:]
        graph.node.extend(nodes)


def _attributes(call: onnx.NodeProto, function: onnx.FunctionProto) -> dict[str, onnx.AttributeProto]:
    defaults = {attribute.name: attribute for attribute in function.attribute_proto}
    return defaults | {attribute.name: attribute for attribute in call.attribute}


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain
