"""Weights of few bits in the layout of the host kernels (`kernels/host/matmul_nbits.h`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hip_compiler.core.dialects.access import create_op, read_op
from hip_compiler.core.dialects.hip.matmul import PANEL
from hip_compiler.core.dialects.hip.matmul_nbits import STRIP
from hip_compiler.core.frontend.attributes import dense_array
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.walk import operations_named

OPERATION = "hip.matmul_nbits"


@dataclass(frozen=True)
class PackedMatrix:
    """A product's right-hand side [k, n] before and after packing.

    Attributes:
        bits: of an element; 0: float32.
        arrays: what was packed; floats are [n, k] under "weights".
        keys: packed arrays in the constant pool.
    """

    n: int
    k: int
    bits: int
    block: int
    arrays: dict[str, np.ndarray]
    keys: dict[str, str]


def pack_quantized(module: Any, context: PassContext) -> list[PackedMatrix]:
    """Products of `hip.matmul_nbits` whose weights, scales and zero points are constant get them packed.

    Returns:
        What was packed, and from what.
    """
    packed: dict[tuple[str, str, int, int], str] = {}
    matrices = []
    for op in operations_named(module, OPERATION):
        definition = context.ops[op.name]
        parts = read_op(definition, op)
        sources = {name: parts.inputs[name] for name in ("weights", "scales", "zeros")}
        if parts.attributes["packed"] or not all(value is None or _is_constant(value) for value in sources.values()):
            continue
        n, bits, block = (parts.attributes[name] for name in ("n", "bits", "block"))
        blocks = -(-parts.attributes["k"] // block)
        with ir.InsertionPoint(op), op.location:
            made: dict[str, Any] = {}
            arrays: dict[str, np.ndarray] = {}
            keys: dict[str, str] = {}
            for name, value in sources.items():
                if value is None:
                    made[name] = None
                    continue
                key = (name, _identity(value), bits, block)
                array = contents(value, context)
                if key not in packed:
                    layout = _pack(name, array, n=n, blocks=blocks, bits=bits, block=block)
                    packed[key] = context.constants.add(f"{_identity(value)}.packed", layout)
                made[name] = constant_of(packed[key], context.constants.get(packed[key]))
                arrays[name], keys[name] = array, packed[key]
            inputs = [made.get(name, value) for name, value in parts.inputs.items()]
            attributes = parts.attributes | {"packed": True}
            replacement = create_op(definition, inputs, list(parts.outputs.values()), attributes)
        op.results[0].replace_all_uses_with(replacement.results[0])
        op.erase()
        matrices.append(PackedMatrix(n, parts.attributes["k"], bits, block, arrays, keys))
    return matrices


def _pack(name: str, array: np.ndarray, *, n: int, blocks: int, bits: int, block: int) -> np.ndarray:
    if name == "weights":
        return pack_words(array.reshape(n, blocks, block * bits // 8).view(np.uint8), bits)
    if name == "zeros" and array.dtype.itemsize == 1:
        rows = array.reshape(n, -1).view(np.uint8)
        array = unpack_fields(rows, bits)[:, :blocks]
    return pack_cells(array.reshape(n, blocks).astype(np.float32))


def unpack_fields(array: np.ndarray, bits: int) -> np.ndarray:
    """Fields of bytes along the last axis, lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    fields = array[..., None] >> shifts & np.uint8((1 << bits) - 1)
    return fields.reshape(*array.shape[:-1], -1)


def pack_words(weights: np.ndarray, bits: int) -> np.ndarray:
    """`[n, blocks, block * bits / 8]` bytes to `[strips, blocks, words, STRIP * 4]`, zeros beyond n.

    Field f of byte t of word g belongs to k = g * 32 / bits + 4 * f + t of its block: four neighbours of k are the
    same field of the four bytes, as the 8-bit dot product reads them.
    """
    n, blocks, _ = weights.shape
    per_byte = 8 // bits
    fields = unpack_fields(weights, bits).reshape(n, blocks, -1, per_byte, 4)
    words = np.zeros((n, blocks, fields.shape[2], 4), np.uint8)
    for field in range(per_byte):
        words |= fields[:, :, :, field] << np.uint8(bits * field)
    strips = _strips(words)
    return np.ascontiguousarray(strips.transpose(0, 2, 3, 1, 4)).reshape(len(strips), blocks, -1, STRIP * 4)


def pack_cells(cells: np.ndarray) -> np.ndarray:
    """`[n, blocks]` to `[strips, blocks, STRIP]`, zeros beyond n."""
    return np.ascontiguousarray(_strips(cells).transpose(0, 2, 1))


def _strips(rows: np.ndarray) -> np.ndarray:
    """`[n, ...]` to `[strips, STRIP, ...]`, whole panels."""
    count = -(-rows.shape[0] // PANEL) * PANEL
    padded = np.zeros((count, *rows.shape[1:]), rows.dtype)
    padded[: rows.shape[0]] = rows
    return padded.reshape(-1, STRIP, *rows.shape[1:])


def _is_constant(value: Any) -> bool:
    owner = value.owner
    return not isinstance(owner, ir.Block) and owner.operation.name == "hip.constant"


def contents(value: Any, context: PassContext) -> np.ndarray:
    """The array of a `hip.constant`; the pool may hold it under another shape, of which this is a view."""
    attributes = value.owner.operation.attributes
    if "buffer" not in attributes:
        return dense_array(attributes["value"])
    array = context.constants.get(attributes["buffer"].value)
    shape = tuple(value.type.shape)
    return array.reshape(shape) if array.size == np.prod(shape, dtype=np.int64) else array


def _identity(value: Any) -> str:
    attributes = value.owner.operation.attributes
    return str(attributes["buffer"].value) if "buffer" in attributes else f"inline.{hash(value.owner)}"


def constant_of(key: str, array: np.ndarray) -> Any:
    element = ir.F32Type.get() if array.dtype == np.float32 else ir.IntegerType.get_signless(8)
    return ir.Operation.create(
        "hip.constant",
        results=[ir.RankedTensorType.get(array.shape, element)],
        attributes={"buffer": ir.StringAttr.get(key)},
    ).result
