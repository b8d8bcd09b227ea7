"""Contents of constants, kept outside the IR, and the constants.bin they end in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from hip_compiler.dtypes import stored
from hip_compiler.errors import ErrorCode, HipCompilerError

ALIGNMENT = 64
INLINE_ELEMENTS = 16
"""Constants of at most so many elements stay in the IR as dense attributes."""


@dataclass
class ConstantPool:
    """Arrays by key. `onnx.Constant {buffer = "key"}` and `hip.constant {buffer = "key"}` refer to them.

    Attributes:
        arrays: contents by key, views of the model's own memory where possible.
        offsets: byte offset in constants.bin, by key, for what has been placed there.
        size: bytes of constants.bin.
    """

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    size: int = 0

    def add(self, key: str, array: np.ndarray) -> str:
        """Keep an array under the key, or under the next free variation of it; returns the key used."""
        unique, number = key, 1
        while unique in self.arrays:
            unique, number = f"{key}.{number}", number + 1
        self.arrays[unique] = np.ascontiguousarray(array).reshape(np.shape(array))
        return unique

    def add_view(self, key: str, array: np.ndarray) -> str:
        """As `add`, for an array that becomes contiguous only when it is written: a large one is not held twice."""
        key = self.add(key, array[:0])
        self.arrays[key] = array
        return key

    def get(self, key: str) -> np.ndarray:
        """The array of a key.

        Raises:
            HipCompilerError: `HIPC0306`, when the IR names a key that this compilation does not have.
        """
        if key not in self.arrays:
            raise HipCompilerError(
                ErrorCode.LATE_CONSTANT,
                f"the IR refers to constant contents '{key}' that are not at hand",
                why="contents of large constants are kept beside the IR and do not travel in its text",
            )
        return self.arrays[key]

    def place(self, key: str) -> int:
        """Byte offset of the contents in constants.bin; the same key is placed once."""
        if key not in self.offsets:
            self.offsets[key] = self.size
            self.size += -(-self.get(key).nbytes // ALIGNMENT) * ALIGNMENT
        return self.offsets[key]

    def write(self, path: Path) -> None:
        """Write constants.bin: every placed array at its offset, zeros between."""
        with path.open("wb") as file:
            for key, offset in self.offsets.items():
                _pad_to(file, offset)
                file.write(np.ascontiguousarray(stored(self.arrays[key])).reshape(-1).view(np.uint8).data)
            _pad_to(file, self.size)


def _pad_to(file: BinaryIO, offset: int) -> None:
    file.write(b"\0" * (offset - file.tell()))
