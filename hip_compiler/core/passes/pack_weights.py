"""`hip-pack-weights`: constant right-hand sides of products in the layout that the kernels read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hip_compiler.core.dialects.access import create_op, read_op
from hip_compiler.core.dialects.hip.matmul import PANEL
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.pack_quantized import PackedMatrix, contents, pack_quantized
from hip_compiler.core.passes.share_tables import share_tables
from hip_compiler.core.passes.walk import operations_named
from hip_compiler.core.passes.winograd import transformed_kernels

FEATURE = "packed-weights"


@dataclass(frozen=True)
class PackWeights:
    """In: `hip.matmul` with a constant matrix on the right. Out: the same with the matrix in panels of columns,
    `[ceil(N / 32), K, 32]`, zero-padded, so that a kernel reads it in one stream; and `hip.matmul_nbits` with constant
    weights likewise (`pack_quantized`). A table whose rows are the columns of such a matrix is read from there
    (`share_tables`). Kernels of convolutions become points where the target has the feature for them (`winograd`). For
    targets with that feature. On devices the weights of `hip.linear` are transposed.
    """

    def apply(self, module: Any, context: PassContext) -> None:
        if context.on_device:
            _transpose(module, context)
        if FEATURE not in context.target.features:
            return
        matrices = pack_quantized(module, context)
        transformed_kernels(module, context)
        packed: dict[tuple[str, tuple[int, ...], bool], str] = {}
        for op in operations_named(module, "hip.matmul"):
            definition = context.ops[op.name]
            parts = read_op(definition, op)
            matrix = parts.inputs["b"]
            if parts.attributes["packed"] or not _is_large_f32_constant(matrix):
                continue
            source = matrix.owner.operation.attributes["buffer"].value
            transposed = parts.attributes["trans_b"]
            array = contents(matrix, context)
            columns = array.T if transposed else array
            view = (source, array.shape, transposed)
            if view not in packed:
                packed[view] = context.constants.add(f"{source}.packed", pack(columns))
                keys = {"weights": packed[view]}
                matrices.append(PackedMatrix(columns.shape[1], columns.shape[0], 0, 0, {"weights": columns.T}, keys))
            key = packed[view]
            with ir.InsertionPoint(op), op.location:
                shape = [-(-columns.shape[1] // PANEL), columns.shape[0], PANEL]
                panels = ir.Operation.create(
                    "hip.constant",
                    results=[ir.RankedTensorType.get(shape, matrix.type.element_type)],
                    attributes={"buffer": ir.StringAttr.get(key)},
                ).result
                attributes = parts.attributes | {"packed": True, "trans_b": False, "n": columns.shape[1]}
                inputs = [panels if name == "b" else value for name, value in parts.inputs.items()]
                made = create_op(definition, inputs, list(parts.outputs.values()), attributes)
            op.results[0].replace_all_uses_with(made.results[0])
            op.erase()
        share_tables(module, context, matrices)


def _transpose(module: Any, context: PassContext) -> None:
    """Constant weights of `hip.linear` as [N, K]: a wave of a GPU then reads consecutive elements of a row."""
    made: dict[tuple[str, tuple[int, ...]], str] = {}
    for op in operations_named(module, "hip.linear"):
        definition = context.ops[op.name]
        parts = read_op(definition, op)
        weights = {name: parts.inputs[name] for name in ("weight", "up") if parts.inputs[name] is not None}
        done = parts.attributes["bits"] or parts.attributes["transposed"]
        if done or not all(_is_pooled(value) for value in weights.values()):
            continue
        inputs = dict(parts.inputs)
        with ir.InsertionPoint(op), op.location:
            for name, value in weights.items():
                source = value.owner.operation.attributes["buffer"].value
                view = (source, tuple(value.type.shape))
                if view not in made:
                    made[view] = context.constants.add_view(f"{source}.transposed", contents(value, context).T)
                kind = ir.RankedTensorType.get(list(value.type.shape)[::-1], value.type.element_type)
                attributes = {"buffer": ir.StringAttr.get(made[view])}
                inputs[name] = ir.Operation.create("hip.constant", results=[kind], attributes=attributes).result
            destinations = list(parts.outputs.values())
            changed = parts.attributes | {"transposed": True}
            replacement = create_op(definition, list(inputs.values()), destinations, changed)
        op.results[0].replace_all_uses_with(replacement.results[0])
        op.erase()


def _is_pooled(value: Any) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "hip.constant":
        return False
    return "buffer" in owner.operation.attributes


def pack(matrix: np.ndarray) -> np.ndarray:
    """`[K, N]` to `[ceil(N / 32), K, 32]`, zeros beyond N."""
    rows, columns = matrix.shape
    panels = -(-columns // PANEL)
    padded = np.zeros((rows, panels * PANEL), matrix.dtype)
    padded[:, :columns] = matrix
    return np.ascontiguousarray(padded.reshape(rows, panels, PANEL).transpose(1, 0, 2))


def _is_large_f32_constant(value: Any) -> bool:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "hip.constant":
        return False
    kind = value.type
    return "buffer" in owner.operation.attributes and kind.rank == 2 and str(kind.element_type) == "f32"
