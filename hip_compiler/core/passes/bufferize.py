"""`hip-bufferize`: registered operations move from tensors to memrefs; upstream bufferization does the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.conversion.extents import index
from hip_compiler.core.dialects.access import RESULT_SEGMENTS, segment_sizes
from hip_compiler.core.mlir import bufferization, ir, linalg, linalg_native, memref, tensor
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.walk import operations_named, operations_where
from hip_compiler.registry.contributions import OpDef


@dataclass(frozen=True)
class Bufferize:
    """In: `hip` (and vendor) operations on tensors. Out: the same on identity-layout memrefs, tied to the remaining
    tensors by `bufferization.to_buffer` and `to_tensor`, which `one-shot-bufferize` then resolves.

    A destination made by `tensor.empty` becomes a new buffer. Any other destination keeps its old contents for other
    readers, so it is copied, and the copy is written.
    """

    def apply(self, module: Any, context: PassContext) -> None:
        def is_ours(op: Any) -> bool:
            return (op.name in context.ops or op.name == "hip.get_constant") and len(op.results) > 0

        for view in operations_named(module, "tensor.extract_slice"):
            _copy_for_dense_users(view)
        for empty in operations_named(module, "tensor.empty"):
            _one_user_each(empty)
        for op in operations_where(module, is_ours):
            with ir.InsertionPoint(op), op.location:
                if op.name == "hip.get_constant":
                    _bufferize_constant(op)
                else:
                    _bufferize_op(op, context.ops[op.name])


_READS_STRIDED = ("tensor.extract", "tensor.extract_slice", "tensor.insert_slice", "tensor.dim")


def _copy_for_dense_users(view: Any) -> None:
    """Users that need dense rows get a copy of a slice that has gaps.

    A memref type with dynamic extents has dynamic strides, so a cast of a strided view to it is accepted, and what
    reads the buffer by its extents would read the gaps.
    """
    users = [use for use in view.result.uses if not _takes_strides(use.owner.operation.name)]
    if not users or _is_dense(view):
        return
    kind = view.result.type
    with ir.InsertionPoint.after(view), view.location:
        sizes = [
            tensor.DimOp(view.result, index(axis)).result for axis in range(kind.rank) if kind.is_dynamic_dim(axis)
        ]
        empty = ir.Operation.create("tensor.empty", results=[kind], operands=sizes).result
        copying = linalg.CopyOp(result_tensors=[kind], inputs=[view.result], outputs=[empty]).operation
        linalg_native.fill_builtin_region(copying)
    for use in users:
        use.owner.operation.operands[use.operand_number] = copying.results[0]


def _takes_strides(name: str) -> bool:
    return name.startswith("linalg.") or name in _READS_STRIDED


def _is_dense(view: Any) -> bool:
    """Whether the elements of a slice are known to lie side by side: beyond a cut axis, extents are 1."""
    if _owner_name(view.operands[0]) == "tensor.extract_slice":
        return False
    source, result = view.operands[0].type, view.result.type
    if source.rank != result.rank or any(step != 1 for step in view.attributes["static_strides"]):
        return False
    cut = False
    for axis in reversed(range(source.rank)):
        whole = not source.is_dynamic_dim(axis) and source.shape[axis] == result.shape[axis]
        if cut and result.shape[axis] != 1:
            return False
        cut = cut or not whole
    return True


def _owner_name(value: Any) -> str:
    owner = value.owner
    return "" if isinstance(owner, ir.Block) else str(owner.operation.name)


def _one_user_each(empty: Any) -> None:
    """Undo CSE of destinations: a buffer per user keeps lifetimes short, and two results of one operation apart."""
    for use in list(empty.result.uses)[1:]:
        with ir.InsertionPoint(empty), empty.location:
            twin = ir.Operation.create("tensor.empty", results=[empty.result.type], operands=list(empty.operands))
        use.owner.operation.operands[use.operand_number] = twin.result


def _bufferize_constant(op: Any) -> None:
    if isinstance(op.result.type, ir.MemRefType):
        return
    made = ir.Operation.create(
        op.name, results=[_buffer_type(op.result.type)], attributes={"offset": op.attributes["offset"]}
    )
    _replace(op, [made.result])


def _bufferize_op(op: Any, definition: OpDef) -> None:
    operands = list(op.operands)
    first = sum(segment_sizes(definition, op)[: len(definition.inputs)])
    inputs = [_read_only(operand) for operand in operands[:first]]
    destinations = [_destination(operand) for operand in operands[first:]]
    attributes = {name: op.attributes[name] for name in op.attributes}
    if RESULT_SEGMENTS in attributes:
        attributes[RESULT_SEGMENTS] = ir.DenseI32ArrayAttr.get([0] * len(definition.outputs))
    ir.Operation.create(op.name, operands=[*inputs, *destinations], attributes=attributes)
    _replace(op, destinations)


def _buffer_type(tensor_type: Any) -> Any:
    return ir.MemRefType.get(tensor_type.shape, tensor_type.element_type)


def _read_only(value: Any) -> Any:
    return bufferization.ToBufferOp(_buffer_type(value.type), value, read_only=True).result


def _destination(value: Any) -> Any:
    if _owner_name(value) == "tensor.empty":
        return memref.AllocOp(_buffer_type(value.type), list(value.owner.operation.operands), []).result
    source = _read_only(value)
    sizes = [_size(source, axis) for axis in range(value.type.rank) if value.type.is_dynamic_dim(axis)]
    made = memref.AllocOp(source.type, sizes, []).result
    memref.CopyOp(source, made)
    return made


def _size(source: Any, axis: int) -> Any:
    return memref.DimOp(source, index(axis)).result


def _replace(op: Any, buffers: list[Any]) -> None:
    for result, buffer in zip(list(op.results), buffers, strict=True):
        result.replace_all_uses_with(bufferization.ToTensorOp(result.type, buffer, restrict=True).result)
    op.erase()
