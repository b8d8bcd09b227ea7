"""Scalar expressions inside a `linalg.generic` body, written with Python operators.

Half-precision floats are computed in `f32` and rounded when they are stored, as ONNX Runtime does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import arith, ir, math
from hip_compiler.dtypes import BY_NAME, DType

BOOL = BY_NAME["bool"]
FLOAT = BY_NAME["float"]
_HALVES = frozenset({"float16", "bfloat16"})


def mlir_type(text: str) -> Any:
    """The MLIR type of a spelling."""
    return ir.Type.parse(text)


def compute_dtype(dtype: DType) -> DType:
    """The element type that arithmetic on `dtype` uses: `float` for half precision and fp8, itself otherwise."""
    return FLOAT if dtype.kind == "float" and dtype.size <= 2 else dtype


def compute_type(dtype: DType) -> Any:
    """MLIR type of a scalar in a body: signless, `i1` for bool."""
    computed = compute_dtype(dtype)
    return mlir_type("i1" if computed is BOOL else computed.storage)


@dataclass(frozen=True)
class Scalar:
    """A scalar SSA value with its ONNX element type (which carries the signedness)."""

    value: Any
    dtype: DType

    @property
    def is_float(self) -> bool:
        return self.dtype.kind == "float"

    @property
    def is_signed(self) -> bool:
        return self.dtype.kind == "int"

    def _lift(self, other: Scalar | float) -> Scalar:
        return other if isinstance(other, Scalar) else literal(other, self.dtype)

    def _binary(self, other: Scalar | float, float_op: Any, signed_op: Any, unsigned_op: Any) -> Scalar:
        op = float_op if self.is_float else signed_op if self.is_signed else unsigned_op
        return Scalar(op(self.value, self._lift(other).value), self.dtype)

    def __add__(self, other: Scalar | float) -> Scalar:
        return self._binary(other, arith.addf, arith.addi, arith.addi)

    def __sub__(self, other: Scalar | float) -> Scalar:
        return self._binary(other, arith.subf, arith.subi, arith.subi)

    def __mul__(self, other: Scalar | float) -> Scalar:
        return self._binary(other, arith.mulf, arith.muli, arith.muli)

    def __radd__(self, other: float) -> Scalar:
        return self._lift(other) + self

    def __rsub__(self, other: float) -> Scalar:
        return self._lift(other) - self

    def __rmul__(self, other: float) -> Scalar:
        return self._lift(other) * self

    def __truediv__(self, other: Scalar | float) -> Scalar:
        """Quotient; integers truncate towards zero, and a zero divisor gives 0 instead of a trap."""
        right = self._lift(other)
        if self.is_float:
            return Scalar(arith.divf(self.value, right.value), self.dtype)
        return _guarded(self, right, arith.divsi if self.is_signed else arith.divui, minus_one=-self)

    def __rtruediv__(self, other: float) -> Scalar:
        return self._lift(other) / self

    def remainder(self, other: Scalar) -> Scalar:
        """Remainder with the sign of the dividend (C `%`, `fmod`)."""
        if self.is_float:
            return Scalar(arith.remf(self.value, other.value), self.dtype)
        return _guarded(self, other, arith.remsi if self.is_signed else arith.remui, minus_one=literal(0, self.dtype))

    def __mod__(self, other: Scalar) -> Scalar:
        """Remainder with the sign of the divisor (Python `%`, `numpy.mod`)."""
        rest = self.remainder(other)
        if not (self.is_float or self.is_signed):
            return rest
        differs = (rest != 0) & ((rest < 0) ^ (other < 0))
        return where(differs, rest + other, rest)

    def __neg__(self) -> Scalar:
        if self.is_float:
            return Scalar(arith.negf(self.value), self.dtype)
        return literal(0, self.dtype) - self

    def _compare(self, other: Scalar | float, float_name: str, signed_name: str, unsigned_name: str) -> Scalar:
        right = self._lift(other)
        if self.is_float:
            return Scalar(arith.cmpf(getattr(arith.CmpFPredicate, float_name), self.value, right.value), BOOL)
        name = signed_name if self.is_signed else unsigned_name
        return Scalar(arith.cmpi(getattr(arith.CmpIPredicate, name), self.value, right.value), BOOL)

    def __lt__(self, other: Scalar | float) -> Scalar:
        return self._compare(other, "OLT", "slt", "ult")

    def __le__(self, other: Scalar | float) -> Scalar:
        return self._compare(other, "OLE", "sle", "ule")

    def __gt__(self, other: Scalar | float) -> Scalar:
        return self._compare(other, "OGT", "sgt", "ugt")

    def __ge__(self, other: Scalar | float) -> Scalar:
        return self._compare(other, "OGE", "sge", "uge")

    def __eq__(self, other: object) -> Scalar:  # type: ignore[override]
        return self._compare(other, "OEQ", "eq", "eq")  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Scalar:  # type: ignore[override]
        return self._compare(other, "UNE", "ne", "ne")  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: Scalar) -> Scalar:
        return Scalar(arith.andi(self.value, other.value), self.dtype)

    def __or__(self, other: Scalar) -> Scalar:
        return Scalar(arith.ori(self.value, other.value), self.dtype)

    def __xor__(self, other: Scalar) -> Scalar:
        return Scalar(arith.xori(self.value, other.value), self.dtype)

    def __invert__(self) -> Scalar:
        return self ^ literal(True if self.dtype is BOOL else -1, self.dtype)

    def shift_left(self, other: Scalar) -> Scalar:
        """Left shift; a count of the width or more gives 0."""
        return self._shift(other, arith.shli)

    def shift_right(self, other: Scalar) -> Scalar:
        """Logical right shift; a count of the width or more gives 0."""
        return self._shift(other, arith.shrui)

    def _shift(self, other: Scalar, op: Any) -> Scalar:
        fits = other < self.dtype.size * 8
        count = where(fits, other, literal(0, self.dtype))
        return where(fits, Scalar(op(self.value, count.value), self.dtype), literal(0, self.dtype))

    def maximum(self, other: Scalar | float) -> Scalar:
        """Larger value; NaN when either is NaN."""
        if self.dtype is BOOL:
            return self | self._lift(other)
        return self._binary(other, arith.maximumf, arith.maxsi, arith.maxui)

    def minimum(self, other: Scalar | float) -> Scalar:
        """Smaller value; NaN when either is NaN."""
        if self.dtype is BOOL:
            return self & self._lift(other)
        return self._binary(other, arith.minimumf, arith.minsi, arith.minui)

    def __abs__(self) -> Scalar:
        if self.is_float:
            return self.apply("absf")
        return self if not self.is_signed else Scalar(math.absi(self.value), self.dtype)

    def apply(self, name: str, *others: Scalar) -> Scalar:
        """A function of the `math` dialect, by its name there."""
        return Scalar(getattr(math, name)(self.value, *(other.value for other in others)), self.dtype)

    def cast(self, dtype: DType) -> Scalar:
        """The value in another element type, by the rules of ONNX Cast (truncation to integers, `!= 0` to bool)."""
        target = compute_dtype(dtype)
        if target is self.dtype:
            return Scalar(self.value, target)
        if target is BOOL:
            return self != 0
        return Scalar(_convert(self, target), target)


def literal(number: float, dtype: DType) -> Scalar:
    """A constant of the element type that arithmetic on `dtype` uses."""
    computed = compute_dtype(dtype)
    kind = compute_type(dtype)
    if computed.kind == "float":
        attribute = ir.FloatAttr.get(kind, float(number))
    else:
        bits = int(number) & ((1 << (1 if computed is BOOL else computed.size * 8)) - 1)
        attribute = ir.Attribute.parse(f"{_as_signed(bits, 1 if computed is BOOL else computed.size * 8)} : {kind}")
    return Scalar(arith.constant(kind, attribute), computed)


def where(condition: Scalar, then: Scalar, otherwise: Scalar) -> Scalar:
    """`then` where the condition holds, else `otherwise`."""
    return Scalar(arith.select(condition.value, then.value, otherwise.value), then.dtype)


def load(value: Any, dtype: DType) -> Scalar:
    """A stored element as a scalar to compute with."""
    computed = compute_dtype(dtype)
    if computed is BOOL:
        zero = arith.constant(value.type, ir.IntegerAttr.get(value.type, 0))
        return Scalar(arith.cmpi(arith.CmpIPredicate.ne, value, zero), BOOL)
    if computed is not dtype:
        return Scalar(arith.extf(compute_type(dtype), value), computed)
    return Scalar(value, dtype)


def store(scalar: Scalar, dtype: DType) -> Any:
    """The SSA value to store for a scalar in an array of `dtype`."""
    storage = mlir_type(dtype.storage)
    value = scalar.cast(dtype)
    if dtype is BOOL:
        return arith.extui(storage, value.value)
    if value.dtype is not dtype:
        return arith.truncf(storage, value.value)
    return value.value


def _as_signed(bits: int, width: int) -> int:
    return bits - (1 << width) if width > 1 and bits >> (width - 1) else bits


def _guarded(left: Scalar, right: Scalar, op: Callable[[Any, Any], Any], minus_one: Scalar) -> Scalar:
    """An integer division that never traps: 0 for a zero divisor, the wrapped result for the minimum over -1."""
    zero = right == 0
    unsafe = zero
    if left.is_signed:
        unsafe = unsafe | (right == -1)
    safe = where(unsafe, literal(1, right.dtype), right)
    quotient = Scalar(op(left.value, safe.value), left.dtype)
    if left.is_signed:
        quotient = where(right == -1, minus_one, quotient)
    return where(zero, literal(0, left.dtype), quotient)


def _convert(scalar: Scalar, target: DType) -> Any:
    source = scalar.dtype
    kind = compute_type(target)
    if source.kind == "float" and target.kind == "float":
        return (arith.extf if target.size > source.size else arith.truncf)(kind, scalar.value)
    if source.kind == "float":
        # Narrow integers take the low bits of a wider conversion, as C casts on x86 and NumPy do.
        wide = mlir_type("i64") if target.size < 8 else kind
        unsigned = target.kind == "uint" and target.size == 8
        integer = (arith.fptoui if unsigned else arith.fptosi)(wide, scalar.value)
        return integer if target.size == 8 else arith.trunci(kind, integer)
    if target.kind == "float":
        return (arith.sitofp if source.kind == "int" else arith.uitofp)(kind, scalar.value)
    source_size = 0 if source is BOOL else source.size
    if target.size == source_size:
        return scalar.value
    if target.size < source_size:
        return arith.trunci(kind, scalar.value)
    return (arith.extsi if source.kind == "int" else arith.extui)(kind, scalar.value)
