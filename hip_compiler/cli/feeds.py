"""Inputs for a run: from files, or drawn at random for an interface."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.names import listing, nearest
from hip_compiler.runtime import CompoundInfo, TensorInfo, ValueInfo


def read_feeds(words: Sequence[str], inputs: Sequence[ValueInfo]) -> dict[str, Any]:
    """Feeds by input name from ``NAME=FILE.npy`` and ``FILE.npz`` arguments; ``NAME=FILE.npz`` is a sequence.

    Raises:
        HipCompilerError: `HIPC0001`, an argument of another form; `HIPC0700`, a file that cannot be read or a name
            that is no input.
    """
    feeds: dict[str, Any] = {}
    for word in words:
        name, separator, file = word.rpartition("=")
        if word.endswith(".npz") and not separator:
            feeds.update(dict(_load(Path(word)).items()))
        elif separator and name:
            loaded = _load(Path(file))
            feeds[name] = list(loaded.values()) if file.endswith(".npz") else loaded
        else:
            raise HipCompilerError(
                ErrorCode.USAGE,
                f"--input {word} is neither NAME=FILE.npy nor FILE.npz",
                hint="--input x=x.npy; --input s=s.npz for a sequence of its arrays",
            )
    known = [info.name for info in inputs]
    for name in feeds:
        if name not in known:
            raise HipCompilerError(
                ErrorCode.FEED,
                f"the model has no input '{name}'",
                why=f"its inputs are: {listing(known)}",
                hint=nearest(name, known),
            )
    return feeds


def read_extents(words: Sequence[str]) -> dict[str, int]:
    """Extents by symbol from ``NAME=NUMBER`` arguments."""
    extents: dict[str, int] = {}
    for word in words:
        name, _, number = word.rpartition("=")
        if not name or not number.isdigit():
            raise HipCompilerError(ErrorCode.USAGE, f"--dim {word} is not NAME=NUMBER", hint="--dim batch=4")
        extents[name] = int(number)
    return extents


def random_feed(info: ValueInfo, extents: Mapping[str, int], draw: np.random.Generator) -> Any:
    """A random array that fits an input: normal floats, integers 0 to 9, random truth values. A sequence has two.

    Symbols without an extent are 1.

    Raises:
        HipCompilerError: `HIPC0700`, an element type without random values.
    """
    if isinstance(info, CompoundInfo):
        member = TensorInfo(info.name, info.dtype, info.shape or ())
        arrays = [random_feed(member, extents, draw) for _ in range(2)]
        return arrays if info.sequence else arrays[0]
    shape = tuple(extent if isinstance(extent, int) else extents.get(extent, 1) for extent in info.shape)
    dtype = info.dtype.numpy
    if dtype is None or info.dtype.kind in ("complex", "string"):
        raise HipCompilerError(
            ErrorCode.FEED, f"input '{info.name}' has element type {info.dtype}", hint="give it with --input"
        )
    if info.dtype.kind == "float":
        return draw.standard_normal(shape).astype(dtype)
    if info.dtype.kind == "bool":
        return draw.integers(0, 2, shape).astype(dtype)
    return draw.integers(0, 10, shape).astype(dtype)


def flat(outputs: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Outputs as arrays: those of a sequence are ``NAME[0]``, ``NAME[1]``; what an optional lacks is left out."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in outputs.items():
        if isinstance(value, list):
            arrays.update((f"{name}[{number}]", array) for number, array in enumerate(value))
        elif value is not None:
            arrays[name] = value
    return arrays


def write_npz(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write arrays to a .npz file. `numpy.savez` takes names as keywords, and an output may be called `file`."""
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                plain = array.astype(str) if array.dtype == object else array  # objects would be pickled
                np.lib.format.write_array(member, np.asarray(plain, order="C"), allow_pickle=False)


def _load(path: Path) -> Any:
    try:
        # Object arrays are pickles, which are code.
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise HipCompilerError(ErrorCode.FEED, f"cannot read {path}", why=" ".join(str(error).split())) from error
