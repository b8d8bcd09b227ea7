"""Code objects whose kernels are Python functions: an ELF file that says only what the runtime reads of one."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.emulator import Argument, Memory

Kernel = Callable[..., None]
"""Takes (memory, grid, block, arguments as the values of its formats)."""


@dataclass(frozen=True)
class StubKernel:
    """A kernel: its arguments as formats of `struct`, and what it does."""

    formats: Sequence[str]
    run: Kernel

    @property
    def arguments(self) -> tuple[Argument, ...]:
        found, offset = [], 0
        for letter in self.formats:
            size = struct.calcsize(letter)
            offset = -(-offset // min(size, 8)) * min(size, 8)
            found.append(Argument(offset, size, "by_value"))
            offset += size
        # The driver's own arguments do not count.
        return (*found, Argument(-(-offset // 8) * 8, 4, "hidden_block_count_x"))


class StubCode:
    """A loaded code object."""

    def __init__(self, kernels: Mapping[str, StubKernel]) -> None:
        self.kernels = kernels

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        kernarg: bytes,
        memory: Memory,
        dynamic_lds: int = 0,
    ) -> None:
        kernel = self.kernels[name]
        values = [
            struct.unpack_from(letter, kernarg, argument.offset)[0]
            for letter, argument in zip(kernel.formats, kernel.arguments, strict=False)
        ]
        kernel.run(memory, grid, block, *values)


def view(memory: Memory, address: int, count: int, dtype: Any) -> np.ndarray:
    """`count` elements at an address, as the memory allows."""
    return np.frombuffer(memory.read(address, count * np.dtype(dtype).itemsize), dtype)


def _twice(memory: Memory, grid: Any, block: Any, x: int, y: int, count: int) -> None:
    assert grid[0] * block[0] >= count
    memory.write(y, (view(memory, x, count, np.float32) * np.float32(2)).tobytes())


def _add_scaled(memory: Memory, grid: Any, block: Any, x: int, y: int, scale: float, count: int) -> None:
    total = view(memory, y, count, np.float32) + np.float32(scale) * view(memory, x, count, np.float32)
    memory.write(y, total.astype(np.float32).tobytes())


def _copy(width: int) -> Kernel:
    def run(memory: Memory, grid: Any, block: Any, to: int, source: int, count: int) -> None:
        memory.write(to, bytes(memory.read(source, count * width)))

    return run


def _fill(letter: str) -> Kernel:
    def run(memory: Memory, grid: Any, block: Any, to: int, value: int, count: int) -> None:
        memory.write(to, struct.pack(letter, value) * count)

    return run


LIBRARY = {
    **{f"copy_b{width}": StubKernel("QQq", _copy(width)) for width in (1, 16)},
    **{f"fill_b{struct.calcsize(letter)}": StubKernel(f"Q{letter}q", _fill(letter)) for letter in "BHIQ"},
}
"""Kernels that the runtime itself launches: `kernels/device/move.hip`."""
GENERATED = {"twice": StubKernel("QQq", _twice), "add_scaled": StubKernel("QQfq", _add_scaled)}
"""Kernels of generated code: their arguments, then the number of iterations."""


def loader(*sets: Mapping[str, StubKernel], refused: Sequence[str] = ()) -> Callable[[str, bytes], StubCode]:
    """What a `FakeHip` loads images with: `image` of one of the sets, for any device but those refused."""

    def load(architecture: str, image: bytes) -> StubCode:
        for kernels in sets:
            if image in (code_object(kernels), ptx(kernels)) and architecture not in refused:
                return StubCode(kernels)
        raise ValueError("no binary for this device")

    return load


def ptx(kernels: Mapping[str, StubKernel]) -> bytes:
    """Text that stands for PTX."""
    return json.dumps(sorted(kernels)).encode()


def code_object(kernels: Mapping[str, StubKernel]) -> bytes:
    """An ELF file with the metadata notes of an AMDGPU code object, one per kernel, as of objects linked together."""
    notes = b"".join(_note({name: kernel}) for name, kernel in kernels.items())
    header = b"\x7fELF\x02\x01\x01\x40" + bytes(8)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, 0, 64 + len(notes), 0, 64, 0, 0, 64, 2, 0)
    sections = bytes(64) + struct.pack("<IIQQQQIIQQ", 0, 7, 0, 0, 64, len(notes), 0, 0, 4, 0)
    return header + notes + sections


def _note(kernels: Mapping[str, StubKernel]) -> bytes:
    document = {
        "amdhsa.version": [1, 2],
        "amdhsa.kernels": [
            {
                ".agpr_count": 0,
                ".args": [{".offset": a.offset, ".size": a.size, ".value_kind": a.kind} for a in kernel.arguments],
                ".name": name,
                ".symbol": f"{name}.kd",
                ".uniform_work_group_size": True,
                ".group_segment_fixed_size": 70000,
            }
            for name, kernel in kernels.items()
        ],
    }
    content = _pack(document)
    note = struct.pack("<III", 7, len(content), 32) + b"AMDGPU\0\0" + content
    return note + bytes(-len(note) % 4)


def _pack(value: Any) -> bytes:
    """MessagePack, as the metadata uses it."""
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return bytes([value]) if value < 128 else b"\xce" + value.to_bytes(4, "big")
    if isinstance(value, str):
        data = value.encode()
        return (bytes([0xA0 | len(data)]) if len(data) < 32 else b"\xd9" + bytes([len(data)])) + data
    if isinstance(value, dict):
        return b"\xde" + len(value).to_bytes(2, "big") + b"".join(_pack(k) + _pack(v) for k, v in value.items())
    return (
        bytes([0x90 | len(value)]) + b"".join(map(_pack, value))
        if len(value) < 16
        else (b"\xdc" + len(value).to_bytes(2, "big") + b"".join(map(_pack, value)))
    )
