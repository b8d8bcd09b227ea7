"""`hip-materialize-host-scalars`: what the host reads and writes of tensors on a device goes through the runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.build import all_operations, functions_in


@dataclass
class MaterializeHostScalars:
    """For targets with device memory; others have nothing to do.

    In: functions, kernels excepted, with `memref.load` and `memref.store`. Out: each is `hip.read_scalar`, after which
    the host knows the value, or `hip.write_scalar`, in the order of the stream, on a view of the one element.
    """

    name = "hip-materialize-host-scalars"

    def apply(self, op: Any, context: PassContext) -> None:
        if not context.on_device:
            return
        for function in functions_in(op):
            for inner in all_operations(function):
                rewrite = _REWRITES.get(inner.operation.name)
                if rewrite is not None:
                    with inner.location, ir.InsertionPoint(inner):
                        rewrite(inner)
                    inner.operation.erase()


def _read(op: Any) -> None:
    memory, *indices = op.operands
    read = ir.Operation.create("hip.read_scalar", results=[op.results[0].type], operands=[_element(memory, indices)])
    op.results[0].replace_all_uses_with(read.result)


def _write(op: Any) -> None:
    value, memory, *indices = op.operands
    ir.Operation.create("hip.write_scalar", operands=[value, _element(memory, indices)])


def _element(memory: Any, indices: list[Any]) -> Any:
    """A view of rank 0 of one element."""
    if not indices:
        return memory
    kind, rank = memory.type, len(indices)
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(dynamic, [])
    ones = ir.DenseI64ArrayAttr.get([1] * rank)
    return ir.Operation.create(
        "memref.subview",
        results=[ir.MemRefType.get([], kind.element_type, layout)],
        operands=[memory, *indices],
        attributes={
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, rank, 0, 0]),
            "static_offsets": ir.DenseI64ArrayAttr.get([ir.ShapedType.get_dynamic_size()] * rank),
            "static_sizes": ones,
            "static_strides": ones,
        },
    ).result


_REWRITES = {"memref.load": _read, "memref.store": _write}
