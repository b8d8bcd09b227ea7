"""Scalar expressions inside a `linalg.generic` body, written with Python operators.

Half-precision floats are computed in `f32` and rounded when they are stored, as ONNX Runtime does. Floats of 8 and 4
bits are their bits until they are cast; integers of 4 and 2 bits are bytes, wrapped around when they are cast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hip_compiler.core.conversion import narrow_floats
from hip_compiler.core.conversion.onnx_op import NotSupportedError
from hip_compiler.core.mlir import arith, ir, math
from hip_compiler.dtypes import BY_NAME, DType

BOOL = BY_NAME["bool"]
FLOAT = BY_NAME["float"]
DOUBLE = BY_NAME["double"]
_NARROW_BITS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}


def mlir_type(text: str) -> Any:
    """The MLIR type of a spelling."""
    return ir.Type.parse(text)


def compute_dtype(dtype: DType) -> DType:
    """The element type that a body holds `dtype` in: `float` for half precision, bytes for narrower integers."""
    if dtype.kind == "float" and dtype.size == 2:
        return FLOAT
    if dtype.is_narrow_integer:
        return BY_NAME["int8" if dtype.kind == "int" else "uint8"]
    return dtype


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
        """Whether to compute with floats.

        Raises:
            NotSupportedError: the scalar is the bits of a float of 8 or 4 bits, which must be cast first.
        """
        if narrow_floats.is_narrow(self.dtype):
            raise NotSupportedError(f"arithmetic on {self.dtype}")
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
        """Left shift; a negative count, or one of the width or more, gives 0."""
        fits = self._shifts(other)
        count = where(fits, other, literal(0, self.dtype))
        return where(fits, Scalar(arith.shli(self.value, count.value), self.dtype), literal(0, self.dtype))

    def shift_right(self, other: Scalar) -> Scalar:
        """Right shift that keeps the sign; a negative count, or one of the width or more, leaves only the sign."""
        fits = self._shifts(other)
        if self.is_signed:
            count = where(fits, other, literal(self.dtype.size * 8 - 1, self.dtype))
            return Scalar(arith.shrsi(self.value, count.value), self.dtype)
        count = where(fits, other, literal(0, self.dtype))
        return where(fits, Scalar(arith.shrui(self.value, count.value), self.dtype), literal(0, self.dtype))

    def _shifts(self, count: Scalar) -> Scalar:
        fits = count < self.dtype.size * 8
        return (fits & (count >= 0)) if count.is_signed else fits

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
        if narrow_floats.is_narrow(self.dtype):
            raise NotSupportedError(f"arithmetic on {self.dtype}")
        return Scalar(getattr(math, name)(self.value, *(other.value for other in others)), self.dtype)

    def cast(self, dtype: DType, *, saturate: bool = True, round_mode: str = "up") -> Scalar:
        """The value in another element type, by the rules of ONNX Cast (truncation to integers, `!= 0` to bool).

        Args:
            saturate: of floats of 8 bits: what is too large becomes the largest number.
            round_mode: of float8e8m0: a member of `narrow_floats.ROUND_MODES`.
        """
        if narrow_floats.is_narrow(self.dtype):
            if self.dtype is dtype:
                return self
            wide = Scalar(narrow_floats.decode(self.value, self.dtype), FLOAT)
            return wide.cast(dtype, saturate=saturate, round_mode=round_mode)
        if narrow_floats.is_narrow(dtype):
            source = _single(self, dtype).value
            return Scalar(narrow_floats.encode(source, dtype, saturate=saturate, round_mode=round_mode), dtype)
        target = compute_dtype(dtype)
        if target is self.dtype:
            result = Scalar(self.value, target)
        elif target is BOOL:
            result = self != 0
        elif dtype.kind == "float" and dtype.size == 2:
            result = _single(self, dtype)
        else:
            result = Scalar(_convert(self, target), target)
        return _wrapped(result, dtype) if dtype.is_narrow_integer else result


def rounded(scalar: Scalar, dtype: DType) -> Scalar:
    """The value as it is after a trip through memory of an element type."""
    return load(store(scalar, dtype), dtype)


def literal(number: float, dtype: DType) -> Scalar:
    """A constant of the element type that arithmetic on `dtype` uses."""
    computed = compute_dtype(dtype)
    kind = compute_type(dtype)
    if narrow_floats.is_narrow(dtype):
        code = np.asarray(number, dtype=dtype.numpy).view(np.int8)
        return Scalar(arith.constant(kind, ir.IntegerAttr.get(kind, int(code))), dtype)
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
    if computed is FLOAT and dtype is not FLOAT:
        return Scalar(arith.extf(compute_type(dtype), value), computed)
    return Scalar(value, computed)


def store(scalar: Scalar, dtype: DType) -> Any:
    """The SSA value to store for a scalar in an array of `dtype`."""
    storage = mlir_type(dtype.storage)
    value = scalar.cast(dtype)
    if dtype is BOOL:
        return arith.extui(storage, value.value)
    if value.dtype is FLOAT and dtype is not FLOAT:
        return arith.truncf(storage, value.value)
    return value.value


def reinterpret(value: Any, dtype: DType) -> Any:
    """A stored element under another element type of the same width: the same bits."""
    storage = mlir_type(dtype.storage)
    bits = value if value.type == storage else arith.bitcast(storage, value)
    if dtype is BOOL:
        return store(load(bits, BOOL), BOOL)
    if dtype.is_narrow_integer:
        return _wrapped(Scalar(bits, compute_dtype(dtype)), dtype).value
    if dtype.name == "float4e2m1":
        return arith.andi(bits, arith.constant(storage, ir.IntegerAttr.get(storage, 0xF)))
    return bits


def _single(scalar: Scalar, dtype: DType) -> Scalar:
    """The value as `f32`, for rounding it to a float of fewer bits: once, as if there were no step in between."""
    if scalar.dtype.kind in ("int", "uint") and scalar.dtype.size >= 4 and _reaches_far(dtype):
        scalar = _sticky(scalar).cast(DOUBLE)
    if scalar.dtype is not DOUBLE:
        return scalar.cast(FLOAT)
    # Rounded to odd: cut, and the last bit set where bits are lost; no later rounding can then see a tie.
    nearest = Scalar(_convert(scalar, FLOAT), FLOAT)
    back = Scalar(_convert(nearest, DOUBLE), DOUBLE)
    bits = Scalar(arith.bitcast(mlir_type("i32"), nearest.value), BY_NAME["int32"])
    cut = where(abs(back) > abs(scalar), bits - 1, bits)
    exact = (back == scalar) | (scalar != scalar)
    odd = where(exact, bits, cut | literal(1, bits.dtype))
    return Scalar(arith.bitcast(mlir_type("f32"), odd.value), FLOAT)


def _reaches_far(dtype: DType) -> bool:
    """Whether a float type holds numbers of more bits than `f32` has; the others are infinite long before."""
    return dtype.name in ("bfloat16", narrow_floats.EXPONENT_ONLY)


def _sticky(scalar: Scalar) -> Scalar:
    """A 64-bit integer that `f64` holds: bits beyond its precision are merged into one."""
    if scalar.dtype.size < 8:
        return scalar
    low = scalar & literal(0xFFF, scalar.dtype)
    mark = where(low == 0, literal(0, scalar.dtype), literal(0x800, scalar.dtype))
    merged = scalar - low + mark
    large = scalar >= 2**53
    if scalar.is_signed:
        large = large | (scalar <= -(2**53))
    return where(large, merged, scalar)


def _wrapped(scalar: Scalar, dtype: DType) -> Scalar:
    """A byte that holds the low bits of another, extended by the sign of an integer of 4 or 2 bits."""
    bits = _NARROW_BITS[dtype.name]
    if not scalar.is_signed:
        return scalar & literal((1 << bits) - 1, scalar.dtype)
    kind = compute_type(scalar.dtype)
    unused = arith.constant(kind, ir.IntegerAttr.get(kind, 8 - bits))
    return Scalar(arith.shrsi(arith.shli(scalar.value, unused), unused), scalar.dtype)


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
