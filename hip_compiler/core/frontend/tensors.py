"""`TensorProto` and `SparseTensorProto` to NumPy, as views of the message's or the file's bytes where possible."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import numpy_helper

from hip_compiler.core.frontend.external import ExternalData
from hip_compiler.dtypes import BY_ONNX, DType
from hip_compiler.errors import ErrorCode, HipCompilerError

SPARSE_ELEMENTS = 1 << 26
"""A sparse tensor with more elements than this is not made dense."""

_BITS = {"uint4": 4, "int4": 4, "float4e2m1": 4, "uint2": 2, "int2": 2}


def element_type(number: int, where: str) -> DType:
    """The dtype of a `TensorProto.DataType` number.

    Raises:
        HipCompilerError: `HIPC0102` for a number that ONNX does not define, `HIPC0200` for a type that NumPy has no
            counterpart of here.
    """
    if number not in BY_ONNX and number in onnx.TensorProto.DataType.values() and number != onnx.TensorProto.UNDEFINED:
        word = onnx.TensorProto.DataType.Name(number).lower()
        raise HipCompilerError(ErrorCode.UNSUPPORTED, f"element type {word} is not supported", where=where)
    if number not in BY_ONNX:
        raise HipCompilerError(ErrorCode.MODEL_INVALID, f"element type {number} is not defined by ONNX", where=where)
    return BY_ONNX[number]


def tensor_array(tensor: onnx.TensorProto, external: ExternalData) -> np.ndarray:
    """Contents of a tensor.

    Returns:
        An array of the tensor's shape and of its dtype's NumPy type (4-bit types: one byte an element);
        `object` arrays of `bytes` for strings. It is read-only where it is a view.

    Raises:
        HipCompilerError: `HIPC0102` when contents and dims disagree, `HIPC0101` for unusable external data.
    """
    where = f"tensor '{tensor.name}'"
    dtype = element_type(tensor.data_type, where)
    dims = tuple(tensor.dims)
    if any(extent < 0 for extent in dims):
        raise HipCompilerError(ErrorCode.MODEL_INVALID, f"the tensor has a negative extent: {list(dims)}", where=where)
    if tensor.HasField("segment"):
        raise HipCompilerError(
            ErrorCode.MODEL_INVALID, "segmented tensors are not used by any version of ONNX", where=where
        )
    count = math.prod(dims)
    if dtype.numpy is None:
        return _strings(tensor, dims, count, where)
    bits = _BITS.get(dtype.name, dtype.size * 8)
    nbytes = -(-count * bits // 8)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _from_bytes(external.view(tensor, nbytes), dtype, bits, dims, count)
    if tensor.HasField("raw_data"):
        raw = np.frombuffer(tensor.raw_data, np.uint8)
        if raw.size != nbytes:
            raise HipCompilerError(
                ErrorCode.MODEL_INVALID,
                f"the tensor holds {raw.size} bytes where its type {dtype} and dims {list(dims)} ask for {nbytes}",
                where=where,
            )
        return _from_bytes(raw, dtype, bits, dims, count)
    if count > 0 and not _has_typed_data(tensor):
        raise HipCompilerError(
            ErrorCode.MODEL_INVALID, f"the tensor has dims {list(dims)} but no contents", where=where
        )
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError) as error:
        raise HipCompilerError(
            ErrorCode.MODEL_INVALID, "the tensor's contents do not fit its dims", where=where, why=str(error)
        ) from error


def sparse_array(sparse: onnx.SparseTensorProto, external: ExternalData) -> np.ndarray:
    """Dense contents of a sparse tensor.

    Raises:
        HipCompilerError: `HIPC0102` for indices out of bounds, `HIPC0200` for one too large to be made dense.
    """
    where = f"sparse tensor '{sparse.values.name}'"
    dims = tuple(sparse.dims)
    count = math.prod(dims)
    if any(extent < 0 for extent in dims):
        raise HipCompilerError(ErrorCode.MODEL_INVALID, f"the tensor has a negative extent: {list(dims)}", where=where)
    if count > SPARSE_ELEMENTS:
        raise HipCompilerError(
            ErrorCode.UNSUPPORTED,
            f"a sparse tensor of {count} elements is too large to be made dense",
            where=where,
            why=f"sparse tensors are made dense up to {SPARSE_ELEMENTS} elements",
        )
    values = tensor_array(sparse.values, external).reshape(-1)
    indices = tensor_array(sparse.indices, external)
    if indices.ndim == 2 and indices.shape == (values.size, len(dims)):
        inside = bool(((indices >= 0) & (indices < np.array(dims, np.int64))).all())
        linear = np.ravel_multi_index(tuple(indices.T), dims) if inside and values.size else np.empty(0, np.int64)
    else:
        linear = indices.reshape(-1)
        inside = linear.size == values.size and bool(((linear >= 0) & (linear < count)).all())
    if not inside:
        raise HipCompilerError(ErrorCode.MODEL_INVALID, "the indices do not fit the values and dims", where=where)
    dense = np.zeros(count, values.dtype)
    dense[linear] = values
    return dense.reshape(dims)


def _from_bytes(raw: np.ndarray, dtype: DType, bits: int, dims: tuple[int, ...], count: int) -> np.ndarray:
    if dtype.kind == "bool":
        # Any byte other than 0 is true; NumPy relies on 0 and 1.
        return (raw != 0).reshape(dims)
    numpy_type = dtype.numpy
    assert numpy_type is not None, "strings have no bytes"
    if bits >= 8:
        return raw.view(numpy_type).reshape(dims)
    # Sub-byte types are packed, first element in the low bits; NumPy holds one a byte.
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    fields = ((raw[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    if dtype.kind == "float":
        return fields.view(numpy_type).reshape(dims)
    if dtype.kind == "int":
        sign = 1 << (bits - 1)
        return ((fields.astype(np.int8) ^ sign) - sign).astype(numpy_type).reshape(dims)
    return fields.astype(numpy_type).reshape(dims)


def _strings(tensor: onnx.TensorProto, dims: tuple[int, ...], count: int, where: str) -> np.ndarray:
    if len(tensor.string_data) != count:
        raise HipCompilerError(
            ErrorCode.MODEL_INVALID,
            f"the tensor holds {len(tensor.string_data)} strings where its dims {list(dims)} ask for {count}",
            where=where,
        )
    array = np.empty(count, dtype=object)
    array[:] = list(tensor.string_data)
    return array.reshape(dims)


def _has_typed_data(tensor: onnx.TensorProto) -> bool:
    return bool(
        len(tensor.float_data)
        or len(tensor.int32_data)
        or len(tensor.int64_data)
        or len(tensor.double_data)
        or len(tensor.uint64_data)
    )
