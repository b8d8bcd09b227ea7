"""Converts the operators of a block of the `onnx` dialect: a graph, or a subgraph that sees the graphs around it."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from typing import Any

import numpy as np

from hip_compiler.core.conversion.converter import Converter
from hip_compiler.core.conversion.onnx_op import NotSupportedError, OnnxOp, SubgraphError, refuse_either
from hip_compiler.core.conversion.tensors import Absent, Tensor, constant
from hip_compiler.core.frontend.attributes import constant_array, dense_array
from hip_compiler.core.frontend.node import REFUSED
from hip_compiler.core.frontend.opsets import opset_of
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.dtypes import BY_NUMPY
from hip_compiler.errors import HipCompilerError

_TERMINATORS = ("func.return", "onnx.Yield")


class BlockConversion:
    """Converts blocks of one function.

    Attributes:
        tensors: what values of the `onnx` dialect became; None where an optional value is absent. Values that could
            not be converted are missing. Inside of a subgraph, its own values come first.
    """

    def __init__(self, converter: Converter, context: PassContext) -> None:
        self.converter = converter
        self.context = context
        self.tensors: ChainMap[Any, Tensor | None] = ChainMap()

    def run(self, block: Any) -> list[Tensor | None]:
        """Convert a block at the current insertion point; what it returns, None where that is not converted."""
        for op in block.operations:
            operation = op.operation
            if operation.name in _TERMINATORS:
                return [self._returned(operand) for operand in operation.operands]
            with operation.location:
                self._convert(operation)
        return []

    def _returned(self, value: Any) -> Tensor | None:
        found = self.tensors.get(value)
        return Absent() if found is None and value in self.tensors else found

    def _convert(self, operation: Any) -> None:
        if operation.name == "onnx.NoValue":
            self.tensors[operation.result] = None
            return
        if operation.name == "onnx.Constant":
            self._constant(operation)
            return
        if REFUSED in operation.attributes:
            return
        operands = list(operation.operands)
        if any(operand not in self.tensors for operand in operands):
            return  # It depends on an operator that is reported already.
        op = self._onnx_op(operation, operands)
        claim = self.context.claim(op.domain, op.op, op.version)
        problem = claim.verify(operation) if claim is not None and claim.verify is not None else None
        if problem is not None:
            self.converter.report(op, problem)
            return
        try:
            results = self.converter.convert(op)
        except HipCompilerError as error:
            error.where = error.where or f"{op.name} ({op.op})"
            raise
        for value, result in zip(operation.results, results, strict=False):
            if result is not None:
                self.tensors[value] = None if isinstance(result, Absent) else result

    def _constant(self, operation: Any) -> None:
        array = constant_array(operation.result, self.context.constants)
        assert array is not None
        if array.dtype == object:
            self._strings(operation, array)
            return
        attributes = operation.attributes
        buffer = attributes["buffer"].value if "buffer" in attributes else None
        self.tensors[operation.result] = constant(array, BY_NUMPY[array.dtype], buffer)

    def _strings(self, operation: Any, texts: np.ndarray) -> None:
        try:
            self.tensors[operation.result] = self.converter.emitter.strings(texts)
        except UnicodeDecodeError as error:
            self.converter.report(self._onnx_op(operation, []), f"a string that is no UTF-8: {error}")

    def _onnx_op(self, operation: Any, operands: list[Any]) -> OnnxOp:
        attributes = operation.attributes
        domain = attributes["domain"].value if "domain" in attributes else ""
        values = {
            name: _python_value(attributes[name])
            for name in attributes
            if name not in ("domain", "region_names") and not name.startswith("hip.")
        }
        if "region_names" in attributes:
            for number, name in enumerate(attributes["region_names"]):
                values[name.value] = RegionSubgraph(self, operation.regions[number].blocks[0])
        return OnnxOp(
            name=_location_name(operation.location),
            op=operation.name.removeprefix("onnx."),
            domain=domain,
            version=opset_of(operation, self.converter.opsets),
            inputs=[self.tensors[operand] for operand in operands],
            outputs=len(operation.results),
            attributes=values,
            used=[any(True for _ in result.uses) for result in operation.results],
        )


class RegionSubgraph:
    """A subgraph that is a block of a region."""

    def __init__(self, conversion: BlockConversion, block: Any) -> None:
        self._conversion = conversion
        self._block = block
        self._results = list(block.operations[len(block.operations) - 1].operands)
        self.inputs = len(block.arguments)
        self.outputs = len(self._results)

    def passed(self) -> tuple[int | None, ...]:
        """For each output the number of the input that it is, None where it is computed."""
        arguments = {argument: number for number, argument in enumerate(self._block.arguments)}
        return tuple(arguments.get(_behind_identity(value)) for value in self._results)

    def convert(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Convert the subgraph at the current insertion point.

        Raises:
            SubgraphError: operators that cannot be converted.
        """
        conversion, findings = self._conversion, self._conversion.converter.findings
        before = len(findings)
        outer = conversion.tensors
        given = (None if isinstance(source, Absent) else source for source in inputs)
        conversion.tensors = outer.new_child(dict(zip(self._block.arguments, given, strict=True)))
        try:
            results = conversion.run(self._block)
        finally:
            conversion.tensors = outer
            inside = findings[before:]
            del findings[before:]
        if inside or any(result is None for result in results):
            raise SubgraphError(inside)
        refuse_either(inputs, results)
        return [result for result in results if result is not None]


def _behind_identity(value: Any) -> Any:
    while not isinstance(value.owner, ir.Block) and value.owner.name == "onnx.Identity":
        value = value.owner.operands[0]
    return value


def _location_name(location: Any) -> str:
    text = str(location)
    return text[5:-2] if text.startswith('loc("') and text.endswith('")') else text


def _python_value(attribute: Any) -> Any:
    if isinstance(attribute, (ir.IntegerAttr, ir.FloatAttr, ir.StringAttr)):
        return attribute.value
    if isinstance(attribute, (ir.DenseI64ArrayAttr, ir.DenseF32ArrayAttr)):
        return list(attribute)
    if isinstance(attribute, ir.ArrayAttr):
        return [_python_value(element) for element in attribute]
    if isinstance(attribute, ir.DenseElementsAttr):
        return dense_array(attribute)
    if isinstance(attribute, ir.DictAttr) and "strings" in attribute:
        texts = np.array([text.value for text in attribute["strings"]], dtype=object)
        return texts.reshape(tuple(attribute["shape"]))
    if isinstance(attribute, ir.TypeAttr):
        return str(attribute)
    raise NotSupportedError(f"attribute {attribute}")
