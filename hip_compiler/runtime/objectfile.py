"""Symbols of an ELF object file: what it defines, and what it needs from the process."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from hip_compiler.errors import ErrorCode, HipCompilerError

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
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


def symbols(image: bytes) -> Symbols:
    """Global symbols of a 64-bit little-endian ELF object.

    Raises:
        HipCompilerError: `HIPC0500`, for anything else.
    """
    if image[:6] != b"\x7fELF\x02\x01":
        raise HipCompilerError(
            ErrorCode.CODEGEN,
            "the code generator did not produce a 64-bit little-endian ELF object",
            why="the host target runs on platforms with ELF objects",
        )
    (table,) = struct.unpack_from("<Q", image, 0x28)
    entry_size, count = struct.unpack_from("<HH", image, 0x3A)
    sections = [_SECTION.unpack_from(image, table + index * entry_size) for index in range(count)]
    defined: set[str] = set()
    undefined: set[str] = set()
    thread_local: set[str] = set()
    for _, kind, _, _, offset, size, strings, _, _, _ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[strings][4]
        for name, info, _, section, _, _ in _SYMBOL.iter_unpack(image[offset : offset + size]):
            if not name:
                continue
            text = image[names + name : image.index(b"\0", names + name)].decode()
            if info & 0xF == _THREAD_LOCAL:
                thread_local.add(text)
            binding = info >> 4
            if binding == _LOCAL:
                continue
            if section != _UNDEFINED:
                defined.add(text)
            elif binding != _WEAK:
                undefined.add(text)
    return Symbols(frozenset(defined), frozenset(undefined), frozenset(thread_local))
