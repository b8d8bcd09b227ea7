"""External data of a model: checked for containment, then memory-mapped. Nothing is copied."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath

import numpy as np
import onnx

from hip_compiler.errors import ErrorCode, HipCompilerError

SCAN_ENTRIES = 20_000
"""Directory entries looked at to account for every name of a file with several hard links."""


@dataclass
class ExternalData:
    """The external data files of one model.

    A location is taken from the model, which nobody vouches for: a file is used only when it is a regular
    file inside one of the folders `roots`, by every name that it has.

    Attributes:
        roots: folders that the data may lie in; a location is looked up in the first.
        maps: mapped files by location.
    """

    roots: Sequence[Path]
    maps: dict[str, np.ndarray] = field(default_factory=dict)

    def view(self, tensor: onnx.TensorProto, nbytes: int) -> np.ndarray:
        """Bytes of a tensor, as a read-only `uint8` view of the mapped file.

        Args:
            tensor: tensor whose `data_location` is EXTERNAL.
            nbytes: bytes that its dtype and dims ask for.

        Raises:
            HipCompilerError: `HIPC0101`, for a file outside the folder, or data outside the file.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        where = f"tensor '{tensor.name}', external data '{location}'"
        offset = _number(entries.get("offset", ""), 0, "offset", where)
        length = _number(entries.get("length", ""), nbytes, "length", where)
        if length != nbytes:
            raise _refuse(f"the external data is declared {length} bytes long, the tensor has {nbytes}", where)
        data = self._contents(location, where)
        if offset + length > data.size:
            raise _refuse(
                f"the external data ends at byte {offset + length} of a file of {data.size} bytes",
                where,
                hint="the data file is cut off, or belongs to another version of the model",
            )
        return data[offset : offset + length]

    def load(self, tensor: onnx.TensorProto) -> None:
        """Map the file of a tensor. Raises as `view`, but looks at no extent of the data."""
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        self._contents(location, f"tensor '{tensor.name}', external data '{location}'")

    def _contents(self, location: str, where: str) -> np.ndarray:
        if location not in self.maps:
            self.maps[location] = self._map(location, where)
        return self.maps[location]

    def _map(self, location: str, where: str) -> np.ndarray:
        path = self._locate(location, where)
        try:
            # Every symlink is resolved already; one that appears in between is not followed.
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            raise _refuse("the external data cannot be read", where, why=error.strerror or str(error)) from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _refuse("the external data is no regular file", where)
            if status.st_nlink > 1 and not _every_name_inside(status, self.roots):
                raise _refuse(
                    "the external data is a hard link to a file that has a name outside the model's folder",
                    where,
                    hint="replace the link with a copy of the file",
                )
            if status.st_size == 0:
                return np.empty(0, np.uint8)
            return np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ), np.uint8)
        finally:
            os.close(descriptor)

    def _locate(self, location: str, where: str) -> Path:
        if not self.roots:
            raise _refuse(
                "the model has external data, but was given without a folder to find it in",
                where,
                hint="give the path of the model, or the folder as base_dir",
            )
        parts = location.replace("\\", "/").split("/")
        if not location or "\0" in location:
            raise _refuse("the external data has no location", where)
        if location.startswith(("/", "\\")) or PureWindowsPath(location).drive:
            raise _refuse("the location of external data is an absolute path", where)
        if ".." in parts:
            raise _refuse("the location of external data leaves the model's folder", where)
        path = (self.roots[0] / location).resolve()
        if not any(path.is_relative_to(root.resolve()) for root in self.roots):
            raise _refuse("the external data is a link to a file outside the model's folder", where)
        return path


def _every_name_inside(status: os.stat_result, roots: Sequence[Path]) -> bool:
    """Whether all hard links of a file are found inside the folders."""
    found: set[str] = set()
    looked_at = 0
    for root in {root.resolve() for root in roots}:
        for folder, _, files in os.walk(root):
            for name in files:
                looked_at += 1
                if looked_at > SCAN_ENTRIES:
                    return False
                path = os.path.join(folder, name)
                other = os.lstat(path)
                if (other.st_dev, other.st_ino) == (status.st_dev, status.st_ino):
                    found.add(path)
    return len(found) == status.st_nlink


def _number(text: str, default: int, what: str, where: str) -> int:
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        raise _refuse(f"the {what} of external data is no number: {text!r}", where) from None
    if value < 0:
        raise _refuse(f"the {what} of external data is negative: {value}", where)
    return value


def _refuse(what: str, where: str, *, why: str = "", hint: str = "") -> HipCompilerError:
    return HipCompilerError(ErrorCode.EXTERNAL_DATA, what, where=where, why=why, hint=hint)
