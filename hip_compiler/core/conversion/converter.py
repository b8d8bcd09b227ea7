"""Converts the operators of one function, in order, and collects everything that cannot be converted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx.defs
import onnx.helper
import onnx.numpy_helper

from hip_compiler.core.conversion import contents
from hip_compiler.core.conversion.early_opsets import restated
from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.onnx_op import NotSupportedError, OnnxOp, find_converter
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.errors import Unsupported

MAX_EXPANSION_DEPTH = 8


class Converter:
    """Converts operators one at a time.

    Attributes:
        findings: what could not be converted. Operators that only depend on such a result are not reported.
    """

    def __init__(self, emitter: Emitter, opsets: Mapping[str, int]) -> None:
        self.emitter = emitter
        self.opsets = opsets
        self.findings: list[Unsupported] = []

    def convert(self, op: OnnxOp, depth: int = 0) -> Sequence[Tensor | None]:
        """Results of an operator; None per result where it could not be converted (a finding says why)."""
        try:
            return self._results(op, depth)
        except NotSupportedError as error:
            self.report(op, str(error))
            return [None] * op.outputs

    def report(self, op: OnnxOp, reason: str) -> None:
        """Add a finding."""
        dtypes = tuple(str(source.dtype) for source in op.inputs if source is not None)
        self.findings.append(Unsupported(op.name, op.op, op.domain, op.version, dtypes, reason))

    def _results(self, op: OnnxOp, depth: int) -> Sequence[Tensor | None]:
        """Results of an operator, all of whose attributes are of effect, or known not to be."""
        op = restated(self.emitter, op)
        results = self._made(op, depth)
        unread = sorted(set(op.attributes) - op.read)
        if unread:
            raise NotSupportedError(f"attribute {', '.join(unread)} is not handled")
        return results

    def _made(self, op: OnnxOp, depth: int) -> Sequence[Tensor | None]:
        known = contents.shape_of(op) or contents.evaluate(op)
        if known is not None:
            return [known]
        converter = find_converter(op.domain, op.op, op.version)
        if converter is not None:
            made = converter.convert(self.emitter, op)
            return [made] if isinstance(made, Tensor) else list(made)
        claim = self.emitter.context.claim(op.domain, op.op, op.version)
        if claim is not None:
            return self._claimed(op, claim.lowers_to)
        body = function_body(op) if depth < MAX_EXPANSION_DEPTH else None
        if body is None:
            raise NotSupportedError("no conversion for this operator")
        op.read.update(op.attributes)
        return self._expand(op, body, depth)

    def _claimed(self, op: OnnxOp, name: str) -> Sequence[Tensor]:
        """The operation that a plugin's claim names: inputs by position, attributes by name."""
        definition = self.emitter.context.ops[name]
        inputs = {operand.name: op.optional(i) for i, operand in enumerate(definition.inputs)}
        given = {a.name: op.attr(a.name) for a in definition.attributes if a.name in op.attributes}
        first = op.input(0).dtype
        return self.emitter.hip(name, inputs, [first] * len(definition.outputs), **given)

    def _expand(self, op: OnnxOp, body: onnx.FunctionProto, depth: int) -> Sequence[Tensor | None]:
        """Convert the operator's function body in its place."""
        opsets = {entry.domain: entry.version for entry in body.opset_import}
        values: dict[str, Tensor | None] = {"": None}
        for position, name in enumerate(body.input):
            values[name] = op.optional(position)
        before = len(self.findings)
        for number, node in enumerate(body.node):
            attributes = _node_attributes(node, op.attributes)
            inner = OnnxOp(
                name=f"{op.name}/{node.name or node.op_type}",
                op=node.op_type,
                domain=node.domain,
                version=opsets.get(node.domain, 1),
                inputs=_trim([values[name] for name in node.input]),
                outputs=len(node.output),
                attributes=attributes,
                used=[_is_used(name, body, number) for name in node.output],
            )
            results = self.convert(inner, depth + 1)
            if len(self.findings) > before:
                reasons = "; ".join(f"{f.op}: {f.reason}" for f in self.findings[before:])
                del self.findings[before:]
                raise NotSupportedError(f"its function body needs {reasons}")
            values.update(zip(node.output, results, strict=False))
        # A function made for this node leaves out results that nobody asked for.
        return [values.get(name) for name in body.output][: op.outputs]


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
        **op.attributes,
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


def _node_attributes(node: onnx.NodeProto, outer: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a node of a function body; references take the value of the function's attribute."""
    found = {}
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in outer:
                found[attribute.name] = outer[attribute.ref_attr_name]
            continue
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            value = value.decode()
        elif isinstance(value, onnx.TensorProto):
            value = onnx.numpy_helper.to_array(value)
        elif attribute.type == onnx.AttributeProto.STRINGS:
            value = [text.decode() for text in value]
        found[attribute.name] = value
    return found


def _is_used(name: str, body: onnx.FunctionProto, number: int) -> bool:
    return name in body.output or any(name in later.input for later in body.node[number + 1 :])


def _trim(inputs: list[Tensor | None]) -> list[Tensor | None]:
    while inputs and inputs[-1] is None:
        inputs.pop()
    return inputs
