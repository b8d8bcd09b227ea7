"""Vector instructions whose pseudo-code leaves things open, or that are quicker by hand.

Each takes the group, the raw source operands and the prepared instruction, and gives the raw bits of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.emulator import numeric
from tests.emulator.numeric import Array
from tests.emulator.scalar import find_bit
from tests.emulator.state import Group

Special = Callable[[Group, list[Array], Any], Array]


def _count_lanes_below(half: int) -> Special:
    """V_MBCNT: how many bits of a mask belong to lanes below this one, in one half of the wave."""

    def run(group: Group, values: list[Array], _: Any) -> Array:
        lane = group.waves.lane.astype(np.int64)
        below = np.clip(lane - 32 * half, 0, 32).astype(np.uint64)
        mask = ((np.uint64(1) << below) - np.uint64(1)).astype(np.uint32)
        return np.bitwise_count(values[0] & mask).astype(np.uint32) + values[1]

    return run


def _float(function: Callable[..., Array], bits: int) -> Special:
    def run(_: Group, values: list[Array], __: Any) -> Array:
        return numeric.to_bits(function(*(numeric.from_bits(value, "f", bits) for value in values)), "f", bits)

    return run


def _signed(function: Callable[..., Array]) -> Special:
    def run(_: Group, values: list[Array], __: Any) -> Array:
        return function(*(value.view(np.int32) for value in values)).view(np.uint32)

    return run


def _median(a: Array, b: Array, c: Array) -> Array:
    low, high = (np.fmin, np.fmax) if a.dtype.kind == "f" else (np.minimum, np.maximum)
    return high(low(a, b), low(high(a, b), c))


def _multiply_add_64(group: Group, values: list[Array], instruction: Any) -> Array:
    signed = "I64" in instruction.name
    if signed:
        a, b = (value.view(np.int32).astype(np.int64) for value in values[:2])
        return (a * b).view(np.uint64) + values[2]
    return values[0].astype(np.uint64) * values[1].astype(np.uint64) + values[2]


def _division_scale(bits: int) -> Special:
    """V_DIV_SCALE: scale numerator or denominator where the quotient's steps would leave the range."""
    kind = numeric.FLOATS[bits]
    up, down = (kind(2.0**64), kind(2.0**-64)) if bits == 32 else (kind(2.0**128), kind(2.0**-128))
    tiny = np.finfo(kind).tiny
    apart, few = (96, 23) if bits == 32 else (768, 53)
    bias = 126 if bits == 32 else 1022

    def run(group: Group, values: list[Array], instruction: Any) -> Array:
        value, denominator, numerator = (numeric.from_bits(raw, "f", bits) for raw in values)
        exponent_d, exponent_n = np.frexp(denominator)[1], np.frexp(numerator)[1]
        is_denominator, is_numerator = values[0] == values[1], values[0] == values[2]
        quotient_small = np.abs(numerator / denominator) < tiny
        # The reciprocal of a huge number is subnormal.
        reciprocal_small = np.abs(denominator) > 1 / tiny
        conditions = [
            (numerator == 0) | (denominator == 0),
            (exponent_n - exponent_d) >= apart,
            np.abs(denominator) < tiny,
            reciprocal_small & quotient_small,
            reciprocal_small,
            quotient_small,
            exponent_n + bias <= few,
        ]
        results = [
            kind(np.nan) * value,
            np.where(is_denominator, value * up, value),
            value * up,
            np.where(is_denominator, value * up, value),
            value * down,
            np.where(is_numerator, value * up, value),
            value * up,
        ]
        scaled = np.select(np.broadcast_arrays(*conditions), np.broadcast_arrays(*results), value)
        flags = np.select(np.broadcast_arrays(*conditions[1:6]), [True, False, True, False, True], False)
        group.set_lanes(instruction.word.sdst.offset, flags & ~conditions[0] & group.active())
        return numeric.to_bits(scaled.astype(kind), "f", bits)

    return run


def _division_fix(bits: int) -> Special:
    """V_DIV_FIXUP: the cases that a quotient's refinement does not cover."""

    def run(_: Group, values: list[Array], __: Any) -> Array:
        quotient, denominator, numerator = (numeric.from_bits(raw, "f", bits) for raw in values)
        sign = np.where(np.signbit(denominator) ^ np.signbit(numerator), -1.0, 1.0)
        invalid = np.isnan(numerator) | np.isnan(denominator) | ((numerator == 0) & (denominator == 0))
        invalid = invalid | (np.isinf(numerator) & np.isinf(denominator))
        infinite = (denominator == 0) | np.isinf(numerator)
        zero = np.isinf(denominator) | (numerator == 0)
        result = np.where(infinite, np.inf, np.where(zero, 0.0, np.abs(quotient)))
        result = np.where(invalid, np.nan, sign * result)
        return numeric.to_bits(result.astype(quotient.dtype), "f", bits)

    return run


def _permute_bytes(_: Group, values: list[Array], __: Any) -> Array:
    """V_PERM_B32: each byte of the result picks one of eight bytes, a sign, zero or 0xff."""
    both = (values[0].astype(np.uint64) << np.uint64(32)) | values[1].astype(np.uint64)
    result: Array = np.uint32(0)
    for place in range(4):
        select = (values[2] >> np.uint32(8 * place)) & np.uint32(0xFF)
        byte = (both >> (np.uint64(8) * (select & np.uint32(7)).astype(np.uint64))) & np.uint64(0xFF)
        sign_bit = (np.uint64(16) * (select & np.uint32(3)).astype(np.uint64)) + np.uint64(15)
        sign = ((both >> sign_bit) & np.uint64(1)) * np.uint64(0xFF)
        byte = np.where(select < 8, byte, np.where(select < 12, sign, np.where(select == 12, 0, 0xFF)))
        result = result | (byte.astype(np.uint32) << np.uint32(8 * place))
    return result


def _dot_bytes(signs: tuple[bool | None, bool | None]) -> Special:
    """Four products of bytes; a sign of None is taken from the instruction's NEG bits."""

    def run(_: Group, values: list[Array], instruction: Any) -> Array:
        negate = getattr(instruction.word, "neg", 0)
        kinds = ["i" if (negate >> k & 1 if sign is None else sign) else "u" for k, sign in enumerate(signs)]
        total = values[2]
        for place in range(4):
            a, b = (
                numeric.from_bits(value >> np.uint32(8 * place), kind, 8).view(np.uint32)
                for value, kind in zip(values[:2], kinds, strict=True)
            )
            total = total + a * b
        return total

    return run


def _first_bit(end: str) -> Special:
    return lambda group, values, _: find_bit(values[0], 32, end)


SPECIAL: dict[str, Special] = {
    "V_MBCNT_LO_U32_B32": _count_lanes_below(0),
    "V_MBCNT_HI_U32_B32": _count_lanes_below(1),
    "V_DIV_SCALE_F32": _division_scale(32),
    "V_DIV_SCALE_F64": _division_scale(64),
    "V_DIV_FIXUP_F32": _division_fix(32),
    "V_DIV_FIXUP_F16": _division_fix(16),
    "V_DIV_FIXUP_F64": _division_fix(64),
    "V_PERM_B32": _permute_bytes,
    "V_MAD_U64_U32": _multiply_add_64,
    "V_MAD_CO_U64_U32": _multiply_add_64,
    "V_MAD_I64_I32": _multiply_add_64,
    "V_MAD_CO_I64_I32": _multiply_add_64,
    "V_MED3_I32": _signed(_median),
    "V_MED3_U32": lambda group, values, _: _median(*values),
    "V_MED3_F32": _float(_median, 32),
    "V_MED3_F16": _float(_median, 16),
    "V_MED3_NUM_F32": _float(_median, 32),
    "V_MED3_NUM_F16": _float(_median, 16),
    "V_FFBL_B32": _first_bit("first"),
    "V_CTZ_I32_B32": _first_bit("first"),
    "V_FFBH_U32": _first_bit("last"),
    "V_CLZ_I32_U32": _first_bit("last"),
    "V_FFBH_I32": _first_bit("sign"),
    "V_CLS_I32": _first_bit("sign"),
    "V_DOT4_I32_I8": _dot_bytes((True, True)),
    "V_DOT4_U32_U8": _dot_bytes((False, False)),
    "V_DOT4_I32_IU8": _dot_bytes((None, None)),
    "V_LDEXP_F32": lambda group, values, _: np.ldexp(
        numeric.from_bits(values[0], "f", 32), values[1].view(np.int32)
    ).view(np.uint32),
    "V_RNDNE_F32": _float(np.rint, 32),
    "V_RNDNE_F64": _float(np.rint, 64),
    "V_EXP_F32": _float(np.exp2, 32),
    "V_RSQ_F32": _float(lambda x: (1.0 / np.sqrt(x.astype(np.float64))).astype(np.float32), 32),
}
for _bits in (16, 32, 64):
    for _suffix in (f"F{_bits}", f"NUM_F{_bits}"):
        SPECIAL[f"V_MAX_{_suffix}"] = _float(np.fmax, _bits)
        SPECIAL[f"V_MIN_{_suffix}"] = _float(np.fmin, _bits)
