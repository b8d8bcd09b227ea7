"""`hip-use-output-allocator`: what the graph returns is written into memory that the caller allocates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.build import Builder, functions_in, internal_error
from hip_compiler.core.passes.extents import VIEW_OPS, Extents, contiguous_strides, is_identity, product
from hip_compiler.core.passes.hoist_extents import hoist_extents, resolve_dims
from hip_compiler.core.passes.interface import ENTRY, Interface, read_interface


@dataclass
class UseOutputAllocator:
    """Return results through the caller's allocator.

    In: `@main_graph` that returns memrefs of identity layout; the module attribute `hip.interface`.
    Out: it returns nothing. A returned buffer is `hip.alloc_output` from the start; so is one that is returned
    through views covering all of it. Anything else (arguments, constants, parts, the same memory twice) is copied
    into an output of its own by `memref.copy`. Other functions stay as they are.
    """

    name = "hip-use-output-allocator"

    def apply(self, op: Any, context: PassContext) -> None:
        for function in functions_in(op):
            if function.attributes["sym_name"].value == ENTRY:
                self._graph(function)

    def _graph(self, function: Any) -> None:
        interface = read_interface(function.operation.parent)
        terminator = _terminator(function)
        if interface is None or len(interface.outputs) != len(terminator.operands):
            raise internal_error(
                terminator,
                f"@{ENTRY} returns {len(terminator.operands)} values, "
                f"hip.interface names {len(interface.outputs) if interface else 0} outputs",
                "both are made by convert-onnx-to-hip",
            )
        with function.location:
            OutputPlacement(function, interface).run()


def _terminator(function: Any) -> Any:
    block = function.regions[0].blocks[0]
    return block.operations[len(block.operations) - 1]


class OutputPlacement:
    """Places the outputs of one graph."""

    def __init__(self, function: Any, interface: Interface) -> None:
        self._function = function
        self._interface = interface
        self._build = Builder()

    def run(self) -> None:
        function = self._function
        resolve_dims(function)
        hoist_extents(function)
        self._extents = Extents(function)
        self._entry = function.regions[0].blocks[0]
        terminator = _terminator(function)
        for number in range(len(terminator.operands)):
            # Read anew: placing an output replaces values.
            value = terminator.operands[number]
            buffer = self._whole_buffer(value)
            if buffer is not None and self._sizes_known_at(value, buffer):
                self._place(number, value, buffer)
            else:
                self._copy(number, value, terminator)
        with ir.InsertionPoint(terminator), terminator.location:
            ir.Operation.create("func.return")
        terminator.operation.erase()
        inputs = [argument.type for argument in self._entry.arguments]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))
        if "res_attrs" in function.attributes:
            del function.attributes["res_attrs"]

    def _whole_buffer(self, value: Any) -> Any:
        """The top-level allocation that a value is all of, element by element in order; None where there is none."""
        if not is_identity(value.type):
            return None
        elements = product(self._extents.sizes(value))
        source = value
        while not isinstance(source.owner, ir.Block) and source.owner.name in VIEW_OPS:
            if source.owner.name == "memref.view":
                return None
            strides = self._extents.strides(source)
            if strides != contiguous_strides(self._extents.sizes(source)):
                return None
            source = source.owner.operands[0]
        owner = source.owner
        if isinstance(owner, ir.Block) or owner.name != "memref.alloc" or owner.operation.block != self._entry:
            return None
        return source if product(self._extents.sizes(source)) == elements else None

    def _sizes_known_at(self, value: Any, buffer: Any) -> bool:
        """Whether the extents of the returned value are known where its buffer is made."""
        wanted = {atom for size in self._extents.sizes(value) for atom in self._extents.values(size)}
        known = set(self._entry.arguments)
        for op in self._entry.operations:
            if op.operation == buffer.owner.operation:
                break
            known.update(op.results)
        return wanted <= known

    def _place(self, number: int, value: Any, buffer: Any) -> None:
        """Replace the allocation by the output."""
        allocation = buffer.owner
        with ir.InsertionPoint(allocation), allocation.location:
            output = self._output(number, value)
            if output.type != buffer.type:
                output = self._reshaped(output, buffer)
        buffer.replace_all_uses_with(output)
        allocation.operation.erase()

    def _copy(self, number: int, value: Any, terminator: Any) -> None:
        with ir.InsertionPoint(terminator), terminator.location:
            output = self._output(number, value)
            ir.Operation.create("memref.copy", operands=[value, output])

    def _output(self, number: int, value: Any) -> Any:
        kind = value.type
        sizes = [
            self._extents.emit(extent)
            for extent, static in zip(self._extents.sizes(value), kind.shape, strict=True)
            if static == ir.ShapedType.get_dynamic_size()
        ]
        identity = ir.MemRefType.get(kind.shape, kind.element_type)
        attributes = {
            "index": ir.IntegerAttr.get(self._build.i64, number),
            "dtype": ir.IntegerAttr.get(self._build.i64, self._interface.outputs[number].dtype),
        }
        return ir.Operation.create("hip.alloc_output", results=[identity], operands=sizes, attributes=attributes).result

    def _reshaped(self, output: Any, buffer: Any) -> Any:
        """The output's memory in the shape of the buffer that it replaces."""
        kind = buffer.type
        dynamic = ir.ShapedType.get_dynamic_size()
        sizes, strides = self._extents.sizes(buffer), self._extents.strides(buffer)
        size_operands = [
            self._extents.emit(s) for s, static in zip(sizes, kind.shape, strict=True) if static == dynamic
        ]
        known_strides = _static_strides(list(kind.shape))
        stride_operands = [
            self._extents.emit(s) for s, static in zip(strides, known_strides, strict=True) if static == dynamic
        ]
        return ir.Operation.create(
            "memref.reinterpret_cast",
            results=[kind],
            operands=[output, *size_operands, *stride_operands],
            attributes={
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, len(size_operands), len(stride_operands)]),
                "static_offsets": ir.DenseI64ArrayAttr.get([0]),
                "static_sizes": ir.DenseI64ArrayAttr.get(list(kind.shape)),
                "static_strides": ir.DenseI64ArrayAttr.get(known_strides),
            },
        ).result


def _static_strides(shape: list[int]) -> list[int]:
    """Row-major strides, dynamic from the first dynamic extent (from the right) on."""
    dynamic = ir.ShapedType.get_dynamic_size()
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step = dynamic if dynamic in (step, size) else step * size
    return strides[::-1]
