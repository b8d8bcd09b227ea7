"""Sequences and optionals of a run: Python lists and None, made into the tensors that a program takes, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime.abi import MAX_RANK
from hip_compiler.runtime.feeds import check_names, to_array
from hip_compiler.runtime.metadata import CompoundInfo, TensorInfo, ValueInfo


def pack_feeds(feeds: Mapping[str, Any], infos: Sequence[ValueInfo]) -> dict[str, Any]:
    """Feeds by the names of a program's inputs.

    Args:
        feeds: by the names of the model's inputs. A sequence is a list of arrays; an optional may be None.

    Raises:
        HipCompilerError: `HIPC0700`, when feeds are missing or unknown, or one does not fit its type.
    """
    check_names(feeds, infos)
    packed: dict[str, Any] = {}
    for info in infos:
        given = feeds[info.name]
        if isinstance(info, TensorInfo):
            packed[info.name] = given
        else:
            packed.update(zip(info.parts, _pack(given, info), strict=True))
    return packed


def unpack_outputs(results: Mapping[str, np.ndarray], infos: Sequence[ValueInfo]) -> dict[str, Any]:
    """Outputs by the names of the model's: a sequence is a list of arrays, what an optional lacks is None.

    The arrays of a sequence are views of one buffer.
    """
    return {info.name: results[info.name] if isinstance(info, TensorInfo) else _unpack(results, info) for info in infos}


def _pack(given: Any, info: CompoundInfo) -> list[np.ndarray]:
    if given is None and not info.optional:
        raise _refused(info, "nothing")
    if given is None:
        arrays = []
    elif not info.sequence:
        arrays = [_element(given, info, info.name)]
    elif isinstance(given, (list, tuple)):
        arrays = [_element(value, info, f"{info.name}[{number}]") for number, value in enumerate(given)]
    else:
        raise _refused(info, f"a {type(given).__name__}")
    layout = np.full((len(arrays), 1 + MAX_RANK), -1, np.int64)
    start = 0
    for row, array in zip(layout, arrays, strict=True):
        row[0], row[1 : 1 + array.ndim] = start, array.shape
        start += array.size
    flat = [array.reshape(-1) for array in arrays]
    # Integers of less than a byte come in bytes from `to_array`.
    elements = np.concatenate(flat or [np.empty(0, np.int8)]).astype(info.dtype.numpy, copy=False)
    return [elements, layout, np.asarray(given is not None)][: len(info.parts)]


def _element(value: Any, info: CompoundInfo, name: str) -> np.ndarray:
    """One tensor of a sequence, or of an optional."""
    shape = info.shape
    if shape is None:
        # Any shape will do: take the value's own.
        shape = tuple("?" for _ in np.shape(value))
        if len(shape) > MAX_RANK:
            raise _refused(info, f"a tensor of {len(shape)} dimensions", hint=f"tensors have at most {MAX_RANK}")
    array = to_array(value, TensorInfo(name, info.dtype, shape))
    if any(isinstance(wanted, int) and wanted != extent for wanted, extent in zip(shape, array.shape, strict=True)):
        raise _refused(info, f"'{name}' of shape {list(array.shape)}")
    return array


def _unpack(results: Mapping[str, np.ndarray], info: CompoundInfo) -> Any:
    elements, layout, *present = (results[part] for part in info.parts)
    if present and not present[0]:
        return None
    arrays = []
    for start, *extents in layout.tolist():
        shape = [extent for extent in extents if extent >= 0]
        arrays.append(elements[start : start + int(np.prod(shape, dtype=np.int64))].reshape(shape))
    if info.sequence:
        return arrays
    return arrays[0] if arrays else None


def _refused(info: CompoundInfo, given: str, hint: str = "") -> HipCompilerError:
    kind = "a list of arrays" if info.sequence else "an array"
    return HipCompilerError(
        ErrorCode.FEED,
        f"input '{info.name}' is given {given}",
        why=f"the model takes {info}",
        hint=hint or f"give {kind}{', or None' if info.optional else ''}",
    )
