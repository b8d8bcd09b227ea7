"""Dense attributes in storage types."""

from __future__ import annotations

from typing import Any

import numpy as np

from hip_compiler.core.mlir import ir
from hip_compiler.dtypes import DType

_INTEGERS = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}


def storage_dense(array: np.ndarray, dtype: DType) -> Any:
    """A dense attribute in the storage type of an element type (signless; `i8` for bool and narrow floats)."""
    kind = ir.RankedTensorType.get(array.shape, ir.Type.parse(dtype.storage))
    if dtype.kind in ("bool", "uint", "int", "string"):
        contents = array.astype(_INTEGERS[dtype.size])
    elif dtype.name in ("float", "double", "float16"):
        contents = array
    else:
        contents = array.view({1: np.int8, 2: np.uint16}[dtype.size])
    return ir.DenseElementsAttr.get(np.ascontiguousarray(contents).reshape(array.shape), type=kind)
