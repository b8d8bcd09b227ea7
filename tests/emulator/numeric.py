"""Number formats of the machine as numpy arrays, and the conversions between them.

How a value of a kind and a number of bits is stored: ``u`` in uint32 or uint64 with the bits above cleared, ``i`` in
int32 or int64 with the sign extended, ``f`` in float16, float32 or float64, ``bf`` (bfloat16) in float32, ``p`` (a
predicate) in bool. A value is an array over waves, or waves and lanes, or a numpy scalar.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # numpy arrays and numpy scalars, of the dtypes above

FLOATS: dict[int, Any] = {16: np.float16, 32: np.float32, 64: np.float64}
_UNSIGNED_OF: dict[int, Any] = {16: np.uint16, 32: np.uint32, 64: np.uint64}


def dtype_of(kind: str, bits: int) -> Any:
    """The numpy dtype that stores such a value."""
    if kind == "p":
        return np.bool_
    if kind == "bf":
        return np.float32
    if kind == "f":
        return FLOATS[bits]
    if kind == "i":
        return np.int32 if bits <= 32 else np.int64
    return np.uint32 if bits <= 32 else np.uint64


def ones(bits: int) -> Any:
    """The lowest `bits` bits set, as a numpy scalar of the storage type."""
    return np.uint32((1 << bits) - 1) if bits <= 32 else np.uint64((1 << bits) - 1)


def to_bits(value: Array, kind: str, bits: int) -> Array:
    """The representation of a value, as kind ``u`` of the same width."""
    if kind == "u":
        return value
    if kind == "p":
        return value.astype(np.uint32)
    if kind == "i":
        raw = value.view(np.uint32 if bits <= 32 else np.uint64)
        return raw if bits in (32, 64) else raw & ones(bits)
    if kind == "bf":
        return round_to_bfloat16(value)
    raw = value.view(_UNSIGNED_OF[bits])
    return raw.astype(np.uint32) if bits == 16 else raw


def from_bits(raw: Array, kind: str, bits: int) -> Array:
    """A value from its representation; bits above the width are ignored."""
    if bits <= 32 and raw.dtype != np.uint32:
        raw = raw.astype(np.uint32)
    elif bits > 32 and raw.dtype != np.uint64:
        raw = raw.astype(np.uint64)
    if kind == "f":
        return raw.astype(np.uint16).view(np.float16) if bits == 16 else raw.view(FLOATS[bits])
    if kind == "bf":
        return (raw << np.uint32(16)).view(np.float32)
    if kind == "i":
        if bits in (32, 64):
            return raw.view(np.int32 if bits == 32 else np.int64)
        width = 32 if bits <= 32 else 64
        signed = np.int32 if width == 32 else np.int64
        shift = raw.dtype.type(width - bits)
        return (raw << shift).view(signed) >> signed(width - bits)
    return raw if bits in (32, 64) else raw & ones(bits)


def round_to_bfloat16(value: Array) -> Array:
    """float32 to the 16 bits of bfloat16, ties to even; a NaN becomes the quiet one."""
    raw = value.astype(np.float32).view(np.uint32)
    rounded = (raw + np.uint32(0x7FFF) + ((raw >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(value), np.uint32(0x7FC0), rounded)


def convert(value: Array, kind: str, bits: int, to_kind: str, to_bits_count: int) -> Array:
    """The number as another kind: integers wrap, floats round to nearest even, floats to integers saturate."""
    if kind == "p":
        value, kind, _bits = value.astype(np.uint32), "u", 32
    if to_kind in ("f", "bf"):
        dtype = dtype_of(to_kind, to_bits_count)
        result = value if value.dtype == dtype else value.astype(dtype)
        return from_bits(round_to_bfloat16(result), "bf", 16) if to_kind == "bf" and kind == "f" else result
    if kind in ("f", "bf"):
        return _saturate(value, to_kind, to_bits_count)
    if to_bits_count > 32:
        wide = value.astype(np.int64) if kind == "i" else value.astype(np.uint64)
        return from_bits(wide.view(np.uint64), to_kind, to_bits_count)
    return from_bits(
        value.astype(np.uint32) if value.dtype.itemsize > 4 else value.view(np.uint32), to_kind, to_bits_count
    )


def _saturate(value: Array, kind: str, bits: int) -> Array:
    low, high = (0, 2**bits - 1) if kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    whole = np.trunc(np.nan_to_num(value.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    storage = dtype_of(kind, bits)
    inside = np.where((whole >= low) & (whole < float(high) + (1 if bits <= 32 else 0)), whole, 0.0)
    return np.where(whole <= low, storage(low), np.where(whole >= high, storage(high), inside.astype(storage)))


def shift_left(value: Array, count: Array) -> Array:
    """`value << count`; zero from the width of the storage on."""
    width = value.dtype.itemsize * 8
    count = count.astype(np.int64) if count.dtype != np.int64 else count
    inside = (count & (width - 1)).astype(value.dtype)
    return np.where(count < width, value << inside, value.dtype.type(0))


def shift_right(value: Array, count: Array) -> Array:
    """`value >> count`, arithmetic for signed values; all sign bits from the width of the storage on."""
    width = value.dtype.itemsize * 8
    return (
        value >> np.minimum(count.astype(np.int64), width - 1).astype(value.dtype)
        if value.dtype.kind == "i"
        else (
            np.where(
                count.astype(np.int64) < width,
                value >> (count.astype(np.int64) & (width - 1)).astype(value.dtype),
                value.dtype.type(0),
            )
        )
    )


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """`a * b + c`, rounded once for float16 and (but for rare double rounding) float32; in float64 rounded twice."""
    if a.dtype == np.float64:
        return a * b + c
    wide = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    return wide.astype(a.dtype)


def lanes_to_words(mask: Array) -> Array:
    """bool [waves, lanes] -> uint32 [lanes / 32, waves], bit i of the words is lane i."""
    packed = np.packbits(mask, axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view(np.uint32).T


def words_to_lanes(low: Array, high: Array | None, lanes: Array) -> Array:
    """The inverse of `lanes_to_words`: uint32 [waves] for lanes 0 to 31 and, for 64 lanes, for 32 to 63."""
    if high is None:
        return ((low[:, None] >> lanes) & np.uint32(1)).astype(np.bool_)
    both = np.stack([low, high], axis=1)
    return ((both[:, lanes >> np.uint32(5)] >> (lanes & np.uint32(31))) & np.uint32(1)).astype(np.bool_)
