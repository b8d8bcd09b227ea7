"""One metadata note for a code object that is linked from several objects.

LLVM puts a note with the kernels' metadata into every object, and a linker leaves them side by side; loaders of code
objects read the first. Here the notes are taken out of the objects, and their lists of kernels become one note.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.toolchain.codeobject import decode_metadata

_SHT_NOTE = 7
_SHF_EXCLUDE = 0x80000000
_NT_AMDGPU_METADATA = 32
NOTE_SECTION = ".note.amdgpu"


def take_notes(image: bytes, keep: str = "") -> tuple[bytes, list[Any]]:
    """An object whose notes, but for a section to keep, a linker leaves out; and the metadata that they hold."""
    edited = bytearray(image)
    section_offset = struct.unpack_from("<Q", image, 40)[0]
    count = struct.unpack_from("<H", image, 60)[0]
    names_index = struct.unpack_from("<H", image, 62)[0]
    names = struct.unpack_from("<Q", image, section_offset + 64 * names_index + 24)[0]
    found = []
    for index in range(count):
        at = section_offset + 64 * index
        name, kind, flags, _, offset, size = struct.unpack_from("<IIQQQQ", image, at)
        title = image[names + name : image.index(b"\0", names + name)].decode()
        if kind != _SHT_NOTE or title == keep:
            continue
        struct.pack_into("<Q", edited, at + 8, flags | _SHF_EXCLUDE)
        metadata = decode_metadata(image, offset, offset + size)
        if metadata is not None:
            found.append(metadata)
    return bytes(edited), found


def merge(metadata: Sequence[Any], architecture: str) -> bytes:
    """The note for all kernels of several metadata maps.

    Raises:
        HipCompilerError: `HIPC0501`, when two of them define one kernel.
    """
    kernels = [kernel for part in metadata for kernel in part.get("amdhsa.kernels", ())]
    names = [kernel[".name"] for kernel in kernels]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise HipCompilerError(
            ErrorCode.LINK, f"device code for {architecture} does not link", details=[f"two kernels {n}" for n in twice]
        )
    merged = {**metadata[0], "amdhsa.kernels": kernels}
    if "amdhsa.target" in merged:
        # Of TRIPLE--ARCHITECTURE:FEATURES; the objects may be for an architecture with the same machine code.
        triple, _, target = merged["amdhsa.target"].partition("--")
        merged["amdhsa.target"] = triple + "--" + architecture + target[len(target.partition(":")[0]) :]
    content = encode(merged)
    head = struct.pack("<III", 7, len(content), _NT_AMDGPU_METADATA) + b"AMDGPU\0\0"
    return head + content + bytes(-len(content) % 4)


def module(note: bytes, triple: str) -> str:
    """LLVM IR of an object that holds a note; LLVM makes a section of notes of one with such a name."""
    text = "".join(f"\\{byte:02x}" for byte in note)
    kind = f"[{len(note)} x i8]"
    return (
        f'target triple = "{triple}"\n'
        f'@hipc_note = hidden addrspace(1) constant {kind} c"{text}", section "{NOTE_SECTION}", align 4\n'
    )


def encode(value: Any) -> bytes:
    """MessagePack of the kinds that the metadata uses."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        if not 0 <= value < 1 << 64:
            raise ValueError(f"{value} is no number of the metadata")
        return bytes([value]) if value < 128 else b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, str):
        data = value.encode()
        return b"\xdb" + struct.pack(">I", len(data)) + data
    if isinstance(value, (list, tuple)):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(encode, value))
    if isinstance(value, dict):
        items = b"".join(encode(key) + encode(item) for key, item in value.items())
        return b"\xdf" + struct.pack(">I", len(value)) + items
    raise ValueError(f"{value!r} is no value of the metadata")
