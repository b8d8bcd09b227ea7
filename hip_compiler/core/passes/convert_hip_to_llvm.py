"""`convert-hip-to-llvm`: hip operations become calls of the runtime, with every status checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from hip_compiler.core.dialects.access import DTYPES, read_attributes, segment_sizes
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.build import functions, internal_error, place_of
from hip_compiler.core.passes.interface import ENTRY
from hip_compiler.core.passes.llvm_build import LLVMBuilder
from hip_compiler.core.passes.llvm_device_kernels import DeviceKernelLowering
from hip_compiler.core.passes.llvm_kernels import KernelLowering
from hip_compiler.core.passes.llvm_operands import OperandLowering
from hip_compiler.registry.contributions import LaunchLowering

ERROR_MEMORY, ERROR_OUTPUT = 4, 6
"""Statuses of `hipc.h` for an arena and an output that are NULL."""


@dataclass
class ConvertHipToLLVM:
    """Lower hip operations and kernels to the runtime ABI.

    In: functions of basic blocks (no `scf`, no `linalg`) over memrefs; kernels from `hip-outline-kernels`.
    Out: no hip operation and no `!hip.context` is left. Every function that takes a context returns an `i32`
    status before its other results; a status other than 0 branches to the function's failure block, which adds
    the ONNX node to the error. Memref and arith operations stay for the passes of MLIR that follow.
    """

    name = "convert-hip-to-llvm"

    def apply(self, op: Any, context: PassContext) -> None:
        module = op.operation
        with module.location:
            build = LLVMBuilder(module)
            kernels = (DeviceKernelLowering if context.on_device else KernelLowering)(build, module)
            ordinary = [function for function in functions(module) if has_context(function)]
            for function in functions(module, kernels=True):
                kernels.lower(function)
            context.reports["ops"] = _summary(ordinary, {*context.ops, "hip.launch"})
            with_status = {function.attributes["sym_name"].value for function in ordinary}
            for function in ordinary:
                FunctionLowering(build, kernels, function, context, with_status).run()


def _summary(ordinary: Sequence[Any], counted: Container[str]) -> dict[str, int]:
    """How many operations of each kind the functions have, most frequent first."""
    names = (op.operation.name for function in ordinary for block in function.regions[0] for op in block.operations)
    return dict(Counter(name for name in names if name in counted).most_common())


def has_context(function: Any) -> bool:
    """Whether a function's first argument is the runtime context."""
    arguments = function.regions[0].blocks[0].arguments
    return len(arguments) > 0 and str(arguments[0].type) == "!hip.context"


class FunctionLowering:
    """Lowers one function that takes a context.

    Operations are visited in order. After a call that may fail, what follows goes on in a new block, so that each
    operation moves at most once.
    """

    def __init__(
        self, build: LLVMBuilder, kernels: KernelLowering, function: Any, context: PassContext, with_status: set[str]
    ) -> None:
        self._build = build
        self._kernels = kernels
        self._function = function
        self._ops = context.ops
        self._owners = context.owners
        self._with_status = with_status
        self._profile = context.options.profile
        self._on_device = isinstance(kernels, DeviceKernelLowering)
        self._entry = function.regions[0].blocks[0]
        self._context = self._entry.arguments[0]
        self._results = list(function.type.results)
        self._failure: Any = None
        self._constants: Any = None
        self._slots: Any = None
        self._slot_count = 0
        self._block: Any = None
        self._arguments: list[Any] = []
        self._handlers = {
            "hip.check": self._check,
            "hip.launch": self._launch,
            "hip.alloc": self._alloc,
            "hip.mark": self._mark,
            "hip.release": self._release,
            "hip.alloc_output": self._alloc_output,
            "hip.get_pool": self._get_pool,
            "hip.get_constant": self._get_constant,
            "hip.as_argument": self._argument,
            "hip.read_scalar": self._read_scalar,
            "hip.write_scalar": self._write_scalar,
            "func.call": self._call,
            "func.return": self._return,
        }

    def run(self) -> None:
        build = self._build
        self._context.set_type(build.pointer)
        blocks = list(self._function.regions[0].blocks)
        # What belongs to the whole function goes before this, and no block split moves it.
        with ir.InsertionPoint.at_block_begin(self._entry):
            self._marker = build.constant(0).owner
        self._head = ir.InsertionPoint(self._marker)
        self._operands = OperandLowering(build, self._head)
        if self._profile and self._function.attributes["sym_name"].value == ENTRY:
            # At the head, where the run has only begun, there is nothing yet that could be left undone.
            with self._head:
                build.call("hipc_time", [self._context, build.null()], build.i32)
        for block in blocks:
            self._walk(block)
        self._marker.erase()
        for op in self._arguments:
            op.operation.erase()
        if self._failure is not None:
            self._fill_failure_block()
        inputs = [argument.type for argument in self._entry.arguments]
        signature = ir.FunctionType.get(inputs, [build.i32, *self._results])
        self._function.attributes["function_type"] = ir.TypeAttr.get(signature)
        if "res_attrs" in self._function.attributes:
            del self._function.attributes["res_attrs"]

    def _walk(self, block: Any) -> None:
        self._block = block
        for op in list(block.operations):
            name = op.operation.name
            moved = self._block is not block
            handler = self._handlers.get(name) or (self._runtime_call if name in self._ops else None)
            if handler is None:
                if name.startswith("hip."):
                    raise internal_error(op, f"{name} has no lowering", "no registered dialect defines it")
                if moved:
                    self._block.append(op)
                continue
            with op.location, ir.InsertionPoint(self._block) if moved else ir.InsertionPoint(op):
                handler(op)
            if self._profile and (name in self._ops or name == "hip.launch"):
                with op.location, ir.InsertionPoint(op) if self._block is block else ir.InsertionPoint(self._block):
                    self._keep_time(op)
            if handler != self._argument:
                op.operation.erase()

    def _unless_failed(self, condition: Any, status: Any, op: Any, place: str = "") -> None:
        """Go on in a new block when the condition holds; else end the run with the status."""
        build = self._build
        if self._failure is None:
            last = list(self._function.regions[0].blocks)[-1]
            self._failure = last.create_after(build.i32, build.pointer)
        following = self._block.create_after()
        build.branch_if(condition, following, self._failure, [status, build.string(place or self._place(op))])
        self._block = following

    def _place(self, op: Any) -> str:
        """The node and the operation, and whose implementation it is where that is a plugin's."""
        name = op.operation.name
        owner = f" of {self._owners[name]}" if name in self._owners else ""
        described, place = f"{name.removeprefix('hip.')}{owner}", place_of(op)
        return f"{place} ({described})" if place else described

    def _checked(self, status: Any, op: Any) -> None:
        self._unless_failed(self._build.is_zero(status), status, op)

    def _runtime_call(self, op: Any) -> None:
        build, definition = self._build, self._ops[op.operation.name]
        operands = list(op.operands)
        dtypes = list(op.attributes[DTYPES]) if DTYPES in op.attributes else [None] * len(operands)
        arguments: list[Any] = []
        position = 0
        for operand, size in zip(definition.inputs + definition.outputs, segment_sizes(definition, op), strict=True):
            group = [
                self._operands.descriptor(operands[number], number, dtypes[number])
                for number in range(position, position + size)
            ]
            position += size
            if operand.variadic:
                launched = isinstance(definition.lowering, LaunchLowering)
                count = build.table([size]) if launched else build.constant(size)
                arguments += [self._pointer_array(group), count]
            else:
                arguments.append(group[0] if group else build.null())
        values = read_attributes(definition, op.operation)
        if isinstance(definition.lowering, LaunchLowering):
            for attribute in definition.attributes:
                arguments += self._operands.address(values[attribute.name], attribute.kind, attribute.choices)
            first = sum(segment_sizes(definition, op)[: len(definition.inputs)])
            self._launch_contributed(definition.lowering, arguments, operands[first], op)
            return
        for attribute in definition.attributes:
            arguments += self._operands.attribute(values[attribute.name], attribute.kind, attribute.choices)
        self._checked(build.call(definition.lowering.symbol, [self._context, *arguments], build.i32), op)

    def _launch_contributed(self, lowering: LaunchLowering, arguments: list[Any], output: Any, op: Any) -> None:
        build = self._build
        counts = [self._operands.elements(output), build.constant(lowering.cost)]
        if self._on_device:
            passed = [build.string(lowering.kernel), self._pointer_array(arguments), build.constant(len(arguments))]
            self._checked(build.call("hipc_launch_kernel", [self._context, *passed, *counts], build.i32), op)
            return
        kernel = build.declared(lowering.kernel, [build.pointer, build.i64, build.i64])
        build.call("hipc_launch", [self._context, kernel, self._pointer_array(arguments), *counts])

    def _pointer_array(self, pointers: list[Any]) -> Any:
        build = self._build
        with self._head:
            array = build.alloca(max(len(pointers), 1), build.pointer)
        for position, pointer in enumerate(pointers):
            build.store(pointer, build.element(array, position, build.pointer))
        return array

    def _keep_time(self, op: Any) -> None:
        build = self._build
        self._checked(build.call("hipc_time", [self._context, build.string(self._place(op))], build.i32), op)

    def _launch(self, op: Any) -> None:
        slots = self._argument_slots(self._kernels.slots(op))
        status = self._kernels.launch(op, self._operands, slots, self._context)
        if status is not None:
            self._checked(status, op)

    def _read_scalar(self, op: Any) -> None:
        build, kind = self._build, op.results[0].type
        slots = self._argument_slots(1)
        size = build.constant(_bytes(kind))
        source = self._operands.pointer(op.operands[0])
        self._checked(build.call("hipc_read", [self._context, slots, source, size], build.i32), op)
        with ir.InsertionPoint(self._block):
            loaded = build.load(slots, build.i64 if isinstance(kind, ir.IndexType) else kind)
            self._replace(op, build.cast(loaded, kind) if isinstance(kind, ir.IndexType) else loaded)

    def _write_scalar(self, op: Any) -> None:
        build = self._build
        value, memory = op.operands
        kind = value.type
        slots = self._argument_slots(1)
        build.store(build.constant(0), slots)
        build.store(build.cast(value, build.i64) if isinstance(kind, ir.IndexType) else value, slots)
        arguments = [self._operands.pointer(memory), build.load(slots, build.i64), build.constant(_bytes(kind))]
        self._checked(build.call("hipc_write", [self._context, *arguments], build.i32), op)

    def _argument(self, op: Any) -> None:
        # Launches look through it; it goes when the last of them is lowered.
        self._arguments.append(op)

    def _check(self, op: Any) -> None:
        build = self._build
        condition = ir.Operation.create("llvm.zext", results=[build.i32], operands=[op.operands[0]]).result
        message = build.string(op.attributes["message"].value)
        self._checked(build.call("hipc_check", [self._context, condition, message], build.i32), op)

    def _get_constant(self, op: Any) -> None:
        build = self._build
        if self._constants is None:
            with self._head:
                base = build.call("hipc_constants", [self._context], build.pointer)
                # Only addresses inside constants.bin are ever formed; its length is the runtime's business.
                self._constants = build.bytes_at(base, build.constant(2**62))
        offset = _index_constant(op.attributes["offset"].value)
        self._replace(op, self._view(self._constants, offset, [], op.results[0].type))

    def _get_pool(self, op: Any) -> None:
        self._memory(op, "hipc_pool", [self._build.constant(op.attributes["domain"].value)])

    def _alloc(self, op: Any) -> None:
        self._memory(op, "hipc_alloc", [])

    def _mark(self, op: Any) -> None:
        build = self._build
        mark = build.call("hipc_mark", [self._context], build.i64)
        self._replace(op, build.cast(mark, op.results[0].type))

    def _release(self, op: Any) -> None:
        build = self._build
        mark, *kept = list(op.operands)
        pointers = self._pointer_array([self._operands.pointer(wrapped.owner.operands[0]) for wrapped in kept])
        number = build.constant(len(kept))
        build.call("hipc_release", [self._context, build.cast(mark, build.i64), pointers, number])

    def _memory(self, op: Any, symbol: str, leading: list[Any]) -> None:
        build = self._build
        count = build.cast(op.operands[0], build.i64)
        pointer = build.call(symbol, [self._context, *leading, count], build.pointer)
        self._not_null(pointer, ERROR_MEMORY, op)
        with ir.InsertionPoint(self._block):
            self._replace(op, build.bytes_at(pointer, count))

    def _alloc_output(self, op: Any) -> None:
        build = self._build
        memref_type = op.results[0].type
        shape = list(memref_type.shape)
        extents = self._argument_slots(len(shape))
        remaining = iter(op.operands)
        for position, size in enumerate(shape):
            dynamic = size == ir.ShapedType.get_dynamic_size()
            value = build.cast(next(remaining), build.i64) if dynamic else build.constant(size)
            build.store(value, build.element(extents, position, build.i64))
        index = build.constant(op.attributes["index"].value)
        dtype = build.constant(op.attributes["dtype"].value, build.i32)
        rank = build.constant(len(shape), build.i32)
        pointer = build.call("hipc_alloc_output", [self._context, index, dtype, rank, extents], build.pointer)
        self._not_null(pointer, ERROR_OUTPUT, op)
        with ir.InsertionPoint(self._block):
            memory = build.bytes_at(pointer, build.constant(2**62))
            self._replace(op, self._view(memory, _index_constant(0), list(op.operands), memref_type))

    def _not_null(self, pointer: Any, status: int, op: Any) -> None:
        build = self._build
        is_null = build.is_zero(pointer)
        true = build.constant(1, ir.IntegerType.get_signless(1))
        valid = ir.Operation.create("llvm.xor", results=[is_null.type], operands=[is_null, true]).result
        self._unless_failed(valid, build.constant(status, build.i32), op)

    def _call(self, op: Any) -> None:
        build = self._build
        callee = op.attributes["callee"]
        fails = callee.value in self._with_status
        results = [result.type for result in op.results]
        call = ir.Operation.create(
            "func.call",
            results=[build.i32, *results] if fails else results,
            operands=list(op.operands),
            attributes={"callee": callee},
        )
        found = list(call.results)
        if fails:
            status, *found = found
            self._checked(status, op)
        for old, new in zip(op.results, found, strict=True):
            old.replace_all_uses_with(new)

    def _return(self, op: Any) -> None:
        build = self._build
        ir.Operation.create("func.return", operands=[build.constant(0, build.i32), *op.operands])

    def _fill_failure_block(self) -> None:
        build = self._build
        status, place = self._failure.arguments
        with self._function.location, ir.InsertionPoint(self._failure):
            ended = build.call("hipc_fail", [self._context, status, place], build.i32)
            rest = [self._nothing(kind) for kind in self._results]
            ir.Operation.create("func.return", operands=[ended, *rest])

    def _nothing(self, kind: Any) -> Any:
        """A value that nobody reads, for the results of a run that failed."""
        build = self._build
        if isinstance(kind, ir.MemRefType):
            return build.cast(build.poison(build.descriptor_type(kind.rank)), kind)
        if isinstance(kind, ir.IndexType):
            return _index_constant(0)
        return build.poison(kind)

    def _argument_slots(self, count: int) -> Any:
        """Stack memory of at least so many 8-byte slots, for arguments that are read before the call returns."""
        if self._slots is None or count > self._slot_count:
            self._slot_count = max(count, 32)
            with self._head:
                self._slots = self._build.alloca(self._slot_count, self._build.i64)
        return self._slots

    def _view(self, memory: Any, offset: Any, sizes: list[Any], memref_type: Any) -> Any:
        return ir.Operation.create("memref.view", results=[memref_type], operands=[memory, offset, *sizes]).result

    def _replace(self, op: Any, value: Any) -> None:
        op.results[0].replace_all_uses_with(value)


def _bytes(kind: Any) -> int:
    """Size of a scalar in memory."""
    return 8 if isinstance(kind, ir.IndexType) else -(-int(kind.width) // 8)


def _index_constant(value: int) -> Any:
    index = ir.IndexType.get()
    attributes = {"value": ir.IntegerAttr.get(index, value)}
    return ir.Operation.create("arith.constant", results=[index], attributes=attributes).result
