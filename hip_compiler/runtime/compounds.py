"""What a run is given and gives beside arrays of numbers: lists, None and strings, as the tensors of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from hip_compiler.dtypes import BY_NAME, DType
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime.abi import MAX_RANK
from hip_compiler.runtime.feeds import check_names, to_array
from hip_compiler.runtime.metadata import CompoundInfo, Strings, TensorInfo, ValueInfo

_INT64 = BY_NAME["int64"]


class Texts:
    """Numbers of the strings of one run."""

    def __init__(self, strings: Strings) -> None:
        self._known = _numbers_of(strings.vocabulary)
        self._all = list(strings.vocabulary)
        self._new: dict[str, int] = {}

    def numbers(self, value: Any, name: str) -> np.ndarray:
        """int64 numbers of `str` or UTF-8 `bytes` in an array or a list.

        Raises:
            HipCompilerError: `HIPC0700`, for anything else.
        """
        try:
            texts = np.asarray(value)
        except ValueError as error:
            raise HipCompilerError(ErrorCode.FEED, f"input '{name}' is not an array", why=str(error)) from error
        if texts.dtype.kind not in "OUST" and texts.size:
            raise HipCompilerError(
                ErrorCode.FEED, f"input '{name}' has element type {texts.dtype}, the model takes strings"
            )
        return np.array([self._number(text, name) for text in texts.reshape(-1).tolist()], np.int64).reshape(
            texts.shape
        )

    def strings(self, numbers: np.ndarray) -> np.ndarray:
        """The strings of numbers, as an `object` array of `str`."""
        found = np.empty(numbers.size, object)
        found[:] = [self._all[number] for number in numbers.reshape(-1).tolist()]
        return found.reshape(numbers.shape)

    def _number(self, text: Any, name: str) -> int:
        try:
            word = text.decode() if isinstance(text, bytes) else text
        except UnicodeDecodeError as error:
            raise HipCompilerError(
                ErrorCode.FEED, f"input '{name}' has a string that is no UTF-8", why=str(error)
            ) from error
        if not isinstance(word, str):
            raise HipCompilerError(ErrorCode.FEED, f"input '{name}' has an element that is no string: {word!r}")
        number = self._known.get(word, self._new.get(word))
        if number is None:
            number = self._new[word] = len(self._all)
            self._all.append(word)
        return number


@lru_cache(maxsize=16)
def _numbers_of(vocabulary: tuple[str, ...]) -> Mapping[str, int]:
    return {text: number for number, text in enumerate(vocabulary)}


def pack_feeds(feeds: Mapping[str, Any], infos: Sequence[ValueInfo], texts: Texts) -> dict[str, Any]:
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
        if isinstance(info, CompoundInfo):
            packed.update(zip(info.parts, _pack(given, info, texts), strict=True))
        else:
            packed[info.name] = _strings(given, info, texts) if info.dtype.kind == "string" else given
    return packed


def _strings(given: Any, info: TensorInfo, texts: Texts) -> np.ndarray:
    numbers = texts.numbers(given, info.name)
    if numbers.ndim != len(info.shape):
        shape = list(numbers.shape)
        raise HipCompilerError(
            ErrorCode.FEED, f"input '{info.name}' has rank {numbers.ndim} {shape}, the model takes {info}"
        )
    return numbers


def unpack_outputs(results: Mapping[str, np.ndarray], infos: Sequence[ValueInfo], texts: Texts) -> dict[str, Any]:
    """Outputs by the names of the model's: a sequence is a list of arrays, what an optional lacks is None.

    The arrays of a sequence are views of one buffer; strings are `object` arrays of `str`.
    """
    found: dict[str, Any] = {}
    for info in infos:
        if isinstance(info, CompoundInfo):
            found[info.name] = _unpack(results, info, texts)
        else:
            array = results[info.name]
            found[info.name] = texts.strings(array) if info.dtype.kind == "string" else array
    return found


def _pack(given: Any, info: CompoundInfo, texts: Texts) -> list[np.ndarray]:
    if given is None and not info.optional:
        raise _refused(info, "nothing")
    if given is None:
        arrays = []
    elif not info.sequence:
        arrays = [_element(given, info, info.name, texts)]
    elif isinstance(given, (list, tuple)):
        arrays = [_element(value, info, f"{info.name}[{number}]", texts) for number, value in enumerate(given)]
    else:
        raise _refused(info, f"a {type(given).__name__}")
    layout = np.full((len(arrays), 1 + MAX_RANK), -1, np.int64)
    start = 0
    for row, array in zip(layout, arrays, strict=True):
        row[0], row[1 : 1 + array.ndim] = start, array.shape
        start += array.size
    flat = [array.reshape(-1) for array in arrays]
    # Integers of less than a byte come in bytes from `to_array`.
    elements = np.concatenate(flat or [np.empty(0, np.int8)]).astype(_held(info).numpy, copy=False)
    return [elements, layout, np.asarray(given is not None)][: len(info.parts)]


def _held(info: CompoundInfo) -> DType:
    """Element type of the elements in the program."""
    return _INT64 if info.dtype.kind == "string" else info.dtype


def _element(value: Any, info: CompoundInfo, name: str, texts: Texts) -> np.ndarray:
    """One tensor of a sequence, or of an optional."""
    shape = info.shape
    if info.dtype.kind == "string":
        value = texts.numbers(value, name)
    if shape is None:
        # Any shape will do: take the value's own.
        shape = tuple("?" for _ in np.shape(value))
        if len(shape) > MAX_RANK:
            raise _refused(info, f"a tensor of {len(shape)} dimensions", hint=f"tensors have at most {MAX_RANK}")
    array = to_array(value, TensorInfo(name, _held(info), shape))
    if any(isinstance(wanted, int) and wanted != extent for wanted, extent in zip(shape, array.shape, strict=True)):
        raise _refused(info, f"'{name}' of shape {list(array.shape)}")
    return array


def _unpack(results: Mapping[str, np.ndarray], info: CompoundInfo, texts: Texts) -> Any:
    elements, layout, *present = (results[part] for part in info.parts)
    if present and not present[0]:
        return None
    if info.dtype.kind == "string":
        elements = texts.strings(elements)
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
