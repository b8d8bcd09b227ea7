"""Where a contributed shared library is."""

from __future__ import annotations

import ctypes.util
from pathlib import Path

from hip_compiler.registry.contributions import LibraryContribution


def find_library(library: LibraryContribution) -> Path | str:
    """The file of a library, or the sentence that says why there is none.

    A bare name without search paths is left to the system's loader, which answers with a name of its own:
    the path returned is then that bare file name.
    """
    if "/" in library.name:
        path = Path(library.name)
        if not path.is_absolute():
            return f"library '{library.name}' is neither a bare name nor an absolute path"
        return path if path.is_file() else f"library {path} does not exist"
    if library.search_paths:
        candidates = [
            folder / name for folder in library.search_paths for name in (f"lib{library.name}.so", library.name)
        ]
        for candidate in candidates:
            if candidate.is_file():
                return candidate
        folders = ", ".join(str(folder) for folder in library.search_paths)
        return f"library '{library.name}' (lib{library.name}.so) is in none of: {folders}"
    known = ctypes.util.find_library(library.name)
    return Path(known) if known else f"library '{library.name}' is unknown to the system's loader"
