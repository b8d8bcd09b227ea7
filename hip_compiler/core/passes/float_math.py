"""Elementary functions on `f32` as straight-line arithmetic, so that loops over them vectorise.

Coefficients are minimax fits on the reduced ranges, made with iteratively reweighted least squares in 40 digits.
Multiply-adds carry `contract`: one instruction where the CPU has it; no step relies on it being fused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hip_compiler.core.mlir import ir

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.693359375
"""ln 2 in so few bits that its products with exponents are exact."""
LN2_LOW = -2.12194440054690583e-4
ROUNDING = 12582912.0
"""1.5 * 2**23: adding it to a small float rounds it to an integer, which then stands in the low bits."""
ROUNDING_BITS = 0x4B400000
EXP = (0.5, 0.16666515171527863, 0.04166619852185249, 0.00836923997849226, 0.0013951094588264823)
LOG = (
    0.3333331346511841,
    -0.25000008940696716,
    0.2000211924314499,
    -0.1666799634695053,
    0.14219552278518677,
    -0.1240558922290802,
    0.11888162791728973,
    -0.11675651371479034,
    0.0674663856625557,
)
TANH = (-0.33333277702331543, 0.13331331312656403, -0.05373000726103783, 0.02060617506504059, -0.0056669763289391994)
TANH_SMALL = 0.625
ERF_SMALL = 0.921875
ERF_NEAR = (
    0.12837916612625122,
    -0.37612631916999817,
    0.11283687502145767,
    -0.026858940720558167,
    0.005199906881898642,
    -0.0008130012429319322,
    8.31677534733899e-05,
)
ERF_FAR = (
    -0.00017324004147667438,
    1.129508137702942,
    0.6333602666854858,
    0.10826579481363297,
    -0.025110432878136635,
    0.004167740233242512,
    -0.000433795532444492,
    2.1038911654613912e-05,
)
"""-log(erfc(x)) on [0.91, 4]."""


class FloatMath:
    """Writes functions of `f32` values at the current insertion point."""

    def __init__(self) -> None:
        self.f32 = ir.F32Type.get()
        self.i32 = ir.IntegerType.get_signless(32)
        self.i1 = ir.IntegerType.get_signless(1)
        self._contract = {"fastmath": ir.Attribute.parse("#arith.fastmath<contract>")}
        self._predicates: dict[int, Any] = {}

    # ---- building blocks ----

    def number(self, value: float) -> Any:
        return self.op("arith.constant", self.f32, value=ir.FloatAttr.get(self.f32, value))

    def integer(self, value: int) -> Any:
        return self.op("arith.constant", self.i32, value=ir.IntegerAttr.get(self.i32, value))

    def add(self, a: Any, b: Any) -> Any:
        return self.op("arith.addf", self.f32, a, b)

    def sub(self, a: Any, b: Any) -> Any:
        return self.op("arith.subf", self.f32, a, b)

    def mul(self, a: Any, b: Any) -> Any:
        return self.op("arith.mulf", self.f32, a, b)

    def div(self, a: Any, b: Any) -> Any:
        return self.op("arith.divf", self.f32, a, b)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        product = self.op("arith.mulf", self.f32, a, b, **self._contract)
        return self.op("arith.addf", self.f32, product, c, **self._contract)

    def bits(self, value: Any) -> Any:
        return self.op("arith.bitcast", self.i32, value)

    def from_bits(self, value: Any) -> Any:
        return self.op("arith.bitcast", self.f32, value)

    def int_op(self, name: str, a: Any, b: Any) -> Any:
        return self.op(name, self.i32, a, b)

    def select(self, condition: Any, a: Any, b: Any) -> Any:
        return self.op("arith.select", a.type, condition, a, b)

    def less(self, a: Any, b: Any) -> Any:
        """Ordered `a < b`."""
        return self._compare(4, a, b)

    def greater(self, a: Any, b: Any) -> Any:
        """Ordered `a > b`."""
        return self._compare(2, a, b)

    def equal(self, a: Any, b: Any) -> Any:
        """Ordered `a == b`."""
        return self._compare(1, a, b)

    def absolute(self, x: Any) -> Any:
        return self.op("math.absf", self.f32, x)

    def with_sign_of(self, magnitude: Any, sign: Any) -> Any:
        return self.op("math.copysign", self.f32, magnitude, sign)

    def polynomial(self, x: Any, coefficients: Sequence[float]) -> Any:
        """Coefficients by rising power."""
        total = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = self.multiply_add(total, x, self.number(coefficient))
        return total

    # ---- functions ----

    def exp(self, x: Any) -> Any:
        """2 ulp; subnormal results are rounded twice."""
        return self._exp_reduced(x)[0]

    def expm1(self, x: Any) -> Any:
        """exp(x) - 1 without cancellation: 2**n * (exp(r) - 1) + (2**n - 1)."""
        whole, part, scale, half = self._exp_reduced(x)
        # For n up to 23 the difference is exact; beyond, the 1 no longer counts, and 2**n might overflow.
        power = self.mul(scale, half)
        near = self.multiply_add(power, part, self.sub(power, self.number(1.0)))
        one = self.number(1.0)
        far = self.sub(whole, one)
        result = self.select(self.greater(x, self.number(16.0)), far, near)
        return self.select(self.equal(x, self.number(0.0)), x, result)

    def exp2(self, x: Any) -> Any:
        """2**x, the integer part taken exactly."""
        x = self._clamp(x, -151.0, 129.0)
        rounded = self.add(x, self.number(ROUNDING))
        part = self.mul(self.sub(x, self.sub(rounded, self.number(ROUNDING))), self.number(0.6931471805599453))
        return self._scaled(self._exp_part(part), rounded)[0]

    def log(self, x: Any) -> Any:
        """2 ulp; -inf at 0, NaN below."""
        exponent, part = self._log_reduced(x)
        return self._log_specials(x, self._log_sum(exponent, part))

    def log2(self, x: Any) -> Any:
        return self._scaled_log(x, LOG2_E, 1.0)

    def log10(self, x: Any) -> Any:
        return self._scaled_log(x, 0.4342944819032518, 0.3010299956639812)

    def log1p(self, x: Any) -> Any:
        """log(1 + x): the rounding error of 1 + x comes back as a correction."""
        one = self.number(1.0)
        up = self.add(one, x)
        lost = self.sub(x, self.sub(up, one))
        # For large x the 1 was lost instead; relative to log(x) that is nothing.
        corrected = self.add(self.log(up), self.div(lost, up))
        large = self.greater(self.absolute(x), self.number(1e7))
        result = self.select(large, self.log(up), corrected)
        tiny = self.less(self.absolute(x), self.number(1e-8))
        result = self.select(tiny, x, result)
        return self.select(self.equal(x, self.number(-1.0)), self.number(float("-inf")), result)

    def tanh(self, x: Any) -> Any:
        """3 ulp."""
        one = self.number(1.0)
        size = self.absolute(x)
        square = self.mul(x, x)
        near = self.multiply_add(self.mul(self.polynomial(square, TANH), square), x, x)
        doubled = self.exp(self.add(size, size))
        far = self.sub(one, self.div(self.number(2.0), self.add(doubled, one)))
        return self.with_sign_of(self.select(self.less(size, self.number(TANH_SMALL)), near, far), x)

    def erf(self, x: Any) -> Any:
        """2 ulp."""
        size = self.absolute(x)
        square = self.mul(x, x)
        near = self.multiply_add(self.polynomial(square, ERF_NEAR), x, x)
        # Beyond 4 the result is 1; the polynomial is not meant for larger arguments.
        limited = self._clamp(size, 0.0, 4.0)
        far = self.sub(self.number(1.0), self.exp(self.negated(self.polynomial(limited, ERF_FAR))))
        return self.select(self.less(size, self.number(ERF_SMALL)), near, self.with_sign_of(far, x))

    # ---- parts ----

    def _exp_reduced(self, x: Any) -> tuple[Any, Any, Any, Any]:
        x = self._clamp(x, -104.0, 89.0)
        rounded = self.multiply_add(x, self.number(LOG2_E), self.number(ROUNDING))
        count = self.sub(rounded, self.number(ROUNDING))
        part = self.multiply_add(count, self.number(-LN2_HIGH), x)
        part = self.multiply_add(count, self.number(-LN2_LOW), part)
        return self._scaled(self._exp_part(part), rounded)

    def _exp_part(self, part: Any) -> Any:
        """exp(part) - 1 for |part| up to half of ln 2."""
        return self.multiply_add(self.mul(self.polynomial(part, EXP), part), part, part)

    def _scaled(self, part: Any, rounded: Any) -> tuple[Any, Any, Any, Any]:
        """(1 + part) * 2**n in two steps, so that neither overflows before the product does."""
        count = self.int_op("arith.subi", self.bits(rounded), self.integer(ROUNDING_BITS))
        first = self.int_op("arith.shrsi", count, self.integer(1))
        second = self.int_op("arith.subi", count, first)
        low, high = self._power(first), self._power(second)
        return self.mul(self.mul(self.add(part, self.number(1.0)), low), high), part, low, high

    def _power(self, count: Any) -> Any:
        """2**count for exponents of normal numbers."""
        biased = self.int_op("arith.addi", count, self.integer(127))
        return self.from_bits(self.int_op("arith.shli", biased, self.integer(23)))

    def _log_reduced(self, x: Any) -> tuple[Any, Any]:
        """Exponent and mantissa - 1, the mantissa between sqrt(1/2) and sqrt(2)."""
        subnormal = self.less(x, self.number(1.1754943508222875e-38))
        bits = self.bits(self.select(subnormal, self.mul(x, self.number(8388608.0)), x))
        above = self.int_op("arith.subi", bits, self.integer(0x3F3504F3))
        count = self.int_op("arith.shrsi", above, self.integer(23))
        mantissa = self.int_op("arith.subi", bits, self.int_op("arith.shli", count, self.integer(23)))
        exponent = self.op("arith.sitofp", self.f32, count)
        exponent = self.sub(exponent, self.select(subnormal, self.number(23.0), self.number(0.0)))
        return exponent, self.sub(self.from_bits(mantissa), self.number(1.0))

    def _log_sum(self, exponent: Any, part: Any) -> Any:
        tail = self._log_tail(part)
        tail = self.multiply_add(exponent, self.number(LN2_LOW), tail)
        return self.add(self.mul(exponent, self.number(LN2_HIGH)), self.add(part, tail))

    def _log_tail(self, part: Any) -> Any:
        """log(1 + part) - part."""
        square = self.mul(part, part)
        cubic = self.mul(self.mul(self.polynomial(part, LOG), part), square)
        return self.multiply_add(square, self.number(-0.5), cubic)

    def _scaled_log(self, x: Any, of_e: float, of_2: float) -> Any:
        """Logarithm to another base: `of_e` and `of_2` are the logarithms of e and 2 to it."""
        exponent, part = self._log_reduced(x)
        natural = self.mul(self.add(part, self._log_tail(part)), self.number(of_e))
        return self._log_specials(x, self.multiply_add(exponent, self.number(of_2), natural))

    def _log_specials(self, x: Any, result: Any) -> Any:
        infinity = self.number(float("inf"))
        result = self.select(self.less(x, infinity), result, x)
        result = self.select(self.equal(x, self.number(0.0)), self.number(float("-inf")), result)
        return self.select(self.less(x, self.number(0.0)), self.number(float("nan")), result)

    def _clamp(self, x: Any, low: float, high: float) -> Any:
        """Keeps NaN."""
        bound = self.number(high)
        x = self.select(self.greater(x, bound), bound, x)
        bound = self.number(low)
        return self.select(self.less(x, bound), bound, x)

    def negated(self, x: Any) -> Any:
        return self.op("arith.negf", self.f32, x)

    def _compare(self, predicate: int, a: Any, b: Any) -> Any:
        if predicate not in self._predicates:
            self._predicates[predicate] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)
        return self.op("arith.cmpf", self.i1, a, b, predicate=self._predicates[predicate])

    def op(self, name: str, result: Any, *operands: Any, **attributes: Any) -> Any:
        return ir.Operation.create(name, results=[result], operands=operands, attributes=attributes).result


UNARY: dict[str, Callable[[FloatMath, Any], Any]] = {
    "math.exp": FloatMath.exp,
    "math.exp2": FloatMath.exp2,
    "math.expm1": FloatMath.expm1,
    "math.log": FloatMath.log,
    "math.log2": FloatMath.log2,
    "math.log10": FloatMath.log10,
    "math.log1p": FloatMath.log1p,
    "math.tanh": FloatMath.tanh,
    "math.erf": FloatMath.erf,
}
"""Expansion by operation."""
