"""Floats of 8 and 4 bits as bit patterns: conversion from and to `f32` with integer arithmetic, which vectorises.

Rules: ONNX Cast; formats: OCP 8-bit floating point (E4M3FN, E5M2), OCP microscaling (E8M0, E2M1), and the variants
without infinities and negative zero (FNUZ).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import arith, ir
from hip_compiler.dtypes import DType

_INFINITY, _NAN, _MAGNITUDE = 0x7F800000, 0x7FC00000, 0x7FFFFFFF
_PREDICATE = arith.CmpIPredicate


@dataclass(frozen=True)
class Format:
    """A format of sign, exponent and mantissa.

    Attributes:
        sign: position of the sign bit.
        mantissa: bits of the mantissa.
        bias: of the exponent.
        largest: code of the largest finite number.
        overflow: code of what is larger, when it does not saturate.
        nan: code that NaN becomes; None where there is no NaN.
        unsigned_zero: the code of -0 is the NaN.
    """

    sign: int
    mantissa: int
    bias: int
    largest: int
    overflow: int
    nan: int | None
    unsigned_zero: bool = False

    @property
    def infinity(self) -> int | None:
        """Code of infinity; None where there is none."""
        return None if self.nan in (None, self.overflow) else self.overflow


FORMATS = {
    "float8e4m3fn": Format(7, 3, 7, 0x7E, 0x7F, 0x7F),
    "float8e4m3fnuz": Format(7, 3, 8, 0x7F, 0x80, 0x80, unsigned_zero=True),
    "float8e5m2": Format(7, 2, 15, 0x7B, 0x7C, 0x7E),
    "float8e5m2fnuz": Format(7, 2, 16, 0x7F, 0x80, 0x80, unsigned_zero=True),
    "float4e2m1": Format(3, 1, 1, 0x7, 0x7, None),
}
EXPONENT_ONLY = "float8e8m0"
ROUND_MODES = ("up", "down", "nearest")


def is_narrow(dtype: DType) -> bool:
    """Whether an element type is a float of less than 16 bits, which bodies hold as its bits."""
    return dtype.name in FORMATS or dtype.name == EXPONENT_ONLY


def decode(code: Any, dtype: DType) -> Any:
    """The `f32` of an `i8` bit pattern; exact."""
    bits = arith.extui(_i32(), code)
    if dtype.name == EXPONENT_ONLY:
        # Code 0 is 2**-127, a subnormal f32; 255 is NaN.
        normal = arith.shli(bits, _const(23))
        value = _select(_equal(bits, 0), _const(1 << 22), normal)
        return _float(_select(_equal(bits, 255), _const(_NAN), value))
    fmt = FORMATS[dtype.name]
    magnitude = arith.andi(bits, _const((1 << fmt.sign) - 1))
    normal = arith.addi(arith.shli(magnitude, _const(23 - fmt.mantissa)), _const((127 - fmt.bias) << 23))
    unit = _real(2.0 ** (1 - fmt.bias - fmt.mantissa))
    subnormal = _bits(arith.mulf(arith.sitofp(_f32(), magnitude), unit))
    value = _select(_less(magnitude, 1 << fmt.mantissa), subnormal, normal)
    if fmt.infinity is not None:
        value = _select(_equal(magnitude, fmt.infinity), _const(_INFINITY), value)
        value = _select(_less(magnitude, fmt.infinity + 1), value, _const(_NAN))
    elif fmt.nan is not None and not fmt.unsigned_zero:
        value = _select(_equal(magnitude, fmt.nan), _const(_NAN), value)
    sign = arith.shli(arith.shrui(bits, _const(fmt.sign)), _const(31))
    value = arith.ori(value, sign)
    if fmt.unsigned_zero:
        value = _select(_equal(bits, 1 << fmt.sign), _const(_NAN), value)
    return _float(value)


def encode(value: Any, dtype: DType, *, saturate: bool, round_mode: str) -> Any:
    """The `i8` bit pattern nearest to an `f32`, ties to even.

    Args:
        saturate: numbers beyond the range become the largest one, infinities too; else infinity, or NaN without one.
        round_mode: of float8e8m0 only: a member of `ROUND_MODES`; ties go up.
    """
    bits = _bits(value)
    if dtype.name == EXPONENT_ONLY:
        return arith.trunci(_i8(), _exponent(bits, saturate=saturate, round_mode=round_mode))
    fmt = FORMATS[dtype.name]
    magnitude = arith.andi(bits, _const(_MAGNITUDE))
    shift = 23 - fmt.mantissa
    # Half a unit, less one unless the last kept bit is odd: what ties to even add before they cut.
    odd = arith.andi(arith.shrui(magnitude, _const(shift)), _const(1))
    rounded = arith.addi(magnitude, arith.addi(odd, _const((1 << (shift - 1)) - 1)))
    normal = arith.subi(arith.shrui(rounded, _const(shift)), _const((127 - fmt.bias) << fmt.mantissa))
    # Adding a number whose last bit is the smallest subnormal makes the hardware round to it.
    magic = 2.0 ** (1 - fmt.bias - fmt.mantissa + 23)
    sum_bits = _bits(arith.addf(_float(magnitude), _real(magic)))
    subnormal = arith.subi(sum_bits, _bits(_real(magic)))
    code = _select(_less(magnitude, (128 - fmt.bias) << 23), subnormal, normal)
    limit = fmt.largest if saturate else fmt.overflow
    code = _select(_less(code, fmt.largest + 1), code, _const(limit))
    number = _less(magnitude, _INFINITY + 1)
    sign = arith.andi(arith.shrui(bits, _const(31 - fmt.sign)), _const(1 << fmt.sign))
    if fmt.unsigned_zero:
        sign = _select(_equal(code, 0), _const(0), sign)
        code = _select(number, arith.ori(code, sign), _const(1 << fmt.sign))
    elif fmt.nan is not None:
        code = arith.ori(_select(number, code, _const(fmt.nan)), sign)
    else:
        # ONNX does not say what a NaN becomes; its own test data has a zero of the other sign.
        code = _select(number, arith.ori(code, sign), arith.xori(sign, _const(1 << fmt.sign)))
    return arith.trunci(_i8(), code)


def _exponent(bits: Any, *, saturate: bool, round_mode: str) -> Any:
    """The code of float8e8m0: a power of two from 2**-127 to 2**127. What is negative becomes NaN."""
    exponent, fraction = arith.shrui(bits, _const(23)), arith.andi(bits, _const(0x7FFFFF))
    lowest = 1 << 22  # 2**-127, a subnormal f32
    if round_mode == "down":
        code = exponent
    else:
        # Between 2**-127 and 2**-126 numbers are subnormal, with the lower end at `lowest`.
        low, high = (lowest + 1, 1) if round_mode == "up" else (3 * lowest // 2, 1 << 22)
        bound = _select(_equal(exponent, 0), _const(low), _const(high))
        code = _select(arith.cmpi(_PREDICATE.uge, fraction, bound), arith.addi(exponent, _const(1)), exponent)
    nan = _const(255)
    largest = _const(254) if saturate else nan
    code = _select(_less(code, 255), code, largest)
    if not saturate:
        code = _select(_less(bits, lowest), nan, code)
    negative_zero = arith.ori(_equal(bits, -(1 << 31)), _less(bits, _INFINITY + 1, unsigned=True))
    zero = _select(_equal(bits, -(1 << 31)), _const(0) if saturate else nan, code)
    return _select(negative_zero, zero, nan)


def _i8() -> Any:
    return ir.IntegerType.get_signless(8)


def _i32() -> Any:
    return ir.IntegerType.get_signless(32)


def _f32() -> Any:
    return ir.F32Type.get()


def _const(number: int) -> Any:
    return arith.constant(_i32(), ir.IntegerAttr.get(_i32(), number))


def _real(number: float) -> Any:
    return arith.constant(_f32(), ir.FloatAttr.get(_f32(), number))


def _bits(value: Any) -> Any:
    return arith.bitcast(_i32(), value)


def _float(bits: Any) -> Any:
    return arith.bitcast(_f32(), bits)


def _select(condition: Any, then: Any, otherwise: Any) -> Any:
    return arith.select(condition, then, otherwise)


def _equal(value: Any, number: int) -> Any:
    return arith.cmpi(_PREDICATE.eq, value, _const(number))


def _less(value: Any, number: int, *, unsigned: bool = False) -> Any:
    return arith.cmpi(_PREDICATE.ult if unsigned else _PREDICATE.slt, value, _const(number))
