"""Machine code in this process: a shared library that the system's loader maps."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from hip_compiler.errors import ErrorCode, HipCompilerError


class SharedLibrary:
    """A native artifact, loaded. Its symbols are its own: two of them in a process do not see each other.

    Raises:
        HipCompilerError: `HIPC0501`, when the system's loader refuses.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _refused(path, error.strerror or str(error)) from error
        try:
            # By its path the loader would give the library that had this path before, while that one is in use. The
            # name of an open file is nobody else's.
            self._library: ctypes.CDLL | None = ctypes.CDLL(f"/proc/self/fd/{self._file}")
        except OSError as error:
            os.close(self._file)
            raise _refused(path, str(error)) from error

    def address(self, name: str) -> int:
        """Address of an exported symbol.

        Raises:
            HipCompilerError: `HIPC0501`, when there is none.
        """
        symbol = getattr(self._library, name, None)
        if symbol is None:
            raise HipCompilerError(ErrorCode.LINK, f"the native artifact does not define {name}")
        return int(ctypes.cast(symbol, ctypes.c_void_p).value or 0)

    def find(self, name: str) -> int | None:
        """As `address`; None when there is no such symbol."""
        symbol = getattr(self._library, name, None)
        return None if symbol is None else ctypes.cast(symbol, ctypes.c_void_p).value

    def close(self) -> None:
        """Unload the code. No address of it may be used afterwards; a second call does nothing."""
        if self._library is not None:
            handle = ctypes.c_void_p(self._library._handle)
            self._library = None
            ctypes.CDLL(None).dlclose(handle)
            os.close(self._file)


def _refused(path: Path, why: str) -> HipCompilerError:
    return HipCompilerError(
        ErrorCode.LINK,
        f"the native artifact {path} cannot be loaded",
        why=why,
        hint="install the libraries that it needs, or put their folders on the loader's search path",
    )
