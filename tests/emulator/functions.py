"""Functions that the pseudo-code calls."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.emulator.numeric import Array
from tests.emulator.pseudocode import PseudoCodeError

if TYPE_CHECKING:
    from tests.emulator.translate import Value, _Translator

_SAME = {"sqrt": "np.sqrt", "floor": "np.floor", "ceil": "np.ceil", "trunc": "np.trunc", "log2": "np.log2",
         "sin": "np.sin", "cos": "np.cos", "rndne": "np.rint", "fract": "fn.fraction", "abs": "np.abs",
         "mantissa": "fn.mantissa"}  # fmt: skip
_TESTS = {"isNAN": "np.isnan", "isINF": "np.isinf", "isQuietNAN": "np.isnan", "isEven": "fn.is_even"}
_KINDS = {"f": "f", "u": "u", "i": "i", "bf": "bf"}
_EXPONENT = {16: (10, 5), 32: (23, 8), 64: (52, 11)}


def call(translator: _Translator, name: str, values: list[Value]) -> Value:
    """The translation of one call."""
    first = values[0]
    emit = translator.emit
    if name in _SAME:
        return emit(f"{_SAME[name]}({first.code})", first.kind, first.bits)
    if name in _TESTS:
        return emit(f"{_TESTS[name]}({first.code})", "p", 1)
    if name == "isSignalNAN":
        # The machine runs with quiet NaNs only: nothing in our kernels makes a signalling one.
        return translator.constant(0, "u", 1)
    if name == "cvtToQuietNAN":
        return first
    if name == "fma":
        a, b = translator.unify(values[0], values[1])
        a, c = translator.unify(a, values[2])
        b = translator.convert(b, a.kind, a.bits)
        return emit(f"n.fused_multiply_add({a.code}, {b.code}, {c.code})", a.kind, a.bits)
    if name == "ldexp":
        return emit(f"np.ldexp({first.code}, {values[1].code}.astype(np.int32))", first.kind, first.bits)
    if name == "sign":
        raw = translator.raw(first)
        return emit(
            f"({raw.code} >> {translator.constant(first.bits - 1, 'u', max(32, first.bits)).code}) != 0", "p", 1
        )
    if name == "exponent":
        low, count = _EXPONENT[first.bits]
        raw = translator.raw(first)
        shift = translator.constant(low, "u", max(32, first.bits)).code
        return emit(f"n.from_bits({raw.code} >> {shift}, 'u', {count}).astype(np.int32)", "i", 32)
    if name == "signext":
        return translator.convert(translator.reinterpret(first, "i", first.bits), "i", 64)
    if name == "signext_from_bit":
        return emit(f"fn.sign_extend({first.code}, {values[1].code})", first.kind, first.bits)
    if name == "bitCount":
        return emit(f"np.bitwise_count({translator.raw(first).code}).astype(np.uint32)", "u", 32)
    if name in ("LT_NEG_ZERO", "GT_NEG_ZERO"):
        a, b = translator.unify(*values)
        return emit(f"fn.{name.lower()}({a.code}, {b.code})", "p", 1)
    match = re.fullmatch(r"(bf|f|u|i)(\d+)_to_(bf|f|u|i)(\d+)", name)
    if match:
        return translator.convert(first, _KINDS[match[3]], int(match[4]))
    match = re.fullmatch(r"v_(min|max)(3?)(?:_num)?_(f|u|i)(\d+)", name)
    if match:
        function = {"f": "np.f", "u": "np.", "i": "np."}[match[3]] + match[1] + ("" if match[3] == "f" else "imum")
        values = [translator.reinterpret(value, match[3], int(match[4])) for value in values]
        result = values[0]
        for value in values[1:]:
            result = emit(f"{function}({result.code}, {value.code})", result.kind, result.bits)
        return result
    raise PseudoCodeError(f"function {name} is not known")


def fraction(value: Array) -> Array:
    """The part after the point, towards minus infinity."""
    return value - np.floor(value)


def mantissa(value: Array) -> Array:
    """`frexp`'s significand, in [0.5, 1)."""
    return np.frexp(value)[0]


def is_even(value: Array) -> Array:
    """Whether a whole number is even."""
    return np.mod(value, 2) == 0


def reverse_bits(value: Array, bits: int) -> Array:
    """The lowest `bits` bits in the opposite order."""
    result = value * 0
    one = value.dtype.type(1)
    for index in range(bits):
        result |= ((value >> value.dtype.type(index)) & one) << value.dtype.type(bits - 1 - index)
    return result


def sign_extend(value: Array, bits: Array) -> Array:
    """Copy bit `bits - 1` into the bits above it; nothing changes for zero bits."""
    shift = ((32 - bits.astype(np.int32)) & 31).astype(np.int32)
    wide = value.view(np.int32)
    return np.where(bits == 0, np.int32(0), (wide << shift) >> shift).view(value.dtype)


def lt_neg_zero(a: Array, b: Array) -> Any:
    """`a < b` where -0 is less than +0."""
    return (a < b) | ((a == 0) & (b == 0) & np.signbit(a) & ~np.signbit(b))


def gt_neg_zero(a: Array, b: Array) -> Any:
    """`a > b` where +0 is greater than -0."""
    return (a > b) | ((a == 0) & (b == 0) & ~np.signbit(a) & np.signbit(b))
