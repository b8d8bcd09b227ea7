"""Between NumPy, Python and MLIR attributes and types, in the conventions of the `onnx` dialect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from hip_compiler.core.constants import INLINE_ELEMENTS, ConstantPool
from hip_compiler.core.mlir import ir
from hip_compiler.dtypes import BY_MLIR, BY_NUMPY, DType

UNKNOWN = "!onnx.unknown"
STRING_TENSOR = "!onnx.string_tensor"

# NumPy types whose buffers the bindings read as they are.
_DIRECT = frozenset(np.dtype(name) for name in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"))
_TOKEN = re.compile(r"[^\s\[\],()<>]+")


def tensor_type(dtype: DType, shape: Sequence[int | None] | None) -> Any:
    """Type of a tensor value: `None` extents are dynamic, a `None` shape is unranked."""
    if dtype.kind == "string":
        return ir.Type.parse(STRING_TENSOR)
    element = ir.Type.parse(dtype.mlir)
    if shape is None:
        return ir.UnrankedTensorType.get(element)
    dynamic = ir.ShapedType.get_dynamic_size()
    return ir.RankedTensorType.get([dynamic if extent is None else extent for extent in shape], element)


def dtype_of(type_: Any) -> DType | None:
    """Element type of a value's type; None for anything but a tensor of numbers."""
    if not isinstance(type_, (ir.RankedTensorType, ir.UnrankedTensorType)):
        return None
    return BY_MLIR.get(str(type_.element_type))


def shape_of(type_: Any) -> tuple[int | None, ...] | None:
    """Extents of a value's type, `None` where dynamic; `None` when the rank is unknown."""
    if not isinstance(type_, ir.RankedTensorType):
        return None
    dynamic = ir.ShapedType.get_dynamic_size()
    return tuple(None if extent == dynamic else extent for extent in type_.shape)


def dense_attribute(array: np.ndarray) -> Any:
    """A `DenseElementsAttr` with the array's contents, of any real element type of ONNX."""
    dtype = BY_NUMPY[array.dtype]
    array = np.ascontiguousarray(array).reshape(array.shape)
    element = ir.Type.parse(dtype.mlir)
    if array.dtype in _DIRECT:
        return ir.DenseElementsAttr.get(array, type=element)
    bits = array.view(np.uint16 if dtype.size == 2 else np.uint8)
    if dtype.kind in ("int", "uint"):
        bits = array.astype(np.int8 if dtype.kind == "int" else np.uint8)
    return ir.DenseElementsAttr.get(bits, type=element)


def dense_array(attribute: Any) -> np.ndarray:
    """Contents of a `DenseElementsAttr` as an array of its dtype's NumPy type."""
    type_ = ir.RankedTensorType(attribute.type)
    dtype = BY_MLIR[str(type_.element_type)]
    assert dtype.numpy is not None, "string tensors are no dense attributes"
    shape = tuple(type_.shape)
    if dtype.numpy in _DIRECT:
        return np.array(attribute, dtype=dtype.numpy).reshape(shape)
    return _from_text(str(attribute).rsplit(" : ", 1)[0], dtype, shape)


def constant_type(array: np.ndarray) -> Any:
    """Type of the constant that holds an array; `object` arrays are string tensors."""
    if array.dtype == object:
        return ir.Type.parse(STRING_TENSOR)
    return tensor_type(BY_NUMPY[array.dtype], array.shape)


def constant_attributes(array: np.ndarray, key: str, pool: ConstantPool) -> dict[str, Any]:
    """Attributes of the `onnx.Constant` that holds an array: inline when small, else a key of the pool."""
    if array.dtype == object:
        strings = [ir.StringAttr.get(text) for text in array.reshape(-1)]
        return {"strings": ir.ArrayAttr.get(strings), "shape": ir.DenseI64ArrayAttr.get(list(array.shape))}
    # The bindings cannot hold complex elements in an attribute.
    if array.size <= INLINE_ELEMENTS and not np.iscomplexobj(array):
        return {"value": dense_attribute(array)}
    return {"buffer": ir.StringAttr.get(pool.add(key, array))}


def create_constant(array: np.ndarray, key: str, pool: ConstantPool, *, location: Any, before: Any) -> Any:
    """Insert an `onnx.Constant` before an operation (or at an insertion point); returns its value."""
    point = before if isinstance(before, ir.InsertionPoint) else ir.InsertionPoint(before)
    with location.context:
        operation = ir.Operation.create(
            "onnx.Constant",
            results=[constant_type(array)],
            attributes=constant_attributes(array, key, pool),
            loc=location,
            ip=point,
        )
    return operation.results[0]


def constant_array(value: Any, pool: ConstantPool) -> np.ndarray | None:
    """Contents of a value that an `onnx.Constant` defines; None for any other value.

    Raises:
        HipCompilerError: `HIPC0306` when the pool does not have the contents.
    """
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    operation = owner.operation
    if operation.name != "onnx.Constant":
        return None
    attributes = operation.attributes
    if "value" in attributes:
        return dense_array(attributes["value"])
    if "buffer" in attributes:
        return pool.get(attributes["buffer"].value)
    strings = np.empty(len(attributes["strings"]), dtype=object)
    strings[:] = [text.value_bytes for text in attributes["strings"]]
    return strings.reshape(tuple(attributes["shape"]))


def _from_text(text: str, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Elements of a printed dense attribute, for the element types that the bindings cannot read."""
    count = int(np.prod(shape, dtype=np.int64))
    numpy_type = dtype.numpy
    assert numpy_type is not None, "string tensors are no dense attributes"
    tokens = _TOKEN.findall(text.removeprefix("dense"))
    if len(tokens) == 1 and tokens[0].startswith('"0x'):
        raw = np.frombuffer(bytes.fromhex(tokens[0].strip('"')[2:]), np.uint8)
        flat = raw.view(np.int8 if dtype.kind == "int" else np.uint8)
        if dtype.kind not in ("int", "uint"):
            return flat.view(numpy_type).reshape(shape)
        return flat.astype(numpy_type).reshape(shape)
    elements = np.array([_number(token, numpy_type) for token in tokens], numpy_type)
    if elements.size == 1:
        elements = np.broadcast_to(elements, (count,)).copy()
    return elements.reshape(shape)


def _number(token: str, dtype: Any) -> Any:
    if token.startswith("0x"):
        # Bit patterns stand for what has no decimal form: infinities and NaNs.
        width = np.dtype(dtype).itemsize
        return np.frombuffer(int(token, 16).to_bytes(width, "little"), dtype)[0]
    if np.dtype(dtype).kind in "iu" or "int" in np.dtype(dtype).name:
        return dtype.type(int(token))
    return dtype.type(float(token))
