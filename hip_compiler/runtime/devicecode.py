"""Reads packs of device code: one file with an image per GPU architecture.

A pack begins with a line of JSON, `{"format": 1, "images": [{"arch", "offset", "size", "bytes"}, ...]}`, and goes on
with the images, each compressed with LZMA; offsets count from the end of that line.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime.native import FOLDER

NAME = "kernels.pack"


@dataclass(frozen=True)
class Image:
    """Where an image lies: `offset` and `size` in the file, and how many `bytes` it has."""

    offset: int
    size: int
    bytes: int


class Pack:
    """The images of a file; a mapping-like view that reads an image when it is asked for."""

    def __init__(self, path: Path, images: Mapping[str, Image]) -> None:
        self.path = path
        self._images = images

    def __iter__(self) -> Iterator[str]:
        return iter(self._images)

    def __contains__(self, architecture: object) -> bool:
        return architecture in self._images

    def __len__(self) -> int:
        return len(self._images)

    def size(self, architecture: str) -> int:
        """Bytes of an image."""
        return self._entry(architecture).bytes

    def get(self, architecture: str) -> bytes:
        """The image for an architecture: a code object, or PTX that ends with a NUL byte.

        Raises:
            HipCompilerError: `HIPC0502`, when the pack has none for it.
        """
        entry = self._entry(architecture)
        with self.path.open("rb") as file:
            file.seek(entry.offset)
            packed = file.read(entry.size)
        try:
            image = lzma.decompress(packed)
        except lzma.LZMAError as error:
            raise _damaged(self.path, str(error)) from error
        if len(image) != entry.bytes:
            raise _damaged(self.path, f"the image for {architecture} has {len(image)} bytes of {entry.bytes}")
        return image

    def _entry(self, architecture: str) -> Image:
        if architecture not in self._images:
            raise HipCompilerError(
                ErrorCode.TARGET_UNKNOWN,
                f"there are no device kernels for '{architecture}'",
                hint=f"these are built: {', '.join(self._images)}",
            )
        return self._images[architecture]


def read(path: Path = FOLDER / NAME) -> Pack:
    """Open a pack, by default that of the library's own kernels.

    Raises:
        HipCompilerError: `HIPC0503`, when the file is missing or damaged.
    """
    try:
        with path.open("rb") as file:
            line = file.readline()
    except OSError as error:
        raise HipCompilerError(
            ErrorCode.NOT_BUILT,
            "the device kernels are not built",
            where=str(path),
            why=error.strerror or str(error),
            hint="python kernels/build.py --device",
        ) from error
    try:
        index = json.loads(line)
        if index["format"] != 1:
            raise ValueError(f"format {index['format']}")
        images = {
            entry["arch"]: Image(len(line) + entry["offset"], entry["size"], entry["bytes"])
            for entry in index["images"]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, f"its index cannot be read: {error}") from error
    return Pack(path, images)


def _damaged(path: Path, why: str) -> HipCompilerError:
    return HipCompilerError(
        ErrorCode.NOT_BUILT, "the pack of device kernels is damaged", where=str(path), why=why, hint="build it again"
    )
