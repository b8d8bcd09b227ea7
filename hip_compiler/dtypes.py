"""Element types: one row each, in the words of ONNX, NumPy and MLIR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import ml_dtypes
import numpy as np

Kind = Literal["float", "int", "uint", "bool", "complex", "string"]


@dataclass(frozen=True)
class DType:
    """One element type.

    Attributes:
        name: ONNX name in lower case, for example ``float16``.
        onnx: value of ``TensorProto.DataType``; it is also the dtype number of the runtime ABI.
        numpy: NumPy dtype of an array of it; ``None`` for what NumPy cannot hold.
        mlir: MLIR type in the ``onnx`` dialect, signedness kept (``ui8``).
        storage: MLIR type in ``hip`` and ``linalg`` IR: signless, ``i8`` for bool and for floats of 8 and 4 bits, and
            the number of a text for strings.
        size: bytes of one element in memory.
    """

    name: str
    onnx: int
    numpy: np.dtype | None
    mlir: str
    storage: str
    size: int
    kind: Kind

    def __str__(self) -> str:
        return self.name

    @property
    def is_narrow_integer(self) -> bool:
        """Whether it is an integer of less than a byte, which takes a byte in memory."""
        return self.name in ("int2", "uint2", "int4", "uint4")


def _row(name: str, onnx: int, numpy: object, mlir: str, storage: str, size: int, kind: Kind) -> DType:
    return DType(name, onnx, None if numpy is None else np.dtype(numpy), mlir, storage, size, kind)  # type: ignore[call-overload]


DTYPES: tuple[DType, ...] = (
    _row("float", 1, np.float32, "f32", "f32", 4, "float"),
    _row("uint8", 2, np.uint8, "ui8", "i8", 1, "uint"),
    _row("int8", 3, np.int8, "i8", "i8", 1, "int"),
    _row("uint16", 4, np.uint16, "ui16", "i16", 2, "uint"),
    _row("int16", 5, np.int16, "i16", "i16", 2, "int"),
    _row("int32", 6, np.int32, "i32", "i32", 4, "int"),
    _row("int64", 7, np.int64, "i64", "i64", 8, "int"),
    _row("string", 8, None, "!onnx.string", "i64", 8, "string"),
    _row("bool", 9, np.bool_, "i1", "i8", 1, "bool"),
    _row("float16", 10, np.float16, "f16", "f16", 2, "float"),
    _row("double", 11, np.float64, "f64", "f64", 8, "float"),
    _row("uint32", 12, np.uint32, "ui32", "i32", 4, "uint"),
    _row("uint64", 13, np.uint64, "ui64", "i64", 8, "uint"),
    _row("complex64", 14, np.complex64, "complex<f32>", "complex<f32>", 8, "complex"),
    _row("complex128", 15, np.complex128, "complex<f64>", "complex<f64>", 16, "complex"),
    _row("bfloat16", 16, ml_dtypes.bfloat16, "bf16", "bf16", 2, "float"),
    _row("float8e4m3fn", 17, ml_dtypes.float8_e4m3fn, "f8E4M3FN", "i8", 1, "float"),
    _row("float8e4m3fnuz", 18, ml_dtypes.float8_e4m3fnuz, "f8E4M3FNUZ", "i8", 1, "float"),
    _row("float8e5m2", 19, ml_dtypes.float8_e5m2, "f8E5M2", "i8", 1, "float"),
    _row("float8e5m2fnuz", 20, ml_dtypes.float8_e5m2fnuz, "f8E5M2FNUZ", "i8", 1, "float"),
    _row("uint4", 21, ml_dtypes.uint4, "ui4", "i8", 1, "uint"),
    _row("int4", 22, ml_dtypes.int4, "i4", "i8", 1, "int"),
    _row("float4e2m1", 23, ml_dtypes.float4_e2m1fn, "f4E2M1FN", "i8", 1, "float"),
    _row("float8e8m0", 24, ml_dtypes.float8_e8m0fnu, "f8E8M0FNU", "i8", 1, "float"),
    _row("uint2", 25, ml_dtypes.uint2, "ui2", "i8", 1, "uint"),
    _row("int2", 26, ml_dtypes.int2, "i2", "i8", 1, "int"),
)

BY_ONNX = {dtype.onnx: dtype for dtype in DTYPES}
BY_NAME = {dtype.name: dtype for dtype in DTYPES}
BY_MLIR = {dtype.mlir: dtype for dtype in DTYPES}
BY_NUMPY = {dtype.numpy: dtype for dtype in DTYPES if dtype.numpy is not None}


def stored(array: np.ndarray) -> np.ndarray:
    """An array's elements as kernels read them: 2- and 4-bit integers in a sign-extended byte each.

    NumPy leaves the top bits of such elements open.
    """
    dtype = BY_NUMPY.get(array.dtype)
    return array.astype(np.int8) if dtype is not None and dtype.is_narrow_integer else array
