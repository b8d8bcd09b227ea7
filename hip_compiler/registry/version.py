"""The version of this hip-compiler."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def own_version() -> str:
    """Version of the installed distribution; ``0+source`` when the package runs from a source tree."""
    try:
        return version("hip-compiler")
    except PackageNotFoundError:
        return "0+source"
