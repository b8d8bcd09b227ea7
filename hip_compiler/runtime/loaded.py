"""Symbols of shared libraries in this process, looked up as a linker would: in those that are named, and only there.

The loader's own look-up also answers with what any other library of the process defines: a program that forgets to
declare a library would run in one process and not in the next, and could not be linked.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from functools import cache

import llvmlite.binding as llvm

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.toolchain.lld import C_LIBRARIES, OLDER_C_LIBRARIES


class _Info(ctypes.Structure):
    """`Dl_info` of the C library."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def find_symbols(names: Iterable[str], libraries: Sequence[str]) -> dict[str, int]:
    """Addresses of symbols in libraries, then in the C library; those that none defines are left out.

    Args:
        libraries: shared libraries, by path or by name for the loader; they are loaded for good.

    Raises:
        HipCompilerError: `HIPC0501`, for a library that cannot be loaded.
    """
    declared = [(library, load_library(library)) for library in libraries]
    found: dict[str, int] = {}
    for name in names:
        for library, handle in declared:
            address = _address(handle, name)
            # The look-up goes on to the libraries that this one needs; a linker's does not.
            if address is not None and _is_file(address, library):
                found[name] = address
                break
        else:
            address = next((a for handle in _language() if (a := _address(handle, name)) is not None), None)
            if address is not None:
                found[name] = address
    return found


def load_library(library: str) -> ctypes.CDLL:
    """Load a shared library for good; again gives the same one.

    Raises:
        HipCompilerError: `HIPC0501`.
    """
    try:
        llvm.load_library_permanently(library)
        return ctypes.CDLL(library)
    except (RuntimeError, OSError) as error:
        raise HipCompilerError(
            ErrorCode.LINK,
            f"the library {library} cannot be loaded",
            why=str(error).strip(),
            hint="install it, or put its folder on the loader's search path (LD_LIBRARY_PATH)",
        ) from error


@cache
def _language() -> tuple[ctypes.CDLL, ...]:
    """The C library and its mathematics; where it is not GNU's, whatever the process has."""
    found = []
    for name in (*C_LIBRARIES, *OLDER_C_LIBRARIES):
        try:
            found.append(ctypes.CDLL(name))
        except OSError:
            if name in C_LIBRARIES:
                return (ctypes.CDLL(None),)
    return tuple(found)


def _address(library: ctypes.CDLL, name: str) -> int | None:
    function = getattr(library, name, None)
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value


def _is_file(address: int, library: str) -> bool:
    """Whether what is at an address belongs to a library."""
    info = _Info()
    if not ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(info)) or not info.file:
        return False
    file = os.fsdecode(info.file)
    if "/" in library:
        return os.path.exists(file) and os.path.samefile(file, library)
    return os.path.basename(file) == library
