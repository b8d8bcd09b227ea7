"""Object files: symbols of an ELF object, and the objects in a static library."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hip_compiler.errors import ErrorCode, HipCompilerError

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ARCHIVE = b"!<arch>\n"
_HEADER_BYTES = 60
_SYMBOL_TABLE = 2
_LOCAL, _WEAK = 0, 2
_UNDEFINED = 0
_THREAD_LOCAL = 6


@dataclass(frozen=True)
class Symbols:
    """Names of global symbols; a weak undefined symbol may stay unresolved and is not listed.

    Attributes:
        thread_local: variables, local ones included, of which every thread has its own.
    """

    defined: frozenset[str]
    undefined: frozenset[str]
    thread_local: frozenset[str]


def symbols(images: Iterable[bytes]) -> Symbols:
    """Global symbols of 64-bit little-endian ELF objects, taken together.

    Raises:
        HipCompilerError: `HIPC0500`, for anything else.
    """
    defined: set[str] = set()
    undefined: set[str] = set()
    thread_local: set[str] = set()
    for image in images:
        for text, info, section in _symbols_of(image):
            if info & 0xF == _THREAD_LOCAL:
                thread_local.add(text)
            binding = info >> 4
            if binding == _LOCAL:
                continue
            if section != _UNDEFINED:
                defined.add(text)
            elif binding != _WEAK:
                undefined.add(text)
    return Symbols(frozenset(defined), frozenset(undefined - defined), frozenset(thread_local))


def _symbols_of(image: bytes) -> Iterator[tuple[str, int, int]]:
    """Name, binding and type, and section of every named symbol."""
    if image[:6] != b"\x7fELF\x02\x01":
        raise HipCompilerError(
            ErrorCode.CODEGEN,
            "the code generator did not produce a 64-bit little-endian ELF object",
            why="the host target runs on platforms with ELF objects",
        )
    (table,) = struct.unpack_from("<Q", image, 0x28)
    entry_size, count = struct.unpack_from("<HH", image, 0x3A)
    sections = [_SECTION.unpack_from(image, table + index * entry_size) for index in range(count)]
    for _, kind, _, _, offset, size, strings, _, _, _ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[strings][4]
        for name, info, _, section, _, _ in _SYMBOL.iter_unpack(image[offset : offset + size]):
            if name:
                yield image[names + name : image.index(b"\0", names + name)].decode(), info, section


def archive_members(archive: bytes) -> list[bytes]:
    """Objects in a static library, as `ar` writes it.

    Raises:
        HipCompilerError: `HIPC0500`, for a file that is none, or that ends early.
    """
    position = len(_ARCHIVE)
    members = []
    intact = archive.startswith(_ARCHIVE)
    while intact and position < len(archive):
        header = archive[position : position + _HEADER_BYTES]
        digits = header[48:58].strip()
        if header[58:] != b"`\n" or not digits.isdigit():
            intact = False
            break
        start, size = position + _HEADER_BYTES, int(digits)
        members.append(archive[start : start + size])
        intact = len(members[-1]) == size
        position = start + size + size % 2
    if not intact:
        raise HipCompilerError(ErrorCode.CODEGEN, "a static library is damaged", hint="build it again")
    return members
