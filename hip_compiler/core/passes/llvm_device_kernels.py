"""Kernels of a device at the runtime ABI: an entry function whose parameters are those of the launch."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.llvm_kernels import KernelLowering
from hip_compiler.core.passes.llvm_operands import OperandLowering

DEVICE = "hip.device"
"""Marks functions that run on the device; those that the host launches carry the value `entry`."""
THREAD = "hipc_device_thread"
"""`i64` of the calling thread's number in the launch; codegen defines it for every kind of device."""


class DeviceKernelLowering(KernelLowering):
    """Gives kernels an entry that one thread of the device runs for one iteration.

    An entry takes the arguments in the order of the slots, memory as a pointer to global memory, then the number of
    iterations: threads beyond it do nothing.
    """

    def launch(self, op: Any, operands: OperandLowering, slots: Any, context: Any) -> Any:
        """Store the arguments of a `hip.launch` in its slots, and call the runtime with their addresses."""
        build = self._build
        entry, count = self._store_arguments(op, operands, slots)
        # Each slot has its own address in the array behind the slots.
        addresses = build.element(slots, self.slots(op) // 2, build.i64)
        for position in range(count):
            build.store(build.element(slots, position, build.i64), build.element(addresses, position, build.pointer))
        arguments = [context, build.string(entry.symbol), addresses, build.constant(count)]
        counts = [build.cast(value, build.i64) for value in list(op.operands)[:2]]
        return build.call("hipc_launch_kernel", [*arguments, *counts], build.i32)

    def slots(self, op: Any) -> int:
        """Slots for the arguments of a `hip.launch` at most, and as many for their addresses."""
        return 2 * super().slots(op)

    def _function(self, name: str, types: list[Any]) -> Any:
        kernel = self._build.function(name, types)
        kernel.attributes[DEVICE] = ir.StringAttr.get("kernel")
        return kernel

    def _write_entry(self, symbol: str, name: str, types: list[Any], leading: int, flat: int) -> None:
        build = self._build
        passed = types[:leading] + types[leading + 2 :]
        outside = [build.global_pointer if kind == build.pointer else kind for kind in passed]
        entry = build.function(symbol, [*outside, build.i64], internal=False)
        entry.attributes[DEVICE] = ir.StringAttr.get("entry")
        block = entry.regions[0].blocks.append(*outside, build.i64)
        work, done = block.create_after(), block.create_after()
        *arguments, iterations = block.arguments
        with ir.InsertionPoint(block):
            begin = build.call(THREAD, [], build.i64)
            build.branch_if(build.is_less(begin, iterations), work, done, [])
        with ir.InsertionPoint(work):
            inside = [build.generic_pointer(a) if a.type == build.global_pointer else a for a in arguments]
            end = build.add(begin, build.constant(1))
            build.call(name, [*inside[:leading], begin, end, *inside[leading:]])
            ir.Operation.create("llvm.br", successors=[done])
        with ir.InsertionPoint(done):
            ir.Operation.create("llvm.return")
