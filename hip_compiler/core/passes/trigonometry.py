"""Sine and cosine of `f32` as straight-line arithmetic, exact range reduction included.

The reduction follows M. Payne and R. Hanek, "Radian reduction for trigonometric functions" (1983): only those bits
of 2/pi are multiplied that can reach the quadrant and the fraction. They stand in a table by exponent.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.float_math import FloatMath

TABLE = "two_over_pi"
EXPONENTS = 256
SIN = (-0.1666666716337204, 0.008333329111337662, -0.0001983933470910415, 2.7183041311218403e-06)
COS = (0.04166664555668831, -0.0013887315290048718, 2.4433082217001356e-05)
QUARTER_PI = 0.7853981633974483
RADIANS = 3.4061215800304884e-19
"""pi/2 * 2**-62."""


@cache
def two_over_pi() -> np.ndarray:
    """Bits of 2/pi by the exponent of a float: int64 [2 * EXPONENTS].

    Entry 2e: the bits of `2/pi * 2**(e - 150)` from weight 2 down to 2**-62; entry 2e + 1: the 32 bits after those.
    """
    bits = 400
    two_over = Fraction(2) / _pi(bits)
    table = np.zeros(2 * EXPONENTS, np.uint64)
    for exponent in range(EXPONENTS):
        # The value of a float is its 24-bit mantissa, as an integer, times 2**(exponent - 150).
        window = int(two_over * Fraction(2) ** (exponent - 150 + 62 + 32)) % (1 << 96)
        table[2 * exponent], table[2 * exponent + 1] = window >> 32, window & 0xFFFFFFFF
    return table.view(np.int64)


def _pi(bits: int) -> Fraction:
    """Pi to the given number of bits (Machin's formula)."""
    one = 1 << (bits + 20)

    def arctangent(inverse: int) -> int:
        term = total = one // inverse
        number, sign = 3, -1
        while term:
            term //= inverse * inverse
            total += sign * (term // number)
            number, sign = number + 2, -sign
        return total

    return Fraction(4 * (4 * arctangent(5) - arctangent(239)), one)


class Trigonometry:
    """Writes sine and cosine at the current insertion point.

    Args:
        math: writer of the arithmetic.
        table: a `memref<512xi64>` with the contents of `two_over_pi`.
    """

    def __init__(self, math: FloatMath, table: Any) -> None:
        self._math = math
        self._table = table
        self._i64 = ir.IntegerType.get_signless(64)
        self._f64 = ir.F64Type.get()

    def sine(self, x: Any) -> Any:
        """2 ulp for every finite argument."""
        return self._function(x, 0)

    def cosine(self, x: Any) -> Any:
        """2 ulp for every finite argument."""
        return self._function(x, 1)

    def _function(self, x: Any, ahead: int) -> Any:
        math = self._math
        quadrant, part = self._reduced(x)
        quadrant = math.int_op("arith.addi", quadrant, math.integer(ahead)) if ahead else quadrant
        square = math.mul(part, part)
        sine = math.multiply_add(math.mul(math.polynomial(square, SIN), square), part, part)
        sine = math.with_sign_of(sine, part)
        half = math.multiply_add(square, math.number(-0.5), math.number(1.0))
        cosine = math.multiply_add(math.mul(math.polynomial(square, COS), square), square, half)
        odd = self._is_set(quadrant, 1)
        value = math.select(odd, cosine, sine)
        value = math.select(self._is_set(quadrant, 2), math.negated(value), value)
        # Infinity minus itself is the NaN that IEEE 754 asks for; a NaN keeps its payload.
        finite = math.less(math.absolute(x), math.number(float("inf")))
        return math.select(finite, value, math.sub(x, x))

    def _is_set(self, value: Any, bit: int) -> Any:
        math = self._math
        masked = math.int_op("arith.andi", value, math.integer(bit))
        predicate = ir.IntegerAttr.get(self._i64, 1)
        return math.op("arith.cmpi", math.i1, masked, math.integer(0), predicate=predicate)

    def _reduced(self, x: Any) -> tuple[Any, Any]:
        """Quadrant (`i32`, only its last two bits count) and rest (`f32`, up to pi/4 in size)."""
        math = self._math
        bits = math.bits(x)
        exponent = math.int_op("arith.andi", math.int_op("arith.shrui", bits, math.integer(23)), math.integer(255))
        mantissa = math.int_op(
            "arith.ori", math.int_op("arith.andi", bits, math.integer(0x7FFFFF)), math.integer(0x800000)
        )
        mantissa = math.op("arith.extui", self._i64, mantissa)
        row = math.int_op("arith.shli", exponent, math.integer(1))
        high, low = self._load(row), self._load(math.int_op("arith.addi", row, math.integer(1)))
        # In units of 2**-62 quadrants; what exceeds four quadrants is lost on purpose.
        turns = self._long("arith.muli", mantissa, high)
        carry = self._long("arith.shrui", self._long("arith.muli", mantissa, low), self._number(32))
        turns = self._long("arith.addi", turns, carry)
        nearest = self._long("arith.addi", turns, self._number(1 << 61))
        whole = self._long("arith.shrui", nearest, self._number(62))
        rest = self._long("arith.subi", turns, self._long("arith.shli", whole, self._number(62)))
        radians = math.op("arith.mulf", self._f64, math.op("arith.sitofp", self._f64, rest), self._radians())
        part = math.op("arith.truncf", math.f32, radians)
        quadrant = math.op("arith.trunci", math.i32, whole)
        # The table serves the magnitude: a negative argument turns the other way.
        negative = math.less(x, math.number(0.0))
        part = math.select(negative, math.negated(part), part)
        quadrant = math.select(negative, math.int_op("arith.subi", math.integer(0), quadrant), quadrant)
        small = math.less(math.absolute(x), math.number(QUARTER_PI))
        return math.select(small, math.integer(0), quadrant), math.select(small, x, part)

    def _load(self, row: Any) -> Any:
        index = self._math.op("arith.index_castui", ir.IndexType.get(), row)
        return self._math.op("memref.load", self._i64, self._table, index)

    def _long(self, name: str, a: Any, b: Any) -> Any:
        return self._math.op(name, self._i64, a, b)

    def _number(self, value: int) -> Any:
        return self._math.op("arith.constant", self._i64, value=ir.IntegerAttr.get(self._i64, value))

    def _radians(self) -> Any:
        return self._math.op("arith.constant", self._f64, value=ir.FloatAttr.get(self._f64, RADIANS))
