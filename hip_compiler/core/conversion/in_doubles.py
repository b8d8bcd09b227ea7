"""Integers and bools in double: through kernels that only pick elements and add them up, and back into range."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hip_compiler.core.conversion.emitter import Emitter
from hip_compiler.core.conversion.scalars import Scalar, literal
from hip_compiler.core.conversion.tensors import Tensor
from hip_compiler.dtypes import BY_NAME, DType

DOUBLE, INT64, UINT32, UINT64 = (BY_NAME[name] for name in ("double", "int64", "uint32", "uint64"))


def in_doubles(emitter: Emitter, x: Tensor, kernel: Callable[[Tensor], Tensor]) -> Tensor:
    """A kernel on integers, whose sums wrap around, or on bools, whose sum is true where an element is.

    Exact as long as the kernel adds less than 2**21 elements up: sums of 32-bit integers are then exact in double, and
    64-bit integers are summed in two halves.

    Args:
        kernel: of doubles; each result is a sum of elements.
    """
    if x.dtype.size < 8:
        total = kernel(emitter.cast(x, DOUBLE))
        return emitter.cast(total if x.dtype.name == "bool" else emitter.cast(total, INT64), x.dtype)

    def low(value: Scalar) -> Scalar:
        return value.cast(UINT32).cast(DOUBLE)

    def high(value: Scalar) -> Scalar:
        return low(value.cast(UINT64).shift_right(literal(32, UINT64)))

    def joined(a: Scalar, b: Scalar) -> Scalar:
        return a.cast(UINT64) + b.cast(UINT64).shift_left(literal(32, UINT64))

    halves = [kernel(emitter.elementwise(half, [x], DOUBLE)) for half in (low, high)]
    return emitter.elementwise(joined, halves, x.dtype)


def within(value: Scalar, dtype: DType) -> Scalar:
    """The nearest double that an integer type has room for."""
    limits = np.iinfo(dtype.numpy)
    # The largest integers of 64 bits are no doubles; the double below them is within range.
    low, high = float(limits.min), float(limits.max)
    high = high if int(high) <= limits.max else float(np.nextafter(high, 0))
    return value.maximum(low).minimum(high)
