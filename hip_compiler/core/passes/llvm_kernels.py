"""Kernels at the runtime ABI: bare pointers inside, one `void (const void *, int64_t, int64_t)` entry outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.extents import DYNAMIC, DYNAMIC_STRIDE
from hip_compiler.core.passes.llvm_build import LLVMBuilder
from hip_compiler.core.passes.llvm_operands import OperandLowering, dynamic_count


@dataclass(frozen=True)
class KernelEntry:
    """How a kernel is launched.

    Attributes:
        symbol: the entry function.
        flat: number of leading memory arguments that cross as a pointer to their first element.
    """

    symbol: str
    flat: int


class KernelLowering:
    """Gives kernels bare pointers and an entry function.

    A launch stores its arguments in consecutive 8-byte slots: one per argument of the kernel (memrefs as the pointer
    to their first element), then the dynamic sizes and strides of each memref behind the first `flat` ones.
    """

    def __init__(self, build: LLVMBuilder, module: Any) -> None:
        self._build = build
        self._end = ir.InsertionPoint(module.regions[0].blocks[0])
        self._entries: dict[str, KernelEntry] = {}
        self._index = ir.IndexType.get()

    def lower(self, function: Any) -> None:
        """Replace a kernel by an `llvm.func` over bare pointers, and write its entry function."""
        name = function.attributes["sym_name"].value
        flat = function.attributes["hip.flat"].value
        block = function.regions[0].blocks[0]
        leading = list(block.arguments)[:-2]
        for argument in list(block.arguments):
            if argument.type == self._index:
                self._unpack_index(block, argument)
        for argument in leading[:flat]:
            self._unpack_flat(block, argument)
        for argument in leading[flat:]:
            if isinstance(argument.type, ir.MemRefType):
                self._unpack(block, argument, argument.type)
        self._end_with_llvm_return(function)
        types = [argument.type for argument in block.arguments]
        attributes = list(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else []
        attributes += [ir.DictAttr.get({})] * (len(types) - len(attributes))
        symbol = f"{name}_entry"
        with self._end, function.location:
            kernel = self._function(name, types)
            kernel.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
            for part in list(function.regions[0].blocks):
                part.append_to(kernel.regions[0])
            function.operation.erase()
            self._write_entry(symbol, name, types, len(leading), flat)
        self._entries[name] = KernelEntry(symbol, flat)

    def slots(self, op: Any) -> int:
        """Slots that the arguments of a `hip.launch` take at most."""
        values = [argument.owner.operands[0].type for argument in list(op.operands)[2:]]
        return sum(1 + (2 * kind.rank if isinstance(kind, ir.MemRefType) else 0) for kind in values)

    def launch(self, op: Any, operands: OperandLowering, slots: Any, context: Any) -> Any:
        """Store the arguments of a `hip.launch` in its slots, and call the runtime; its status, or None."""
        build = self._build
        entry, _ = self._store_arguments(op, operands, slots)
        counts = [build.cast(value, build.i64) for value in list(op.operands)[:2]]
        return build.call("hipc_launch", [context, build.address_of(entry.symbol), slots, *counts])

    def _store_arguments(self, op: Any, operands: OperandLowering, slots: Any) -> tuple[KernelEntry, int]:
        build = self._build
        entry = self._entries[op.attributes["kernel"].value]
        arguments = [argument.owner.operands[0] for argument in list(op.operands)[2:]]
        trailing: list[Any] = []
        words: list[Any] = []
        for number, argument in enumerate(arguments):
            if isinstance(argument.type, ir.MemRefType):
                words.append(operands.pointer(argument))
                if number >= entry.flat:
                    trailing += operands.dynamics(argument)
            elif argument.type == self._index:
                words.append(build.cast(argument, build.i64))
            else:
                words.append(argument)
        for position, word in enumerate(words + trailing):
            build.store(word, build.element(slots, position, build.i64))
        return entry, len(words) + len(trailing)

    def _function(self, name: str, types: list[Any]) -> Any:
        # Inlined into its entry, the kernel would lose what `noalias` says about its arguments.
        return self._build.function(name, types, inline=False)

    def _end_with_llvm_return(self, function: Any) -> None:
        for block in function.regions[0].blocks:
            last = block.operations[len(block.operations) - 1]
            if last.operation.name == "func.return":
                with ir.InsertionPoint(last), last.location:
                    ir.Operation.create("llvm.return")
                last.operation.erase()

    def _unpack_index(self, block: Any, argument: Any) -> None:
        build = self._build
        argument.set_type(build.i64)
        with ir.InsertionPoint.at_block_begin(block):
            cast = build.cast(argument, self._index)
        argument.replace_all_uses_except(cast, cast.owner.operation)

    def _unpack_flat(self, block: Any, argument: Any) -> None:
        build = self._build
        memref_type = argument.type
        argument.set_type(build.pointer)
        with ir.InsertionPoint.at_block_begin(block):
            struct = build.poison(build.descriptor_type(1))
            struct = build.insert(struct, argument, (0,))
            uses_of_pointer = [struct.owner.operation]
            struct = build.insert(struct, argument, (1,))
            uses_of_pointer.append(struct.owner.operation)
            struct = build.insert(struct, build.constant(0), (2,))
            argument.replace_all_uses_except(build.cast(struct, memref_type), uses_of_pointer)

    def _unpack(self, block: Any, argument: Any, memref_type: Any) -> None:
        """Rebuild a captured memref from its pointer and new arguments for its dynamic sizes and strides."""
        build = self._build
        argument.set_type(build.pointer)
        extra = [block.add_argument(build.i64, argument.location) for _ in range(dynamic_count(memref_type))]
        shape = list(memref_type.shape)
        strides, _ = memref_type.get_strides_and_offset()
        with ir.InsertionPoint.at_block_begin(block):
            rank = len(shape)
            struct = build.insert(build.poison(build.descriptor_type(rank)), argument, (0,))
            uses_of_pointer = [struct.owner.operation]
            struct = build.insert(struct, argument, (1,))
            uses_of_pointer.append(struct.owner.operation)
            struct = build.insert(struct, build.constant(0), (2,))
            remaining = iter(extra)
            for row, known, unknown in ((3, shape, DYNAMIC), (4, list(strides), DYNAMIC_STRIDE)):
                for position, value in enumerate(known):
                    part = next(remaining) if value == unknown else build.constant(value)
                    struct = build.insert(struct, part, (row, position))
            argument.replace_all_uses_except(build.cast(struct, memref_type), uses_of_pointer)

    def _write_entry(self, symbol: str, name: str, types: list[Any], leading: int, flat: int) -> None:
        build = self._build
        entry = build.function(symbol, [build.pointer, build.i64, build.i64])
        block = entry.regions[0].blocks.append(build.pointer, build.i64, build.i64)
        slots, begin, end = block.arguments
        with ir.InsertionPoint(block):
            # The arguments behind begin and end are the dynamic extents of captured memrefs.
            loaded = [
                build.load(build.element(slots, position, build.i64), kind)
                for position, kind in enumerate(types[:leading] + types[leading + 2 :])
            ]
            build.call(name, [*loaded[:leading], begin, end, *loaded[leading:]])
            ir.Operation.create("llvm.return")
