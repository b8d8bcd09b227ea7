"""Where the headers of the runtime ABI are."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def include_folder() -> Path:
    """Folder of `hipc.h`: the source tree's when the package is used in place, else the installed copy."""
    source = PACKAGE.parent / "kernels" / "include"
    return source if (source / "hipc.h").is_file() else PACKAGE / "_native" / "include"
