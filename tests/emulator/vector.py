"""Vector instructions: one value a lane, with modifiers, DPP and SDWA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.emulator import numeric, swizzle
from tests.emulator.decode import text_of
from tests.emulator.numeric import Array
from tests.emulator.pseudocode import PseudoCodeError
from tests.emulator.special import SPECIAL
from tests.emulator.state import EXEC, VCC, EmulationError, Group
from tests.emulator.translate import translate


@dataclass(frozen=True)
class Source:
    """A source operand; `negate` and `absolute` apply to the highest of its bits."""

    operand: int
    bits: int
    high: bool
    negate: bool
    absolute: bool


@dataclass(frozen=True)
class Target:
    """Where a result goes: `operand` is None when the instruction has no vector target."""

    operand: int | None
    bits: int
    high: bool


def is_float(name: str) -> bool:
    """Whether an operation works on floating-point numbers."""
    return any(f"_{kind}" in name for kind in ("F16", "F32", "F64", "BF16"))


def sources_of(word: Any, encoding: str, rdna: bool) -> list[Source]:
    """Source operands with their modifiers, as the encoding gives them."""
    bits = word.canonical_op_bits
    dpp, sdwa = encoding.endswith("DPP16"), "_SDWA" in encoding
    select = getattr(word, "opsel", 0)
    result = []
    fields = (("src0",), ("src1", "vsrc1"), ("src2",))
    for number, names in enumerate(fields[: max(1, word.num_srcs())]):
        field = next((name for name in names if hasattr(word, name)), None)
        if number == 0 and (dpp or sdwa):
            field = "vsrc0"
        if field is None:
            continue
        operand = getattr(word, field).offset
        if sdwa and number < 2 and (word.s0, word.s1)[number]:
            operand -= 256
        width = bits.get(f"s{number}", 32)
        high = False
        if width <= 16:
            if encoding.startswith("VOP3"):
                high = bool(select >> number & 1)
            elif rdna and operand >= 256 and (operand - 256) & 128:
                # gfx11's short encodings name the upper half of v0 to v127 by bit 7.
                operand, high = operand - 128, True
        negate, absolute = getattr(word, "neg", 0) >> number & 1, getattr(word, "abs", 0) >> number & 1
        if (dpp or sdwa) and number < 2:
            negate = getattr(word, f"src{number}_neg")
            absolute = getattr(word, f"src{number}_abs")
        result.append(Source(operand, width, high, bool(negate), bool(absolute)))
    return result


def _target_of(word: Any, encoding: str, rdna: bool, compares: bool) -> Target:
    bits = word.canonical_op_bits.get("d", 32)
    if not hasattr(word, "vdst"):
        return Target(None, bits, False)
    operand = word.vdst.offset
    high = False
    if not compares and operand >= 256 and bits <= 16:
        if encoding.startswith("VOP3"):
            high = bool(getattr(word, "opsel", 0) >> 3 & 1)
        elif rdna and (operand - 256) & 128:
            operand, high = operand - 128, True
    return Target(operand, bits, high)


def make(word: Any, name: str, family: str) -> Callable[[Group], Any] | None:
    """VOP1, VOP2, VOP3 and VOPC instructions in all their encodings."""
    encoding = type(word).__name__
    rdna = family != "cdna"
    compares = "_CMP" in name
    if name in ("V_READFIRSTLANE_B32", "V_READLANE_B32", "V_WRITELANE_B32"):
        return swizzle.lane_access(word, name)
    if name == "V_NOP":
        return None
    sources = sources_of(word, encoding, rdna)
    target = _target_of(word, encoding, rdna, compares)
    if name.startswith(("V_PERMLANE16", "V_PERMLANEX16")):
        return swizzle.permute_lanes(word, name, [source.operand for source in sources])
    operation = _Operation(word, name, family, encoding, sources, target)
    return operation.run


class _Operation:
    """One vector instruction, prepared."""

    def __init__(self, word: Any, name: str, family: str, encoding: str, sources: list[Source], target: Target) -> None:
        self.word = word
        self.name = name
        self.rdna = family != "cdna"
        self.sources = sources
        self.target = target
        self.literal = getattr(word, "literal", None)
        # A move of 64 bits reads inline constants as doubles, as one of 32 bits reads them as floats.
        self.float = is_float(name) or name.startswith("V_MOV_B64")
        self.compares = "_CMP" in name
        self.dpp = encoding.endswith("DPP16")
        self.sdwa = "_SDWA" in encoding
        self.clamp = getattr(word, "clmp", 0)
        self.scale = getattr(word, "omod", 0)
        with_carry = encoding.startswith("VOP3SD") or (encoding.startswith("VOP3") and hasattr(word, "sdst"))
        self.carry_out = word.sdst.offset if with_carry and hasattr(word, "sdst") else VCC
        reads_carry = "CNDMASK" in name or "_CI_" in name or "ADDC" in name or "SUBB" in name
        self.carry_in = sources[2].operand if encoding.startswith("VOP3") and reads_carry and len(sources) > 2 else VCC
        if reads_carry and len(sources) > 2:
            self.sources = sources[:2]
        self.special = SPECIAL.get(name)
        self.mask_target = VCC
        if self.compares and target.operand is not None and encoding.startswith("VOP3"):
            self.mask_target = target.operand
        if self.compares and encoding.startswith(("VOPC_SDWA", "VOP3_SDST")) and hasattr(word, "sdst"):
            self.mask_target = word.sdst.offset
        if self.special is None:
            self._translate(family)

    def _translate(self, family: str) -> None:
        widths = {f"S{number}": max(16, source.bits) for number, source in enumerate(self.sources)}
        self.old_bits = max(16, self.target.bits)
        widths |= {"D0": self.old_bits, "SIMM16": 16, "SIMM32": 32, "SCC": 1}
        text = text_of(family, self.word.op.name)
        try:
            self.translated = translate(text, tuple(widths.items()))
        except PseudoCodeError as error:
            raise EmulationError(f"{self.name}: {error}") from None
        allowed = {*widths, "VCC_lanes", "EXEC_lanes", "laneId"}
        unknown = [key for key in self.translated.inputs if key not in allowed]
        if unknown:
            raise EmulationError(f"{self.name} reads {', '.join(unknown)}")

    # -- operands -----------------------------------------------------------------------------------------------------

    def _read(self, group: Group) -> tuple[list[Array], Any]:
        mask = group.mask
        values = []
        for number, source in enumerate(self.sources):
            if self.sdwa and number < 2:
                value = self._select(group, number, source)
            else:
                value = group.vector(source.operand, source.bits, self.literal, source.high, self.float)
            if self.dpp and number == 0:
                value, mask = swizzle.dpp(group, self.word, np.broadcast_to(value, (group.n, group.waves.lanes)))
            if source.absolute:
                value = value & numeric.ones(source.bits - 1).astype(value.dtype)
            if source.negate:
                value = value ^ value.dtype.type(1 << (source.bits - 1))
            values.append(value)
        return values, mask

    def _select(self, group: Group, number: int, source: Source) -> Array:
        """SDWA: one byte, one half or all of a register, with its sign when asked for."""
        select = (self.word.src0_sel, self.word.src1_sel)[number]
        value = group.vector(source.operand, 32, self.literal)
        if select >= 6:
            return value & numeric.ones(source.bits) if source.bits < 32 else value
        bits, first = (8, 8 * select) if select < 4 else (16, 16 * (select - 4))
        part = numeric.from_bits(value >> np.uint32(first), "u", bits)
        if (self.word.src0_sext, self.word.src1_sext)[number]:
            part = numeric.from_bits(part, "i", bits).view(np.uint32)
        return part & numeric.ones(source.bits) if source.bits < 32 else part

    # -- execution ----------------------------------------------------------------------------------------------------

    def run(self, group: Group) -> None:
        values, mask = self._read(group)
        if self.special is not None:
            self._write(group, self.special(group, values, self), mask)
            return
        arguments: dict[str, Array] = {}
        for key in self.translated.inputs:
            if key[0] == "S" and key[1:].isdigit():
                arguments[key] = values[int(key[1:])]
            elif key == "VCC_lanes":
                arguments[key] = group.lanes_of(self.carry_in)
            elif key == "EXEC_lanes":
                arguments[key] = group.active()
            elif key == "laneId":
                arguments[key] = group.waves.lane
            elif key == "D0" and self.target.operand is not None:
                arguments[key] = group.vector(self.target.operand, self.old_bits, None, self.target.high)
            elif key == "SIMM32":
                arguments[key] = np.uint32(self.literal or 0)
            else:
                raise EmulationError(f"{self.name} reads {key}")
        for key, value in self.translated.run(**arguments).items():
            if key == "D0":
                self._write(group, value, mask)
            elif key == "SCC":
                raise EmulationError(f"{self.name} writes SCC")
            else:
                self._write_lanes(group, key, value)

    def _write_lanes(self, group: Group, key: str, value: Array) -> None:
        active = group.active()
        if key == "EXEC_lanes":
            group.set_lanes(EXEC, value & active)
            if not self.rdna:
                group.set_lanes(self.mask_target, value & active)
        elif key == "D0_lanes":
            if "CMPX" in self.name:
                group.set_lanes(EXEC, value & active)
                if self.rdna:
                    return
            group.set_lanes(self.mask_target, value & active)
        else:
            group.set_lanes(self.carry_out, value & active)

    def _write(self, group: Group, value: Array, mask: Any) -> None:
        target = self.target
        if target.operand is None:
            raise EmulationError(f"{self.name} has no target")
        if (self.clamp or self.scale) and self.float:
            value = self._modify(value)
        elif self.clamp:
            raise EmulationError(f"{self.name} saturates an integer")
        if self.sdwa and getattr(self.word, "dst_sel", 6) < 6:
            value = self._place(group, value)
            group.set_vector(target.operand, value, 32, mask)
            return
        group.set_vector(target.operand, value, max(target.bits, 16), mask, target.high, self.rdna)

    def _modify(self, value: Array) -> Array:
        """Output modifiers: a scale, and clamping to [0, 1]."""
        bits = self.target.bits
        number = numeric.from_bits(value, "f", bits)
        number = number * number.dtype.type((1, 2, 4, 0.5)[self.scale])
        if self.clamp:
            number = np.clip(number, number.dtype.type(0), number.dtype.type(1))
        return numeric.to_bits(number, "f", bits)

    def _place(self, group: Group, value: Array) -> Array:
        """SDWA: put the result into a part of the register; the rest is cleared, filled with the sign, or kept."""
        assert self.target.operand is not None
        select = self.word.dst_sel
        bits, first = (8, 8 * select) if select < 4 else (16, 16 * (select - 4))
        part = value.astype(np.uint32) & numeric.ones(bits)
        if self.word.dst_unused == 1:
            return (numeric.from_bits(part, "i", bits).view(np.uint32)) << np.uint32(first)
        placed = part << np.uint32(first)
        if self.word.dst_unused == 2:
            hole = np.uint32(~(((1 << bits) - 1) << first) & 0xFFFFFFFF)
            placed = placed | (group.vector(self.target.operand) & hole)
        return placed
