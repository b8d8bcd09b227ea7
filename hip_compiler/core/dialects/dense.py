"""Dense attributes to NumPy arrays and back, for every element type."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hip_compiler.core.mlir import ir
from hip_compiler.dtypes import BY_MLIR, DType

_INTEGERS = {1: np.dtype(np.int8), 2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def storage_dense(array: np.ndarray, dtype: DType) -> Any:
    """A dense attribute in the storage type of an element type (signless, `i8` for bool)."""
    kind = ir.RankedTensorType.get(array.shape, ir.Type.parse(dtype.storage))
    if dtype.kind in ("bool", "uint", "int"):
        contents = array.astype(_INTEGERS[dtype.size])
    elif dtype.name in ("float", "double", "float16"):
        contents = array
    else:
        contents = array.view({1: np.uint8, 2: np.uint16}[dtype.size])
    return ir.DenseElementsAttr.get(np.ascontiguousarray(contents), type=kind)


def dense_to_numpy(attribute: Any) -> tuple[np.ndarray, DType]:
    """Contents of a dense attribute of the `onnx` dialect, and their element type."""
    kind = attribute.type
    dtype = BY_MLIR[str(kind.element_type)]
    assert dtype.numpy is not None
    try:
        return np.array(attribute).astype(dtype.numpy, copy=False).reshape(kind.shape), dtype
    except TypeError:
        return _from_text(str(attribute), dtype).reshape(kind.shape), dtype


def _from_text(text: str, dtype: DType) -> np.ndarray:
    """Elements of a type that the bindings cannot hand over: read from the attribute's text.

    Halves and smaller floats print with enough digits to be exact; NaN and infinities print as bit patterns.
    """
    assert dtype.numpy is not None
    listed = text[text.index("<") + 1 : text.rindex(">", 0, text.rindex(":"))]
    blob = re.fullmatch(r'"0x([0-9A-Fa-f]*)"', listed)
    if blob:
        return np.frombuffer(bytes.fromhex(blob.group(1)), dtype=dtype.numpy)
    numbers = [_number(word, dtype) for word in re.findall(r"[^\s,\[\]]+", listed)]
    array = np.array(numbers, dtype=dtype.numpy)
    # A splat prints its one element.
    return array if array.size != 1 else np.broadcast_to(array, _elements(text))


def _number(word: str, dtype: DType) -> float:
    if word.startswith("0x"):
        bits = {1: np.uint8, 2: np.uint16}[dtype.size]
        return float(np.array(int(word, 16), bits).view(dtype.numpy))
    return int(word) if dtype.kind in ("int", "uint") else float(word)


def _elements(text: str) -> int:
    extents = re.findall(r"(\d+)x", text[text.rindex("tensor<") :])
    return int(np.prod([int(extent) for extent in extents], dtype=np.int64))
