"""Reads AMDGPU code objects: their kernels, what a kernel needs of a compute unit, and how its arguments lie.

Follows LLVM's "User Guide for AMDGPU Backend": ELF header flags, the note `NT_AMDGPU_METADATA` (MessagePack) and the
kernel descriptor of 64 bytes. Standard library only.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hip_compiler.errors import ErrorCode, HipCompilerError

_EM_AMDGPU = 224
_MACHINES = {
    0x2F: "gfx906", 0x30: "gfx908", 0x3F: "gfx90a", 0x4C: "gfx942", 0x4F: "gfx950", 0x36: "gfx1030",
    0x41: "gfx1100", 0x46: "gfx1101", 0x47: "gfx1102", 0x44: "gfx1103", 0x43: "gfx1150", 0x4A: "gfx1151",
    0x55: "gfx1152", 0x48: "gfx1200", 0x4E: "gfx1201",
    0x51: "gfx9-generic", 0x52: "gfx10-1-generic", 0x53: "gfx10-3-generic", 0x54: "gfx11-generic",
    0x59: "gfx12-generic", 0x5F: "gfx9-4-generic",
}  # fmt: skip


@dataclass(frozen=True)
class Argument:
    """One value in a kernel's argument block: bytes `offset` to `offset + size`; `kind` as in the metadata,
    for example ``by_value``, ``global_buffer`` or ``hidden_block_count_x``."""

    offset: int
    size: int
    kind: str


@dataclass(frozen=True)
class KernelInfo:
    """A kernel of a code object, sizes in bytes.

    Attributes:
        kernarg_size: size of the argument block.
        arguments: the values in it, in order; hidden ones included.
        lds: statically allocated LDS of a workgroup.
        scratch: private memory of a work item.
        vgprs, agprs, sgprs: registers of a wave.
        vgpr_spills, sgpr_spills: registers that the compiler had to keep elsewhere.
        wave: work items of a wave, 32 or 64.
        max_threads: most work items of a workgroup.
        descriptor: address of the kernel descriptor in the loaded image.
    """

    kernarg_size: int
    arguments: tuple[Argument, ...]
    lds: int
    scratch: int
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    wave: int
    max_threads: int
    descriptor: int


@dataclass(frozen=True)
class CodeObject:
    """A parsed code object: `memory` is what a loader puts into device memory, from address 0 on."""

    architecture: str
    memory: bytes
    kernels: Mapping[str, KernelInfo]


def read(image: bytes) -> CodeObject:
    """Parse a code object.

    Raises:
        HipCompilerError: `HIPC0503`, when the bytes are no AMDGPU code object of a known machine.
    """
    try:
        return _read(image)
    except (struct.error, IndexError, KeyError, UnicodeDecodeError) as error:
        raise _refused(f"its contents do not hold together: {error!r}") from error


def _refused(why: str) -> HipCompilerError:
    return HipCompilerError(ErrorCode.NOT_BUILT, "the bytes are no AMDGPU code object", why=why)


def _read(image: bytes) -> CodeObject:
    if image[:4] != b"\x7fELF" or struct.unpack_from("<H", image, 18)[0] != _EM_AMDGPU:
        raise _refused("no ELF file for AMDGPU")
    program_offset, section_offset, flags = struct.unpack_from("<QQI", image, 32)
    program_count = struct.unpack_from("<H", image, 56)[0]
    section_count = struct.unpack_from("<H", image, 60)[0]
    machine = _MACHINES.get(flags & 0xFF)
    if machine is None:
        raise _refused(f"machine number {flags & 0xFF:#x} is not known")

    memory = bytearray()
    metadata: Any = None
    for index in range(program_count):
        kind, _, offset, address, _, file_size, memory_size, _ = struct.unpack_from(
            "<IIQQQQQQ", image, program_offset + 56 * index
        )
        if kind == 1:  # PT_LOAD
            memory.extend(bytes(max(0, address + memory_size - len(memory))))
            memory[address : address + file_size] = image[offset : offset + file_size]
        elif kind == 4:  # PT_NOTE
            found = decode_metadata(image, offset, offset + file_size)
            metadata = found if metadata is None else metadata
    if metadata is None:
        raise _refused("it has no metadata note")
    symbols = _dynamic_symbols(image, section_offset, section_count)
    kernels = {
        kernel[".name"]: _kernel(kernel, symbols[kernel[".symbol"]]) for kernel in metadata.get("amdhsa.kernels", ())
    }
    return CodeObject(machine, bytes(memory), kernels)


def _kernel(entry: Mapping[str, Any], descriptor: int) -> KernelInfo:
    arguments = tuple(
        Argument(argument[".offset"], argument[".size"], argument[".value_kind"]) for argument in entry.get(".args", ())
    )
    return KernelInfo(
        kernarg_size=entry[".kernarg_segment_size"],
        arguments=arguments,
        lds=entry[".group_segment_fixed_size"],
        scratch=entry[".private_segment_fixed_size"],
        vgprs=entry[".vgpr_count"],
        agprs=entry.get(".agpr_count", 0),
        sgprs=entry[".sgpr_count"],
        vgpr_spills=entry.get(".vgpr_spill_count", 0),
        sgpr_spills=entry.get(".sgpr_spill_count", 0),
        wave=entry[".wavefront_size"],
        max_threads=entry[".max_flat_workgroup_size"],
        descriptor=descriptor,
    )


def decode_metadata(image: bytes, start: int, end: int) -> Any:
    """The metadata map among the notes at [start, end), or None."""
    while start + 12 <= end:
        name_size, size, kind = struct.unpack_from("<III", image, start)
        content = start + 12 + (name_size + 3) // 4 * 4
        if kind == 32 and image[start + 12 : start + 12 + name_size].rstrip(b"\0") == b"AMDGPU":
            return _MessagePack(image[content : content + size]).value()
        start = content + (size + 3) // 4 * 4
    return None


def _dynamic_symbols(image: bytes, section_offset: int, section_count: int) -> dict[str, int]:
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, section_offset + 64 * index) for index in range(section_count)]
    symbols: dict[str, int] = {}
    for section in sections:
        if section[1] != 11:  # SHT_DYNSYM
            continue
        strings = sections[section[6]][4]
        for offset in range(section[4], section[4] + section[5], 24):
            name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", image, offset)
            first = strings + name
            symbols[image[first : image.index(b"\0", first)].decode()] = value
    return symbols


class _MessagePack:
    """Decoder of the MessagePack kinds that the metadata uses."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def _number(self, code: str) -> Any:
        value = struct.unpack_from(">" + code, self.data, self.at)[0]
        self.at += struct.calcsize(code)
        return value

    def _bytes(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def value(self) -> Any:
        kind = self._number("B")
        if kind < 0x80:
            return kind
        if kind < 0x90:
            return self._map(kind & 15)
        if kind < 0xA0:
            return self._list(kind & 15)
        if kind < 0xC0:
            return self._bytes(kind & 31).decode()
        if kind >= 0xE0:
            return kind - 256
        if kind in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[kind]
        numbers = {0xCA: "f", 0xCB: "d", 0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i"}
        numbers[0xD3] = "q"
        if kind in numbers:
            return self._number(numbers[kind])
        if kind in (0xD9, 0xDA, 0xDB):
            return self._bytes(self._number("BHI"[kind - 0xD9])).decode()
        if kind in (0xDC, 0xDD):
            return self._list(self._number("HI"[kind - 0xDC]))
        if kind in (0xDE, 0xDF):
            return self._map(self._number("HI"[kind - 0xDE]))
        raise KeyError(f"MessagePack kind {kind:#x}")

    def _list(self, count: int) -> list[Any]:
        return [self.value() for _ in range(count)]

    def _map(self, count: int) -> dict[str, Any]:
        return {self.value(): self.value() for _ in range(count)}
