"""Scalar instructions: one value a wave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.emulator.decode import text_of
from tests.emulator.numeric import Array
from tests.emulator.pseudocode import PseudoCodeError
from tests.emulator.state import EXEC, VCC, EmulationError, Group
from tests.emulator.translate import translate


def make(word: Any, name: str, family: str) -> Callable[[Group], Any] | None:
    """SOP1, SOP2, SOPC and SOPK instructions."""
    if name.startswith(("S_BARRIER_SIGNAL", "S_SETREG", "S_PREFETCH", "S_WAITCNT")):
        return None
    bits = word.op_bits
    sources = {}
    for number in (0, 1):
        if hasattr(word, f"ssrc{number}"):
            sources[f"S{number}"] = (getattr(word, f"ssrc{number}").offset, max(32, bits.get(f"ssrc{number}", 32)))
    target: Any = word.sdst.offset if hasattr(word, "sdst") else None
    target_bits = max(32, bits.get("sdst", 32))
    if name in _SEARCHES:
        return _search(sources["S0"], target, name)
    literal = getattr(word, "literal", None)
    immediate = getattr(word, "simm16", 0) & 0xFFFF
    # The manuals call SOPK's immediate S0, S1 or SIMM16; a compare reads its target as S0.
    immediates = {"SIMM16"}
    if name.startswith("S_CMPK"):
        sources["S0"] = (target, target_bits)
        immediates.add("S1")
    elif type(word).__name__.startswith("SOPK"):
        immediates.add("S0")
    mask_bits = 64 if family == "cdna" else 32
    widths = {source: width for source, (_, width) in sources.items()}
    widths |= dict.fromkeys(immediates, 16) | {
        "D0": target_bits,
        "SIMM32": 32,
        "EXEC": mask_bits,
        "VCC": mask_bits,
        "SCC": 1,
    }
    text = text_of(family, word.op.name)
    try:
        translated = translate(text, tuple(widths.items()))
    except PseudoCodeError as error:
        raise EmulationError(f"{name}: {error}") from None
    unknown = [key for key in translated.inputs if key not in widths]
    if unknown:
        raise EmulationError(f"{name} reads {', '.join(unknown)}")

    def run(group: Group) -> None:
        values: dict[str, Array] = {}
        for key in translated.inputs:
            if key in sources:
                # A 64-bit scalar reads inline constants as doubles, and literals as they are.
                operand, bits = sources[key]
                values[key] = group.scalar(operand, bits, literal, operand != 255)
            elif key == "D0":
                values[key] = group.scalar(target, target_bits)
            elif key == "SCC":
                values[key] = group.waves.scc[group.index].astype(np.uint32)
            elif key in ("EXEC", "VCC"):
                values[key] = group.mask_words(EXEC if key == "EXEC" else VCC)
            else:
                values[key] = np.uint32(immediate if key in immediates else literal or 0)
        for key, value in translated.run(**values).items():
            if key == "SCC":
                group.waves.scc[group.index] = value
            elif key == "D0":
                group.set_scalar(target, value, target_bits)
            else:
                group.set_scalar(EXEC if key == "EXEC" else VCC, value, group.waves.lanes)

    return run


# Index of the first or last bit of a value; all ones when there is none.
_SEARCHES = {
    "S_FF1_I32_B32": (32, "first", 1), "S_FF1_I32_B64": (64, "first", 1), "S_CTZ_I32_B32": (32, "first", 1),
    "S_CTZ_I32_B64": (64, "first", 1), "S_FF0_I32_B32": (32, "first", 0), "S_FLBIT_I32_B32": (32, "last", 1),
    "S_FLBIT_I32_B64": (64, "last", 1), "S_CLZ_I32_U32": (32, "last", 1), "S_CLZ_I32_U64": (64, "last", 1),
    "S_CLS_I32": (32, "sign", 1), "S_FLBIT_I32": (32, "sign", 1), "S_CLS_I32_I64": (64, "sign", 1),
    "S_FLBIT_I32_I64": (64, "sign", 1), "S_BCNT1_I32_B32": (32, "count", 1), "S_BCNT1_I32_B64": (64, "count", 1),
}  # fmt: skip


def find_bit(value: Array, width: int, end: str) -> Array:
    """uint32: trailing zeros (`first`), leading zeros (`last`) or leading sign bits (`sign`) of a value.

    All ones when no bit is found.
    """
    if end == "sign":
        value = value ^ np.where(value >> value.dtype.type(width - 1) != 0, ~value.dtype.type(0), value.dtype.type(0))
    wide = value.astype(np.uint64)
    if end == "first":
        lowest = wide & (np.uint64(0) - wide)
        position = np.bitwise_count(lowest - np.uint64(1))
    else:
        for shift in (1, 2, 4, 8, 16, 32):
            wide = wide | (wide >> np.uint64(shift))
        position = width - np.bitwise_count(wide).astype(np.int64)
    return np.where(value == 0, np.uint32(0xFFFFFFFF), position.astype(np.uint32))


def _search(source: tuple[int, int], target: int, name: str) -> Callable[[Group], Any]:
    width, end, bit = _SEARCHES[name]

    def run(group: Group) -> None:
        value = group.scalar(source[0], width)
        value = ~value if bit == 0 else value
        if end == "count":
            found = np.bitwise_count(value).astype(np.uint32)
            group.waves.scc[group.index] = found != 0
        else:
            found = find_bit(value, width, end)
        group.set_scalar(target, found)

    return run
