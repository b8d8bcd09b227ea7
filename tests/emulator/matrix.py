"""Matrix instructions: WMMA of gfx11 and gfx12, MFMA of gfx9.

Layouts are those of AMD's matrix instruction calculator: which lane and register holds which element.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.emulator import numeric
from tests.emulator.numeric import Array
from tests.emulator.state import EmulationError, Group


def _elements(group: Group, register: int, count: int, kind: str) -> Array:
    """Registers as [n, lanes, elements] in float32, in the order in which they lie in memory."""
    if kind == "f32":
        values = [numeric.from_bits(group.vgpr(register + k), "f", 32) for k in range(count)]
        return np.stack(values, axis=2)
    if kind == "i8":
        words = np.stack([group.vgpr(register + k) for k in range(count)], axis=2)
        return np.ascontiguousarray(words).view(np.int8).astype(np.int64)
    words = np.stack([group.vgpr(register + k) for k in range(count)], axis=2)
    halves = np.ascontiguousarray(words).view(np.uint16).astype(np.uint32)
    return numeric.from_bits(halves, "f" if kind == "f16" else "bf", 16).astype(np.float32)


def make(word: Any, name: str, family: str) -> Callable[[Group], Any] | None:
    """The matrix instruction of a word."""
    if name.startswith("V_ACCVGPR"):
        return _move(word, name)
    match = re.fullmatch(r"V_WMMA_F32_16X16X16_(F16|BF16)", name)
    if match:
        return _wmma(word, match[1].lower(), family)
    match = re.fullmatch(r"V_MFMA_F32_(\d+)X\d+X(\d+)_?(F16|BF16|F32)(?:_1K)?", name)
    if match and match[1] in ("16", "32"):
        return _mfma(word, int(match[1]), int(match[2]), match[3].lower())
    raise EmulationError(f"{name} is not modelled")


def _move(word: Any, name: str) -> Callable[[Group], Any]:
    """V_ACCVGPR_READ and V_ACCVGPR_WRITE: between the two files of vector registers."""
    reads = "READ" in name
    source = word.src0.offset + (256 if reads and word.src0.offset < 512 else 0)
    target = word.vdst.offset - 256 + (0 if reads else 256)

    def run(group: Group) -> None:
        group.set_vgpr(target, group.vector(source), group.mask)

    return run


def _wmma(word: Any, kind: str, family: str) -> Callable[[Group], Any]:
    a_operand, b_operand, c_operand = (getattr(word, f"src{number}").offset for number in range(3))
    target = word.vdst.offset - 256
    gfx12 = family == "rdna4"

    def operand(group: Group, register: int) -> Array:
        """[n, 16, 16]: rows of A, columns of B."""
        values = _elements(group, register - 256, 4 if gfx12 else 8, kind)
        if gfx12:  # Lanes 16 to 31 hold the upper half of k.
            return np.concatenate([values[:, :16], values[:, 16:32]], axis=2)
        if not np.array_equal(values[:, :16], values[:, 16:32], equal_nan=True):
            raise EmulationError("WMMA: lanes 16 to 31 must repeat lanes 0 to 15")
        return values[:, :16]

    def run(group: Group) -> None:
        if group.waves.lanes != 32 or group.mask is not None:
            raise EmulationError("WMMA wants 32 active lanes")
        a, b = operand(group, a_operand), operand(group, b_operand)
        product = a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1)
        lane = np.arange(32)
        for register in range(8):
            row = 8 * (lane // 16) + register if gfx12 else 2 * register + lane // 16
            if c_operand >= 256:
                old = numeric.from_bits(group.vgpr(c_operand - 256 + register), "f", 32)
            else:
                old = numeric.from_bits(group.scalar(c_operand), "f", 32)
            value = (product[:, row, lane % 16] + old).astype(np.float32)
            group.set_vgpr(target + register, value.view(np.uint32))

    return run


def _mfma(word: Any, size: int, depth: int, kind: str) -> Callable[[Group], Any]:
    """One block of size x size, `depth` products deep, over 64 lanes."""
    if word.cbsz or word.abid or word.blgp:
        raise EmulationError("MFMA with a broadcast")
    accumulation, target_accumulation = getattr(word, "acc", 0), getattr(word, "acc_cd", 0)
    a_register = word.src0.offset - 256 + 256 * (accumulation & 1)
    b_register = word.src1.offset - 256 + 256 * (accumulation >> 1 & 1)
    c_operand = word.src2.offset
    target = word.vdst.offset - 256 + 256 * target_accumulation
    lane_groups = 64 // size
    per_lane = depth // lane_groups
    registers = per_lane if kind == "f32" else per_lane // 2

    def operand(group: Group, register: int) -> Array:
        """[n, size, depth]: lane group g holds k from g * per_lane on."""
        values = _elements(group, register, registers, kind)
        return values.reshape(group.n, lane_groups, size, per_lane).transpose(0, 2, 1, 3).reshape(group.n, size, depth)

    def run(group: Group) -> None:
        if group.mask is not None:
            raise EmulationError("MFMA wants 64 active lanes")
        a, b = operand(group, a_register), operand(group, b_register)
        product = a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1)
        lane = np.arange(64)
        results = []
        for register in range(size * size // 64):
            row = register // 4 * (4 * lane_groups) + 4 * (lane // size) + register % 4
            if c_operand >= 256:
                old = numeric.from_bits(group.vgpr(c_operand - 256 + 256 * target_accumulation + register), "f", 32)
            else:
                old = numeric.from_bits(group.scalar(c_operand), "f", 32)
            results.append((product[:, row, lane % size] + old).astype(np.float32).view(np.uint32))
        for register, value in enumerate(results):
            group.set_vgpr(target + register, value)

    return run
