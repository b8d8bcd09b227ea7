"""Short-hand for the LLVM dialect: operations by their generic name, declarations and globals made once per module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hip_compiler.core.mlir import ir, llvm


class LLVMBuilder:
    """Creates LLVM dialect operations at the current insertion point.

    Args:
        module: the `builtin.module` that receives declarations and globals.
    """

    def __init__(self, module: Any) -> None:
        body = module.regions[0].blocks[0]
        self.pointer = ir.Type.parse("!llvm.ptr")
        self.global_pointer = ir.Type.parse("!llvm.ptr<1>")
        self.i64 = ir.IntegerType.get_signless(64)
        self.i32 = ir.IntegerType.get_signless(32)
        self.i8 = ir.IntegerType.get_signless(8)
        self.f64 = ir.F64Type.get()
        self.void = ir.Type.parse("!llvm.void")
        self._top = ir.InsertionPoint.at_block_begin(body)
        self._symbols = {op.attributes["sym_name"].value for op in body.operations if "sym_name" in op.attributes}
        self._internal = ir.Attribute.parse("#llvm.linkage<internal>")
        self._external = ir.Attribute.parse("#llvm.linkage<external>")
        self._no_bundles = ir.DenseI32ArrayAttr.get([])
        self._i32_attributes: dict[int, Any] = {}
        self._equal = ir.IntegerAttr.get(self.i64, 0)
        self._numbers: dict[str, int] = {}
        self._strings: dict[str, str] = {}
        self._tables: dict[tuple[str, bytes], str] = {}
        self._descriptors: dict[int, Any] = {}
        self._positions: dict[tuple[int, ...], Any] = {}

    def constant(self, value: int, integer: Any = None) -> Any:
        """An integer constant; `i64` unless another type is given."""
        integer = integer or self.i64
        attributes = {"value": ir.IntegerAttr.get(integer, value)}
        return ir.Operation.create("llvm.mlir.constant", results=[integer], attributes=attributes).result

    def float_constant(self, value: float) -> Any:
        """An `f64` constant."""
        attributes = {"value": ir.FloatAttr.get(self.f64, value)}
        return ir.Operation.create("llvm.mlir.constant", results=[self.f64], attributes=attributes).result

    def null(self) -> Any:
        return ir.Operation.create("llvm.mlir.zero", results=[self.pointer]).result

    def cast(self, value: Any, to: Any) -> Any:
        """A conversion between an MLIR type and its LLVM form, to be reconciled later."""
        return ir.Operation.create("builtin.unrealized_conversion_cast", results=[to], operands=[value]).result

    def address_of(self, symbol: str) -> Any:
        attributes = {"global_name": ir.FlatSymbolRefAttr.get(symbol)}
        return ir.Operation.create("llvm.mlir.addressof", results=[self.pointer], attributes=attributes).result

    def alloca(self, elements: int, element: Any, alignment: int = 8) -> Any:
        """Stack memory; place it in the entry block."""
        attributes = {"elem_type": ir.TypeAttr.get(element), "alignment": ir.IntegerAttr.get(self.i64, alignment)}
        return ir.Operation.create(
            "llvm.alloca", results=[self.pointer], operands=[self.constant(elements)], attributes=attributes
        ).result

    def element(self, pointer: Any, position: int, element: Any) -> Any:
        """Address of an element at a known position."""
        if position == 0:
            return pointer
        attributes = {
            "elem_type": ir.TypeAttr.get(element),
            "rawConstantIndices": ir.DenseI32ArrayAttr.get([position]),
            "noWrapFlags": self._i32(0),
        }
        return ir.Operation.create(
            "llvm.getelementptr", results=[self.pointer], operands=[pointer], attributes=attributes
        ).result

    def element_at(self, pointer: Any, position: Any, element: Any) -> Any:
        """Address of an element at a position known at run time (`i64`)."""
        attributes = {
            "elem_type": ir.TypeAttr.get(element),
            "rawConstantIndices": ir.DenseI32ArrayAttr.get([-(2**31)]),
            "noWrapFlags": self._i32(0),
        }
        return ir.Operation.create(
            "llvm.getelementptr", results=[self.pointer], operands=[pointer, position], attributes=attributes
        ).result

    def load(self, pointer: Any, to: Any) -> Any:
        return ir.Operation.create("llvm.load", results=[to], operands=[pointer]).result

    def store(self, value: Any, pointer: Any) -> None:
        ir.Operation.create("llvm.store", operands=[value, pointer])

    def copy(self, target: Any, source: Any, count: int) -> None:
        """Copy a known number of bytes."""
        ir.Operation.create(
            "llvm.intr.memcpy",
            operands=[target, source, self.constant(count)],
            attributes={"isVolatile": ir.IntegerAttr.get(ir.IntegerType.get_signless(1), 0)},
        )

    def extract(self, aggregate: Any, position: tuple[int, ...], to: Any) -> Any:
        attributes = {"position": self._position(position)}
        return ir.Operation.create(
            "llvm.extractvalue", results=[to], operands=[aggregate], attributes=attributes
        ).result

    def insert(self, aggregate: Any, value: Any, position: tuple[int, ...]) -> Any:
        attributes = {"position": self._position(position)}
        return ir.Operation.create(
            "llvm.insertvalue", results=[aggregate.type], operands=[aggregate, value], attributes=attributes
        ).result

    def poison(self, of: Any) -> Any:
        return ir.Operation.create("llvm.mlir.poison", results=[of]).result

    def multiply(self, a: Any, b: Any) -> Any:
        return ir.Operation.create(
            "llvm.mul", results=[a.type], operands=[a, b], attributes={"overflowFlags": self._i32(0)}
        ).result

    def add(self, a: Any, b: Any) -> Any:
        return ir.Operation.create(
            "llvm.add", results=[a.type], operands=[a, b], attributes={"overflowFlags": self._i32(1)}
        ).result

    def is_less(self, a: Any, b: Any) -> Any:
        """Whether one signed integer is less than another; `i1`."""
        return ir.Operation.create(
            "llvm.icmp",
            results=[ir.IntegerType.get_signless(1)],
            operands=[a, b],
            attributes={"predicate": ir.IntegerAttr.get(self.i64, 2)},
        ).result

    def generic_pointer(self, pointer: Any) -> Any:
        """A pointer to a device's global memory as one without an address space."""
        return ir.Operation.create("llvm.addrspacecast", results=[self.pointer], operands=[pointer]).result

    def declared(self, symbol: str, arguments: Sequence[Any], result: Any = None) -> Any:
        """Address of a function defined elsewhere, declared on first use."""
        if symbol not in self._symbols:
            self._declare(symbol, arguments, result)
        return self.address_of(symbol)

    def is_zero(self, value: Any) -> Any:
        """Whether an integer or a pointer is zero; `i1`."""
        zero = self.null() if value.type == self.pointer else self.constant(0, value.type)
        return ir.Operation.create(
            "llvm.icmp",
            results=[ir.IntegerType.get_signless(1)],
            operands=[value, zero],
            attributes={"predicate": self._equal},
        ).result

    def branch_if(self, condition: Any, target: Any, otherwise: Any, otherwise_operands: Sequence[Any]) -> None:
        ir.Operation.create(
            "llvm.cond_br",
            operands=[condition, *otherwise_operands],
            successors=[target, otherwise],
            attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, len(otherwise_operands)])},
        )

    def call(self, symbol: str, operands: Sequence[Any], result: Any = None) -> Any:
        """Call a runtime function, declared on first use; its result, or None."""
        if symbol not in self._symbols:
            self._declare(symbol, [operand.type for operand in operands], result)
        op = ir.Operation.create(
            "llvm.call",
            results=[] if result is None else [result],
            operands=operands,
            attributes={
                "callee": ir.FlatSymbolRefAttr.get(symbol),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
                "op_bundle_sizes": self._no_bundles,
            },
        )
        return None if result is None else op.result

    def string(self, text: str) -> Any:
        """Address of a zero-terminated UTF-8 string."""
        if text not in self._strings:
            ended = text.replace("\0", "?") + "\0"
            array = llvm.ArrayType.get(self.i8, len(ended.encode()))
            self._strings[text] = self._global("str", array, ir.StringAttr.get(ended))
        return self.address_of(self._strings[text])

    def table(self, values: Sequence[int] | Sequence[float], kind: type = int) -> Any:
        """Address of a constant array of `int64_t`, or of `double` where `kind` is `float`."""
        data = np.asarray(values, np.float64 if kind is float else np.int64)
        key = (kind.__name__, data.tobytes())
        if key not in self._tables:
            element = self.f64 if kind is float else self.i64
            array = llvm.ArrayType.get(element, len(data))
            self._tables[key] = self._global("table", array, ir.DenseElementsAttr.get(data, type=element))
        return self.address_of(self._tables[key])

    def filled_table(self, stem: str, element: Any, count: int, fill: Callable[[Any], Any]) -> Any:
        """Address of a constant array whose contents `fill` inserts, given a poison array, at link-time constants."""
        symbol = self.fresh(stem)
        array = llvm.ArrayType.get(element, count)
        attributes = {
            "sym_name": ir.StringAttr.get(symbol),
            "global_type": ir.TypeAttr.get(array),
            "constant": ir.UnitAttr.get(),
            "linkage": self._internal,
        }
        with self._top:
            table = ir.Operation.create("llvm.mlir.global", regions=1, attributes=attributes)
        with ir.InsertionPoint(table.regions[0].blocks.append()):
            ir.Operation.create("llvm.return", operands=[fill(self.poison(array))])
        return self.address_of(symbol)

    def descriptor_type(self, rank: int) -> Any:
        """LLVM type of a memref: allocated and aligned pointer, offset, sizes, strides."""
        if rank not in self._descriptors:
            arrays = [llvm.ArrayType.get(self.i64, rank)] * 2 if rank else []
            fields = [self.pointer, self.pointer, self.i64, *arrays]
            self._descriptors[rank] = llvm.StructType.get_literal(fields)
        return self._descriptors[rank]

    def bytes_at(self, pointer: Any, count: Any) -> Any:
        """Memory as a `memref<?xi8>`; `count` in bytes is an `i64`."""
        value = self.poison(self.descriptor_type(1))
        for position, part in (((0,), pointer), ((1,), pointer), ((2,), self.constant(0)), ((3, 0), count)):
            value = self.insert(value, part, position)
        value = self.insert(value, self.constant(1), (4, 0))
        return self.cast(value, ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], self.i8))

    def fresh(self, stem: str) -> str:
        """A symbol that the module does not have yet."""
        number = self._numbers.get(stem, 0)
        while f"{stem}_{number}" in self._symbols:
            number += 1
        self._numbers[stem] = number + 1
        self._symbols.add(f"{stem}_{number}")
        return f"{stem}_{number}"

    def function(self, symbol: str, arguments: Sequence[Any], *, inline: bool = True, internal: bool = True) -> Any:
        """An `llvm.func` without results and, as yet, without blocks, at the current insertion point."""
        self._symbols.add(symbol)
        signature = llvm.FunctionType.get(self.void, list(arguments))
        attributes = {
            "sym_name": ir.StringAttr.get(symbol),
            "function_type": ir.TypeAttr.get(signature),
            "linkage": self._internal if internal else self._external,
        }
        if not inline:
            attributes["no_inline"] = ir.UnitAttr.get()
        return ir.Operation.create("llvm.func", regions=1, attributes=attributes)

    def _declare(self, symbol: str, arguments: Sequence[Any], result: Any) -> None:
        self._symbols.add(symbol)
        signature = llvm.FunctionType.get(self.void if result is None else result, list(arguments))
        with self._top:
            ir.Operation.create(
                "llvm.func",
                regions=1,
                attributes={
                    "sym_name": ir.StringAttr.get(symbol),
                    "function_type": ir.TypeAttr.get(signature),
                    "linkage": self._external,
                },
            )

    def _global(self, stem: str, array: Any, value: Any) -> str:
        symbol = self.fresh(stem)
        with self._top:
            ir.Operation.create(
                "llvm.mlir.global",
                regions=1,
                attributes={
                    "sym_name": ir.StringAttr.get(symbol),
                    "global_type": ir.TypeAttr.get(array),
                    "constant": ir.UnitAttr.get(),
                    "linkage": self._internal,
                    "value": value,
                },
            )
        return symbol

    def _position(self, position: tuple[int, ...]) -> Any:
        if position not in self._positions:
            self._positions[position] = ir.DenseI64ArrayAttr.get(list(position))
        return self._positions[position]

    def _i32(self, value: int) -> Any:
        if value not in self._i32_attributes:
            self._i32_attributes[value] = ir.IntegerAttr.get(self.i32, value)
        return self._i32_attributes[value]
