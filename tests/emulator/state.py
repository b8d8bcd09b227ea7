"""Registers of the waves that run together, and access to those of the waves that execute one instruction."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.emulator import numeric
from tests.emulator.memory import POISON, DeviceMemory, LocalMemory

VCC, M0_CDNA, NULL, M0_RDNA, EXEC = 106, 124, 124, 125, 126
_INLINE = {
    240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0, 248: 1 / (2 * np.pi),
}  # fmt: skip


class EmulationError(Exception):
    """The code does something that the emulator does not model."""


class Waves:
    """State of `count` waves of `lanes` lanes.

    Attributes:
        v: vector registers, uint32 [registers, count, lanes]; accumulation registers begin at 256.
        s: scalar registers, uint32 [128, count]: also VCC, the trap registers and EXEC.
        scc: bool [count].
        pc: int64 [count].
        workgroup: uint64 [count], the number of each wave's workgroup within the batch.
    """

    def __init__(
        self, family: str, count: int, lanes: int, registers: int, memory: DeviceMemory, local: LocalMemory
    ) -> None:
        self.family = family
        self.rdna = family != "cdna"
        self.count = count
        self.lanes = lanes
        self.lane = np.arange(lanes, dtype=np.uint32)
        self.v = np.full((registers, count, lanes), POISON, np.uint32)
        self.s = np.full((128, count), POISON, np.uint32)
        self.scc = np.zeros(count, np.bool_)
        self.pc = np.zeros(count, np.int64)
        self.workgroup = np.zeros(count, np.uint64)
        self.memory = memory
        self.local = local


class Group:
    """The waves of a batch that execute an instruction together: `index` selects them, `n` counts them."""

    def __init__(self, waves: Waves, index: Any) -> None:
        self.waves = waves
        whole = len(index) == waves.count
        self.members = index
        self.index: Any = slice(None) if whole else index
        self.n = len(index)
        self.pc = int(waves.pc[index[0]])
        self._mask: Any = None
        self._mask_known = False

    # -- scalar registers: arrays [n], or numpy scalars for constants ------------------------------------------------

    def scalar(self, operand: int, bits: int = 32, literal: int | None = None, is_float: bool = False) -> Any:
        """Raw bits of a scalar source operand."""
        waves = self.waves
        if operand < 128:
            if waves.rdna and operand == NULL:
                return np.uint64(0) if bits > 32 else np.uint32(0)
            if bits <= 32:
                # A copy: what is read must not change when the instruction writes.
                return waves.s[operand, self.index].copy()
            low = waves.s[operand, self.index].astype(np.uint64)
            return low | (waves.s[operand + 1, self.index].astype(np.uint64) << np.uint64(32))
        wide = bits > 32
        dtype = np.uint64 if wide else np.uint32
        if operand <= 192:
            return dtype(operand - 128)
        if operand <= 208:
            return dtype((192 - operand) & ((1 << (64 if wide else 32)) - 1))
        if operand in _INLINE:
            return self._inline(_INLINE[operand], bits, is_float)
        if operand == 253:
            return waves.scc[self.index].astype(dtype)
        if operand == 251:
            return (self.mask_words(VCC) == 0).astype(dtype)
        if operand == 252:
            return (self.mask_words(EXEC) == 0).astype(dtype)
        if operand == 255 and literal is not None:
            return dtype(literal << 32) if wide and is_float else dtype(literal)
        raise EmulationError(f"source operand {operand}")

    @staticmethod
    def _inline(value: float, bits: int, is_float: bool) -> Any:
        if bits <= 16:
            return np.uint32(np.float16(value).view(np.uint16))
        if bits <= 32 or not is_float:
            raw = np.float32(value).view(np.uint32)
            return raw if bits <= 32 else np.uint64(raw)
        return np.float64(value).view(np.uint64)

    def set_scalar(self, operand: int, value: Any, bits: int = 32) -> None:
        """Write a scalar register, or a pair for 64 bits."""
        waves = self.waves
        if waves.rdna and operand == NULL:
            return
        waves.s[operand, self.index] = value if bits <= 32 else (value & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        if bits > 32:
            waves.s[operand + 1, self.index] = (value >> np.uint64(32)).astype(np.uint32)
        if operand <= EXEC + 1 and operand + (bits > 32) >= EXEC:
            self._mask_known = False

    # -- lane masks --------------------------------------------------------------------------------------------------

    def mask_words(self, operand: int) -> Any:
        """A lane mask as a number: uint32 or, for 64 lanes, uint64 [n]."""
        return self.scalar(operand, self.waves.lanes)

    def lanes_of(self, operand: int) -> Any:
        """A lane mask as bool [n, lanes]."""
        s = self.waves.s
        if operand >= 128 or (self.waves.rdna and operand == NULL):
            words = np.broadcast_to(self.scalar(operand, self.waves.lanes), (self.n,)).astype(np.uint64)
            return ((words[:, None] >> self.waves.lane.astype(np.uint64)) & np.uint64(1)).astype(np.bool_)
        high = s[operand + 1, self.index] if self.waves.lanes == 64 else None
        return numeric.words_to_lanes(s[operand, self.index], high, self.waves.lane)

    def set_lanes(self, operand: int, mask: Any) -> None:
        """Write a lane mask from bool [n, lanes]."""
        if self.waves.rdna and operand == NULL:
            return
        words = numeric.lanes_to_words(np.broadcast_to(mask, (self.n, self.waves.lanes)))
        for number, word in enumerate(words):
            self.waves.s[operand + number, self.index] = word
        if operand == EXEC:
            self._mask_known = False

    @property
    def mask(self) -> Any:
        """Active lanes, bool [n, lanes]; None when all are."""
        if not self._mask_known:
            lanes = self.lanes_of(EXEC)
            self._mask = None if lanes.all() else lanes
            self._mask_known = True
        return self._mask

    def active(self) -> Any:
        """Active lanes, always as an array."""
        return np.ones((self.n, self.waves.lanes), np.bool_) if self.mask is None else self.mask

    # -- vector registers: arrays [n, lanes], [n, 1] for scalar registers, numpy scalars for constants ---------------

    def vgpr(self, register: int) -> Any:
        """uint32 [n, lanes] of a vector register; a view when all waves are in the group."""
        try:
            return self.waves.v[register, self.index]
        except IndexError:
            raise EmulationError(f"vector register {register} of {len(self.waves.v)}") from None

    def vector(
        self, operand: int, bits: int = 32, literal: int | None = None, high: bool = False, is_float: bool = False
    ) -> Any:
        """Raw bits of a vector source operand; `high` takes the upper half of a register."""
        if operand >= 256:
            register = operand - 256
            if bits > 32:
                low = self.vgpr(register).astype(np.uint64)
                return low | (self.vgpr(register + 1).astype(np.uint64) << np.uint64(32))
            value = self.vgpr(register)
        else:
            value = self.scalar(operand, bits, literal, is_float)
            if value.ndim:
                value = value[:, None]
        if high:
            return value >> np.uint32(16)
        return value & numeric.ones(bits) if bits < 32 else value

    def set_vgpr(self, register: int, value: Any, mask: Any = None) -> None:
        """Write uint32 values to the lanes of a mask; to all when it is None."""
        v = self.waves.v
        if register >= len(v):
            raise EmulationError(f"vector register {register} of {len(v)}")
        if mask is None:
            v[register, self.index] = value
        elif isinstance(self.index, slice):
            np.copyto(v[register], value, where=mask)
        else:
            v[register, self.index] = np.where(mask, value, v[register, self.index])

    def set_vector(self, operand: int, value: Any, bits: int, mask: Any, high: bool = False, keep: bool = True) -> None:
        """Write raw bits; 16-bit values leave the other half of the register alone when `keep` says so."""
        register = operand - 256
        if bits > 32:
            value = value.astype(np.uint64)
            self.set_vgpr(register, (value & np.uint64(0xFFFFFFFF)).astype(np.uint32), mask)
            self.set_vgpr(register + 1, (value >> np.uint64(32)).astype(np.uint32), mask)
            return
        if bits <= 16 and (keep or high):
            old = self.vgpr(register)
            part = value.astype(np.uint32) & np.uint32(0xFFFF)
            value = old & np.uint32(65535) | part << np.uint32(16) if high else old & np.uint32(4294901760) | part
        self.set_vgpr(register, value, mask)
