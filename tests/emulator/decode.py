"""Instruction words to instructions that run: the tables come from the `tinygrad` package."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.emulator.state import EmulationError, Group

FAMILIES = {"gfx906": "cdna", "gfx90a": "cdna", "gfx942": "cdna", "gfx1100": "rdna3", "gfx1151": "rdna3",
            "gfx1201": "rdna4"}  # fmt: skip

# V_MFMA_F32_16X16X16_BF16 has another number on gfx90a, which the tables, those of gfx942, do not know.
_GFX90A_WORDS = {0xD3E7: 0xD3E1}


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        name: for messages.
        size: bytes.
        kind: ``step``, ``branch`` (`run` gives bool [n], or None for always), ``jump`` (`run` gives addresses [n]),
            ``barrier`` or ``end``.
        run: what it does; None for those that do nothing here (waits, hints, cache control).
        target: address that a branch goes to.
    """

    name: str
    size: int
    kind: str
    run: Callable[[Group], Any] | None
    target: int = 0


def base_name(word: Any) -> str:
    """Name of the operation, without the suffix of its encoding."""
    return re.sub(r"_(E32|E64)$", "", word.op.name) if hasattr(word, "op") else "V_DUAL"


@cache
def pseudocode(family: str) -> dict[str, str]:
    """Pseudo-code by name of operation."""
    table = importlib.import_module(f"tinygrad.runtime.autogen.amd.{family}.str_pcode").PCODE
    return {operation.name: text for operation, text in table.items()}


def text_of(family: str, operation: str) -> str:
    """Pseudo-code of an operation; the tables may have it under another encoding of the same one."""
    table = pseudocode(family)
    base = re.sub(r"_(E32|E64)$", "", operation)
    for name in (operation, base, f"{base}_E32", f"{base}_E64"):
        if name in table:
            return table[name]
    raise EmulationError(f"no pseudo-code for {operation}")


def decode(family: str, data: bytes, address: int) -> Instruction:
    """The instruction at an address, from its first bytes."""
    from tests.emulator import control, loads, local, matrix, packed, scalar, vector

    first = int.from_bytes(data[:4], "little")
    if family == "rdna3" and first >> 26 == 0b111000:
        return Instruction("BUFFER_GL_INV", 8, "step", None)  # cache control; nothing else of MUBUF is made
    if family == "cdna" and first >> 16 in _GFX90A_WORDS:
        data = (first & 0xFFFF).to_bytes(2, "little") + _GFX90A_WORDS[first >> 16].to_bytes(2, "little") + data[4:]
    from tinygrad.renderer.amd import decode_inst

    try:
        word = decode_inst(data, family)
    except ValueError as error:
        raise EmulationError(f"{error} at {address:#x}") from None
    size = word.size()
    encoding = re.sub(r"(_LIT|_DPP16|_SDWA|_SDST)+$", "", type(word).__name__)
    name = base_name(word)
    if encoding == "SOPP":
        return control.make(word, name, size, address)
    if name in ("S_SETPC_B64", "S_SWAPPC_B64"):
        return control.jump(word, name, size, address)
    if name == "S_GETPC_B64":
        return Instruction(name, size, "step", control.get_pc(word, address + size))
    makers: dict[str, Callable[[Any, str, str], Callable[[Group], Any] | None]] = {
        "SMEM": loads.scalar_load,
        "GLOBAL": loads.global_access, "VGLOBAL": loads.global_access,
        "FLAT": loads.global_access, "VFLAT": loads.global_access, "MUBUF": loads.cache_control,
        "DS": local.make,
        "VOPD": packed.dual, "VOP3P": packed.make, "VOP3P_MFMA": matrix.make, "VOP3PX2": matrix.make,
        "SOP1": scalar.make, "SOP2": scalar.make, "SOPC": scalar.make, "SOPK": scalar.make,
    }  # fmt: skip
    if name.startswith(("V_WMMA", "V_MFMA", "V_ACCVGPR")):
        return Instruction(name, size, "step", matrix.make(word, name, family))
    maker = makers.get(encoding, vector.make)
    return Instruction(name, size, "step", maker(word, name, family))
