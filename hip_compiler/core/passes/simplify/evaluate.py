"""Operators on constants, computed with NumPy: what ONNX defines, or nothing.

A function here returns None, or raises, where the result is not exactly defined by the operator's specification
(a cast out of range, a division by zero); the operation then stays in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hip_compiler.core.conversion.contents import cut
from hip_compiler.dtypes import BY_NUMPY, BY_ONNX

Attributes = Mapping[str, Any]
Arrays = Sequence[np.ndarray | None]
Evaluator = Callable[[Arrays, Attributes, int], np.ndarray | None]
"""Takes inputs (None where absent), attributes as Python values and the operator set version."""


def _unary(function: Callable[[np.ndarray], np.ndarray]) -> Evaluator:
    def evaluate(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray:
        return np.asarray(function(_given(arrays, 0)))

    return evaluate


def _binary(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Evaluator:
    def evaluate(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray:
        return np.asarray(function(_given(arrays, 0), _given(arrays, 1)))

    return evaluate


def _variadic(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Evaluator:
    def evaluate(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray:
        result = _given(arrays, 0)
        for array in arrays[1:]:
            assert array is not None
            result = function(result, array)
        return np.asarray(result)

    return evaluate


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not _is_integer(a):
        return np.asarray(a / b)
    if np.any(b == 0):
        raise ZeroDivisionError
    # ONNX truncates towards zero, NumPy rounds down; the remainder of fmod has the dividend's sign.
    return np.asarray((a - np.fmod(a, b)) // b)


def _mod(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray | None:
    a, b = _given(arrays, 0), _given(arrays, 1)
    if _is_integer(a) and np.any(b == 0):
        return None
    if attributes.get("fmod", 0):
        return np.asarray(np.fmod(a, b))
    return np.asarray(np.mod(a, b)) if _is_integer(a) else None


def _pow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if _is_integer(a) and (not _is_integer(b) or np.any(b < 0)):
        raise ValueError("an integer to a power that is no natural number")
    return np.asarray(np.power(a, b)).astype(a.dtype)


def _cast(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray | None:
    array, target = _given(arrays, 0), BY_ONNX[attributes["to"]]
    if target.numpy is None or array.dtype == object or target.kind == "complex" or np.iscomplexobj(array):
        return None
    if target.kind == "bool":
        return np.asarray(array != 0)
    source = BY_NUMPY[array.dtype]
    if target.kind in ("int", "uint"):
        if target.name in ("int4", "uint4", "int2", "uint2"):
            return None
        if source.kind == "float":
            wide = array.astype(np.float64)
            info = np.iinfo(target.numpy)
            if (
                not np.all(np.isfinite(wide))
                or np.any(np.trunc(wide) < info.min)
                or np.any(wide >= float(info.max) + 1)
            ):
                return None
            return wide.astype(target.numpy)
        return array.astype(target.numpy)
    if target.size < 2:
        return None
    return array.astype(target.numpy)


def _where(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray:
    return np.where(_given(arrays, 0), _given(arrays, 1), _given(arrays, 2))


def _transpose(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray:
    return np.ascontiguousarray(np.transpose(_given(arrays, 0), attributes.get("perm")))


def _reshape(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray:
    array, shape = _given(arrays, 0), [int(extent) for extent in _given(arrays, 1)]
    if not attributes.get("allowzero", 0):
        shape = [array.shape[axis] if extent == 0 else extent for axis, extent in enumerate(shape)]
    return array.reshape(shape)


def _flatten(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray:
    array, axis = _given(arrays, 0), attributes.get("axis", 1)
    axis = axis + array.ndim if axis < 0 else axis
    return array.reshape(int(np.prod(array.shape[:axis], dtype=np.int64)), -1)


def _squeeze(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray:
    axes = _axes(arrays, attributes)
    return np.squeeze(_given(arrays, 0), axis=axes)


def _unsqueeze(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray | None:
    axes = _axes(arrays, attributes)
    return None if axes is None else np.expand_dims(_given(arrays, 0), axes)


def _concat(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray:
    return np.concatenate([array for array in arrays if array is not None], axis=attributes["axis"])


def _gather(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray:
    data, indices, axis = _given(arrays, 0), _given(arrays, 1), attributes.get("axis", 0)
    return np.take(data, indices, axis=axis)


def _slice(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray:
    array = _given(arrays, 0)
    bounds: Any
    if opset < 10:
        bounds = [attributes["starts"], attributes["ends"], attributes.get("axes"), None]
    else:
        bounds = [*arrays[1:], None, None][:4]
    starts, ends = bounds[0], bounds[1]
    axes = range(len(starts)) if bounds[2] is None else bounds[2]
    steps = [1] * len(starts) if bounds[3] is None else bounds[3]
    cuts = [slice(None)] * array.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        cuts[axis] = cut(int(start), int(end), int(step), array.shape[axis])
    return np.ascontiguousarray(array[tuple(cuts)])


def _expand(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray:
    array, shape = _given(arrays, 0), tuple(int(extent) for extent in _given(arrays, 1))
    return np.ascontiguousarray(np.broadcast_to(array, np.broadcast_shapes(array.shape, shape)))


def _range(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray:
    start, limit, delta = (_given(arrays, number).reshape(()) for number in range(3))
    count = max(int(np.ceil((limit - start) / delta)), 0)
    return np.asarray(start + np.arange(count).astype(start.dtype) * delta, start.dtype)


def _constant_of_shape(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray:
    value = attributes.get("value", np.zeros(1, np.float32))
    return np.full(tuple(int(extent) for extent in _given(arrays, 0)), value.reshape(-1)[0], value.dtype)


def _dequantize(arrays: Arrays, attributes: Attributes, opset: int) -> np.ndarray | None:
    array, scale = _given(arrays, 0), _given(arrays, 1)
    zero_point = arrays[2] if len(arrays) > 2 else None
    if scale.dtype != np.float32 or ("output_dtype" in attributes and attributes["output_dtype"] not in (0, 1)):
        return None
    if BY_NUMPY[array.dtype].kind not in ("int", "uint"):
        return None
    wide = array.astype(np.int32)
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    if zero_point is not None:
        wide = wide - _along(zero_point.astype(np.int32), array.shape, axis, block)
    return wide.astype(np.float32) * _along(scale, array.shape, axis, block)


def _along(parameter: np.ndarray, shape: tuple[int, ...], axis: int, block: int) -> np.ndarray:
    """A scale or zero point in a shape that broadcasts over the tensor: per tensor, per axis, or per block."""
    if parameter.size == 1 and parameter.ndim <= 1:
        return parameter.reshape(())
    axis = axis + len(shape) if axis < 0 else axis
    if parameter.ndim == 1:
        return parameter.reshape([-1 if number == axis else 1 for number in range(len(shape))])
    # The last block may be short.
    return np.take(np.repeat(parameter, block, axis=axis), range(shape[axis]), axis=axis)


def _axes(arrays: Arrays, attributes: Attributes) -> tuple[int, ...] | None:
    given = arrays[1] if len(arrays) > 1 else None
    if given is not None:
        return tuple(int(axis) for axis in given.reshape(-1))
    axes = attributes.get("axes")
    return None if axes is None else tuple(axes)


def _given(arrays: Arrays, number: int) -> np.ndarray:
    array = arrays[number]
    if array is None:
        raise ValueError(f"input {number} is absent")
    return array


def _is_integer(array: np.ndarray) -> bool:
    return BY_NUMPY[array.dtype].kind in ("int", "uint")


def _reciprocal(array: np.ndarray) -> np.ndarray:
    return np.asarray(np.ones((), array.dtype) / array)


EVALUATORS: dict[str, Evaluator] = {
    "Abs": _unary(np.abs),
    "Ceil": _unary(np.ceil),
    "Cos": _unary(np.cos),
    "Exp": _unary(np.exp),
    "Floor": _unary(np.floor),
    "Log": _unary(np.log),
    "Neg": _unary(np.negative),
    "Not": _unary(np.logical_not),
    "Reciprocal": _unary(_reciprocal),
    "Round": _unary(np.rint),
    "Sin": _unary(np.sin),
    "Sqrt": _unary(np.sqrt),
    "Add": _binary(np.add),
    "And": _binary(np.logical_and),
    "Div": _binary(_divide),
    "Equal": _binary(np.equal),
    "Greater": _binary(np.greater),
    "GreaterOrEqual": _binary(np.greater_equal),
    "Less": _binary(np.less),
    "LessOrEqual": _binary(np.less_equal),
    "Mul": _binary(np.multiply),
    "Or": _binary(np.logical_or),
    "Pow": _binary(_pow),
    "Sub": _binary(np.subtract),
    "Xor": _binary(np.logical_xor),
    "Max": _variadic(np.maximum),
    "Min": _variadic(np.minimum),
    "Sum": _variadic(np.add),
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "DequantizeLinear": _dequantize,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Mod": _mod,
    "Range": _range,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
"""Operators of the default domain that this file computes. Results that are not of the type inferred are not used."""
