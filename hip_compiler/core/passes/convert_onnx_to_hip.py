"""`convert-onnx-to-hip`: operators become library operations, generic loops and views."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hip_compiler.core.conversion import ops as _converters  # noqa: F401  (fills the converter table)
from hip_compiler.core.conversion.available import unavailable
from hip_compiler.core.conversion.blocks import BlockConversion
from hip_compiler.core.conversion.converter import Converter
from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.extents import ExtentValues, index
from hip_compiler.core.conversion.guesses import Guesses
from hip_compiler.core.conversion.onnx_op import EITHER, NotSupportedError
from hip_compiler.core.conversion.ports import Entry, Part, Port, compound_input, compound_output, tensor_port
from hip_compiler.core.conversion.tensors import Compound, ScalarOrVector, Tensor
from hip_compiler.core.dialects.access import read_op
from hip_compiler.core.dialects.hip.define import MAX_RANK
from hip_compiler.core.frontend.attributes import dtype_of, shape_of
from hip_compiler.core.frontend.compound_types import parse_compound
from hip_compiler.core.frontend.opsets import module_opsets
from hip_compiler.core.mlir import ir, tensor
from hip_compiler.core.passes.base import PassContext
from hip_compiler.dtypes import BY_NAME, BY_NUMPY
from hip_compiler.errors import ErrorCode, HipCompilerError, Unsupported, UnsupportedError
from hip_compiler.registry.contributions import OpDef
from hip_compiler.shapes import Shape, Symbol, dim, symbol

ENTRY = "main_graph"
INTERFACE = "hip.interface"
CACHES = {
    "hip.kv_append": {"present": "past"},
    "hip.kv_append_quantized": {"present": "past"},
    "hip.cached_attention": {"present_k": "past_k", "present_v": "past_v"},
}
"""Operations that append to caches: input by output that may be one buffer."""
WINDOW = "hip.kv_window"


@dataclass(frozen=True)
class ConvertOnnxToHip:
    """In: `@main_graph(%ctx, ...)` of `onnx` operations. Out: the same function of `hip`, `linalg` and `tensor`
    operations on storage types, and the module attribute `hip.interface`.

    Raises:
        UnsupportedError: one report of every operator that has no conversion.
    """

    def apply(self, module: Any, context: PassContext) -> None:
        for op in list(module.regions[0].blocks[0].operations):
            if op.operation.name == "func.func" and op.operation.attributes["sym_name"].value == ENTRY:
                _convert(module, op.operation, context)
                return
        raise HipCompilerError(ErrorCode.PASS_FAILED, f"the module has no function @{ENTRY}")


def _convert(module: Any, function: Any, context: PassContext) -> None:
    guesses, failure = Guesses(), None
    while True:
        try:
            _FunctionConversion(module, function, context, guesses).run()
            return
        except UnsupportedError as error:
            failure = failure or error
            if not guesses.change():
                raise failure from None


class _FunctionConversion:
    def __init__(self, module: Any, function: Any, context: PassContext, guesses: Guesses) -> None:
        self.module = module
        self.old = function
        self.context = context
        self.guesses = guesses
        self.opsets = module_opsets(module)
        self.findings: list[Unsupported] = []

    def run(self) -> None:
        old_block = self.old.regions[0].blocks[0]
        arguments = list(old_block.arguments)
        if not arguments or str(arguments[0].type) != "!hip.context":
            raise HipCompilerError(
                ErrorCode.PASS_FAILED,
                f"@{ENTRY} has no context argument",
                hint="run hip-add-context-arg before this pass",
            )
        ports = {argument: self._input(position, argument) for position, argument in enumerate(arguments[1:])}
        usable = {argument: port for argument, port in ports.items() if port is not None}
        inputs = [part for port in usable.values() for part in port.parts]
        with ir.InsertionPoint(self.old), self.old.location:
            function, block = self._new_function(inputs)
            with ir.InsertionPoint(block):
                marker = ir.Operation.create("onnx.EntryMarker")
            emitter = Emitter(self.context, ExtentValues(ir.InsertionPoint(marker)), self.guesses)
            converter = Converter(emitter, self.opsets)
            blocks = BlockConversion(converter, self.context)
            with ir.InsertionPoint(block):
                for (_, source), value in zip(inputs, list(block.arguments)[1:], strict=True):
                    source.value = value
                    self._bind(source, emitter)
                blocks.tensors.update((argument, port.value) for argument, port in usable.items())
                results = [
                    self._result(position, result, emitter, converter)
                    for position, result in enumerate(blocks.run(old_block))
                ]
                self._check_names([*usable.values(), *results])
                findings = [*self.context.findings, *self.findings, *converter.findings]
                findings += unavailable(function, self.context, self.opsets.get("", 1))
                if findings:
                    function.erase()
                    raise UnsupportedError(findings, hint="hip-compiler coverage lists what can be compiled")
                outputs = [part for port in results for part in port.parts]
                values = [emitter.value(part) for _, part in outputs]
                ir.Operation.create("func.return", operands=values)
            marker.erase()
        compounds = [port.entry for port in (*usable.values(), *results) if port.entry is not None]
        self._finish(function, block, (inputs, outputs, compounds), values)

    def _input(self, position: int, argument: Any) -> Port | None:
        attributes = self._interface("arg_attrs", position + 1)
        name = attributes["onnx.name"].value if "onnx.name" in attributes else f"input{position}"
        kind = parse_compound(attributes["onnx.type"].value) if "onnx.type" in attributes else None
        if kind is not None:
            try:
                return compound_input(name, position, kind)
            except NotSupportedError as error:
                self._refuse(name, "graph input", str(error))
                return None
        dtype, extents = dtype_of(argument.type), shape_of(argument.type)
        if dtype is None or extents is None or dtype.kind in ("string", "complex"):
            advice = next((f"; {text}" for word, text in _ADVICE.items() if word in str(argument.type)), "")
            reason = f"{argument.type}: inputs must be tensors of numbers with a known rank{advice}"
            self._refuse(name, "graph input", reason)
            return None
        self._limit_rank(name, "graph input", len(extents))
        names = [text.value for text in attributes["onnx.dims"]] if "onnx.dims" in attributes else []
        shape = []
        for axis, extent in enumerate(extents):
            given = names[axis] if axis < len(names) else ""
            if not any(character.isalnum() for character in given):
                given = ""  # exporters write "?" for every dimension they know nothing of
            shape.append(dim(extent) if extent is not None else symbol(given or f"?{position}_{axis}"))
        return tensor_port(name, Tensor(tuple(shape), dtype))

    def _interface(self, kind: str, position: int) -> Mapping[str, Any]:
        attributes = self.old.attributes
        return attributes[kind][position] if kind in attributes else {}

    def _new_function(self, inputs: list[Part]) -> tuple[Any, Any]:
        emitter = Emitter(self.context, ExtentValues(None))
        types = [ir.Type.parse("!hip.context"), *(emitter.tensor_type(t.shape, t.dtype) for _, t in inputs)]
        function = ir.Operation.create(
            "func.func",
            regions=1,
            attributes={
                "sym_name": ir.StringAttr.get(f"{ENTRY}.converted"),
                "function_type": _function_type(types, []),
            },
        )
        return function, function.regions[0].blocks.append(*types)

    def _bind(self, source: Tensor, emitter: Emitter) -> None:
        """Tie the symbols of an input to its run-time extents; the first input that has a symbol decides."""
        for axis, extent in enumerate(source.shape):
            if extent.value is None:
                atom = extent.terms[0][0][0]
                assert isinstance(atom, Symbol)
                if not emitter.extents.is_bound(atom):
                    with emitter.extents.entry:
                        value = tensor.dim(source.value, index(axis))
                    emitter.extents.bind(atom, value, at_entry=True)

    def _result(self, position: int, result: Tensor | None, emitter: Emitter, converter: Converter) -> Port:
        name, attributes = self._output_name(position), self._interface("res_attrs", position)
        if result is None:
            assert converter.findings or self.findings or self.context.findings, (
                "a result without conversion has a finding"
            )
            return tensor_port(name, Tensor((), BY_NUMPY[_FLOAT32]))
        kind = parse_compound(attributes["onnx.type"].value) if "onnx.type" in attributes else None
        try:
            if isinstance(result, ScalarOrVector):
                raise NotSupportedError(EITHER)
            if isinstance(result, Compound) or (kind is not None and (kind.sequence or kind.optional)):
                return compound_output(emitter, name, result, kind)
        except NotSupportedError as error:
            self._refuse(name, "graph output", str(error))
            return tensor_port(name, Tensor((), BY_NUMPY[_FLOAT32]))
        self._limit_rank(name, "graph output", result.rank)
        return tensor_port(name, result)

    def _check_names(self, ports: list[Port]) -> None:
        """The tensors of a sequence have names of their own, by which a run knows them."""
        whole = {name for port in ports if port.entry is None for name, _ in port.parts}
        for entry, parts in ((port.entry, port.parts) for port in ports):
            if entry is not None:
                for name in whole.intersection(part for part, _ in parts):
                    self._refuse(name, "model interface", f"part of '{entry['name']}' has this name; rename it")

    def _refuse(self, name: str, place: str, reason: str) -> None:
        self.findings.append(Unsupported(name, place, "", self.opsets.get("", 1), (), reason))

    def _limit_rank(self, name: str, place: str, rank: int) -> None:
        if rank > MAX_RANK:
            reason = f"{rank} dimensions: inputs and outputs have at most {MAX_RANK}; reshape it in the model"
            self._refuse(name, place, reason)

    def _output_name(self, position: int) -> str:
        attributes = self._interface("res_attrs", position)
        return attributes["onnx.name"].value if "onnx.name" in attributes else f"output{position}"

    def _finish(
        self, function: Any, block: Any, interface: tuple[list[Part], list[Part], list[Entry]], values: list[Any]
    ) -> None:
        inputs, outputs, compounds = interface
        arguments = [argument.type for argument in block.arguments]
        function.attributes["function_type"] = _function_type(arguments, [value.type for value in values])
        document = {
            "inputs": [_entry(*pair) for pair in inputs],
            "outputs": [_entry(*pair) for pair in outputs],
            "shared": _shared(inputs, outputs, self.context.ops),
            "compounds": compounds,
            "strings": [name for name, source in (*inputs, *outputs) if source.dtype.kind == "string"],
            "vocabulary": self.context.vocabulary.texts,
        }
        self.module.attributes[INTERFACE] = ir.StringAttr.get(json.dumps(document))
        self.old.erase()
        function.attributes["sym_name"] = ir.StringAttr.get(ENTRY)


_ADVICE = {
    "sequence": "a sequence of tensors of numbers can be an input",
    "complex": "make real and imaginary parts a last axis of two",
    "optional": "an optional of a tensor of numbers, or of a sequence of such, can be an input",
}
_FLOAT32 = next(numpy for numpy, dtype in BY_NUMPY.items() if dtype.name == "float")


def _function_type(arguments: list[Any], results: list[Any]) -> Any:
    return ir.TypeAttr.get(ir.FunctionType.get(arguments, results))


def _entry(name: str, source: Tensor) -> dict[str, Any]:
    # The program sees the numbers of strings.
    dtype = BY_NAME["int64"] if source.dtype.kind == "string" else source.dtype
    return {"name": name, "dtype": dtype.onnx, "shape": _interface_shape(source.shape)}


def _shared(inputs: list[Part], outputs: list[Part], ops: Mapping[str, OpDef]) -> list[list[str]]:
    """Pairs of an input and an output that may be one buffer: a cache that nothing but the append to it reads."""
    names = {source.value: name for name, source in inputs}
    found = []
    for name, result in outputs:
        owner, made = _operation(result.value), result.value
        if owner is not None and owner.name == WINDOW:
            # It writes only after the append has read the whole past.
            made = owner.operands[0]
            owner = _operation(made)
        if owner is None or owner.name not in CACHES:
            continue
        definition = ops[owner.name]
        present = definition.outputs[list(owner.results).index(made)].name
        past: Any = read_op(definition, owner).inputs.get(CACHES[owner.name].get(present, ""))
        if past in names and sum(use.owner.operation.name != "tensor.dim" for use in past.uses) == 1:
            found.append([names[past], name])
    return found


def _operation(value: Any) -> Any:
    """The operation that makes a value; None where none does."""
    return None if value is None or isinstance(value.owner, ir.Block) else value.owner.operation


def _interface_shape(shape: Shape) -> list[int | str]:
    return [str(extent) if extent.value is None else extent.value for extent in shape]
