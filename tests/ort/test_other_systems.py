"""The provider's library for the systems that ONNX Runtime has wheels for, cross-compiled."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kernels.provider import SYSTEMS, build_for, zig
from tests.kernels.harness import CACHE

EXPORTS = {"CreateEpFactories", "ReleaseEpFactory", "hip_ep_option", "hip_ep_set_compiler"}
needs_zig = pytest.mark.skipif(zig() is None, reason="the package ziglang is not installed")


def exports_of_pe(data: bytes) -> tuple[int, set[str]]:
    """Machine and exported names of a DLL (Microsoft's "PE Format", "The .edata Section")."""
    header = struct.unpack_from("<I", data, 0x3C)[0]
    assert data[:2] == b"MZ" and data[header : header + 4] == b"PE\0\0"
    machine, sections, size = struct.unpack_from("<HH12xH", data, header + 4)
    optional = header + 24
    table = struct.unpack_from("<I", data, optional + 112)[0]

    def offset(address: int) -> int:
        for number in range(sections):
            room, start, stored = struct.unpack_from("<III", data, optional + size + 40 * number + 8)[:3]
            place = struct.unpack_from("<I", data, optional + size + 40 * number + 20)[0]
            if start <= address < start + max(room, stored):
                return int(address - start + place)
        raise AssertionError(f"no section holds {address:#x}")

    count, _, names = struct.unpack_from("<III", data, offset(table) + 24)
    starts = struct.unpack_from(f"<{count}I", data, offset(names))
    return machine, {_text(data, offset(start)) for start in starts}


def exports_of_macho(data: bytes) -> tuple[int, set[str]]:
    """CPU type and external, defined symbols of a dylib (Apple's mach-o/loader.h, mach-o/nlist.h)."""
    magic, cpu, _, _, commands = struct.unpack_from("<5I", data)
    assert magic == 0xFEEDFACF
    place, found = 32, set()
    for _ in range(commands):
        command, size = struct.unpack_from("<II", data, place)
        if command == 2:  # LC_SYMTAB
            symbols, count, strings, _ = struct.unpack_from("<4I", data, place + 8)
            for number in range(count):
                name, kind = struct.unpack_from("<IB", data, symbols + 16 * number)
                if kind & 0xE0 == 0 and kind & 0x0E and kind & 1 and not kind & 0x10:
                    found.add(_text(data, strings + name).removeprefix("_"))
        place += size
    return cpu, found


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()


def built(system: str) -> Path:
    compiler = zig()
    assert compiler is not None
    return build_for(system, CACHE / "provider", compiler)


@needs_zig
def test_a_dll() -> None:
    library = built("x86_64-windows")
    assert library.name == "hip_ep.dll"
    assert exports_of_pe(library.read_bytes()) == (0x8664, EXPORTS)
    assert [path.name for path in library.parent.iterdir() if path.is_file()] == ["hip_ep.dll"]


@needs_zig
def test_a_dylib() -> None:
    library = built("aarch64-macos")
    assert library.name == "libhip_ep.dylib"
    cpu, names = exports_of_macho(library.read_bytes())
    assert cpu == 0x0100000C
    assert {name for name in names if not name.startswith("_")} == EXPORTS  # the others are the linker's own


def test_there_is_a_rule_for_every_system() -> None:
    assert set(SYSTEMS) == {"x86_64-linux", "aarch64-linux", "x86_64-windows", "x86_64-macos", "aarch64-macos"}
