"""Feeds of a run: checked against the interface, never cast in silence."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hip_compiler.dtypes import stored
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime.dlpack import from_dlpack
from hip_compiler.runtime.metadata import TensorInfo, ValueInfo


def check_names(given: Mapping[str, Any], infos: Sequence[ValueInfo], *, all_of_them: bool = True) -> None:
    """Every input is given, and nothing else.

    Args:
        all_of_them: False: some may be missing.

    Raises:
        HipCompilerError: `HIPC0700`, naming every missing and every unknown input.
    """
    names = [info.name for info in infos]
    findings = [f"missing: {info}" for info in infos if all_of_them and info.name not in given]
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, 1)
            findings.append(f"unknown: {name}" + (f" (did you mean {near[0]}?)" if near else ""))
    if findings:
        raise _refused("the feeds do not name the model's inputs", details=findings, hint=_interface(infos))


def to_array(value: Any, info: TensorInfo) -> np.ndarray:
    """A C-contiguous, aligned array of the input's element type; a view of the value's own memory where possible.

    Values without an element type (numbers, lists) become the input's; everything else must have it.

    Raises:
        HipCompilerError: `HIPC0700`, when type or rank do not fit, or the value is no array.
    """
    wanted = info.dtype.numpy
    assert wanted is not None
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__dlpack__"):
        array = from_dlpack(value, info.name)
    elif hasattr(value, "dtype") or hasattr(value, "__array__"):
        array = np.asarray(value)
    else:
        array = _from_python(value, info, wanted)
    if array.dtype != wanted:
        raise _refused(
            f"input '{info.name}' has element type {array.dtype}, the model takes {wanted}",
            hint=f"convert it: array.astype({_spelling(wanted)})",
        )
    if array.ndim != len(info.shape):
        raise _refused(
            f"input '{info.name}' has rank {array.ndim} {list(array.shape)}, the model takes {info}",
        )
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        array = np.array(array, order="C", copy=True)
    return stored(array)


def check_extents(arrays: Sequence[np.ndarray], infos: Sequence[TensorInfo]) -> None:
    """Extents are the model's, and one symbol has one extent everywhere.

    Raises:
        HipCompilerError: `HIPC0700`, listing every extent that does not fit.
    """
    symbols: dict[str, tuple[int, str]] = {}
    findings = []
    for array, info in zip(arrays, infos, strict=True):
        for axis, (extent, expected) in enumerate(zip(array.shape, info.shape, strict=True)):
            if isinstance(expected, int):
                if extent != expected:
                    findings.append(f"'{info.name}' axis {axis} has extent {extent}, the model takes {expected}")
                continue
            first, owner = symbols.setdefault(expected, (extent, f"'{info.name}' axis {axis}"))
            if extent != first:
                findings.append(f"'{info.name}' axis {axis} has extent {extent}, but {expected} is {first} in {owner}")
    if findings:
        raise _refused("extents of the feeds do not fit the model", details=findings, hint=_interface(infos))


def _from_python(value: Any, info: TensorInfo, wanted: np.dtype[Any]) -> np.ndarray:
    try:
        natural = np.asarray(value)
    except ValueError as error:
        raise _refused(f"input '{info.name}' is not an array", why=str(error)) from error
    allowed = {"b": "b", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc"}
    kinds = allowed[{"bool": "b", "int": "i", "uint": "u", "float": "f", "complex": "c"}[info.dtype.kind]]
    if natural.dtype.kind not in kinds and natural.size:
        raise _refused(f"input '{info.name}' is a {type(value).__name__} of {natural.dtype}, the model takes {wanted}")
    with np.errstate(over="ignore"):
        array = natural.astype(wanted)
    if info.dtype.kind in ("int", "uint") and not np.array_equal(array.astype(object), natural.astype(object)):
        raise _refused(f"input '{info.name}' has values that {wanted} cannot hold")
    return array


def _spelling(dtype: np.dtype[Any]) -> str:
    return f"ml_dtypes.{dtype.name}" if dtype.kind == "V" else f"numpy.{dtype.name}"


def _interface(infos: Sequence[ValueInfo]) -> str:
    return "the model takes " + "; ".join(str(info) for info in infos) if infos else "the model takes no input"


def _refused(what: str, *, why: str = "", hint: str = "", details: Sequence[str] = ()) -> HipCompilerError:
    return HipCompilerError(ErrorCode.FEED, what, why=why, hint=hint, details=details)
