"""Tied embeddings: a table whose rows are the columns of a packed matrix is read from there, and stored once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hip_compiler.core.dialects.access import create_op, read_op
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.pack_quantized import PackedMatrix, constant_of, contents
from hip_compiler.core.passes.walk import operations_named

GATHER, QUANTISED, PACKED = "hip.gather", "hip.gather_block_quantized", "hip.gather_packed"


def share_tables(module: Any, context: PassContext, matrices: Sequence[PackedMatrix]) -> None:
    """Gathers of rows from constants that equal a packed matrix, transposed, become `hip.gather_packed`."""
    for op in operations_named(module, GATHER):
        parts = read_op(context.ops[op.name], op)
        table = _constant(parts.inputs["data"], context)
        if table is None or table.ndim != 2 or parts.attributes["axis"] % 2 or table.dtype != np.float32:
            continue
        _replace(op, parts, _find(matrices, table, 0, 0, None, None), context, zeros_outside=False)
    for op in operations_named(module, QUANTISED):
        parts = read_op(context.ops[op.name], op)
        bits, block = parts.attributes["bits"], parts.attributes["block"]
        arrays = [_constant(parts.inputs[name], context) for name in ("table", "scales")]
        zeros = None if parts.inputs["zeros"] is None else _constant(parts.inputs["zeros"], context)
        plain = not parts.attributes["is_signed"] and parts.attributes["default_zero"] == 1 << (bits - 1)
        if arrays[0] is None or arrays[1] is None or arrays[0].ndim != 2 or not plain:
            continue
        if (zeros is None) != (parts.inputs["zeros"] is None):
            continue
        _replace(op, parts, _find(matrices, arrays[0], bits, block, arrays[1], zeros), context, zeros_outside=True)


def _constant(value: Any, context: PassContext) -> np.ndarray | None:
    """The array of a constant; None for a value that is none."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "hip.constant":
        return None
    return contents(value, context)


def _find(
    matrices: Sequence[PackedMatrix],
    table: np.ndarray,
    bits: int,
    block: int,
    scales: np.ndarray | None,
    zeros: np.ndarray | None,
) -> PackedMatrix | None:
    """The packed matrix whose columns are the table's rows, element by element."""
    wanted = {"weights": table, "scales": scales, "zeros": zeros}
    given = {name: array for name, array in wanted.items() if array is not None}
    for matrix in matrices:
        if (matrix.bits, matrix.block, matrix.n) != (bits, block, len(table)) or matrix.arrays.keys() != given.keys():
            continue
        if all(_same(matrix.arrays[name], array) for name, array in given.items()):
            return matrix
    return None


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays, the first in the second's shape, have the same bits; without a copy of a large one."""
    if a.size != b.size or a.dtype.itemsize != b.dtype.itemsize:
        return False
    if a.shape != b.shape:
        a = a.reshape(b.shape)
    # Bit patterns: a NaN equals itself, and 0 is not -0.
    kind = f"u{a.dtype.itemsize}"
    step = max(1, (1 << 20) // max(1, a[0].nbytes))
    parts = ((np.ascontiguousarray(x[first : first + step]) for x in (a, b)) for first in range(0, len(a), step))
    return all(np.array_equal(x.view(kind), y.view(kind)) for x, y in parts)


def _replace(op: Any, parts: Any, matrix: PackedMatrix | None, context: PassContext, *, zeros_outside: bool) -> None:
    if matrix is None:
        return
    with ir.InsertionPoint(op), op.location:
        made = {name: constant_of(key, context.constants.get(key)) for name, key in matrix.keys.items()}
        inputs = [made["weights"], parts.inputs["indices"], made.get("scales"), made.get("zeros")]
        attributes = {
            "n": matrix.n,
            "k": matrix.k,
            "bits": matrix.bits,
            "block": matrix.block,
            "zeros_outside": zeros_outside,
        }
        replacement = create_op(context.ops[PACKED], inputs, list(parts.outputs.values()), attributes)
    op.results[0].replace_all_uses_with(replacement.results[0])
    op.erase()
