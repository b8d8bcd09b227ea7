"""Exchange between lanes: DPP, lane reads and writes, row permutes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.emulator.numeric import Array
from tests.emulator.state import EmulationError, Group


def _dpp_lanes(control: int, lanes: int) -> tuple[Array, Array]:
    """For each lane the lane that it reads, and whether that one exists."""
    lane = np.arange(lanes)
    row, place = lane // 16 * 16, lane % 16
    exists = np.ones(lanes, np.bool_)
    shift = control & 15
    if control < 0x100:  # quad_perm
        source = lane // 4 * 4 + ((control >> (2 * (lane % 4))) & 3)
    elif 0x101 <= control <= 0x10F:  # row_shl
        exists, source = place + shift < 16, row + (place + shift) % 16
    elif 0x111 <= control <= 0x11F:  # row_shr
        exists, source = place >= shift, row + (place - shift) % 16
    elif 0x121 <= control <= 0x12F:  # row_ror
        source = row + (place - shift) % 16
    elif control == 0x130:  # wave_shl
        exists, source = lane + 1 < lanes, (lane + 1) % lanes
    elif control == 0x138:  # wave_shr
        exists, source = lane > 0, (lane - 1) % lanes
    elif control == 0x140:  # row_mirror
        source = row + 15 - place
    elif control == 0x141:  # row_half_mirror
        source = lane // 8 * 8 + 7 - lane % 8
    elif control == 0x142:  # row_bcast15
        exists, source = row > 0, np.maximum(row - 1, 0)
    elif control == 0x143:  # row_bcast31
        exists, source = lane >= 32, np.full(lanes, 31)
    elif 0x150 <= control <= 0x15F:  # row_share, row_newbcast
        source = row + shift
    elif 0x160 <= control <= 0x16F:  # row_xmask
        source = row + (place ^ shift)
    else:
        raise EmulationError(f"DPP control {control:#x}")
    return source, exists


def dpp(group: Group, word: Any, value: Array) -> tuple[Array, Array]:
    """The first source after its exchange, and the lanes that are written."""
    lanes = group.waves.lanes
    source, exists = _dpp_lanes(word.dpp, lanes)
    active = group.active()
    valid = exists & (active[:, source] | bool(getattr(word, "fi", 0)))
    moved = np.where(valid, value[:, source], value.dtype.type(0))
    lane = np.arange(lanes)
    enabled = ((word.row_mask >> (lane // 16 % 4)) & 1) & ((word.bank_mask >> (lane % 16 // 4)) & 1)
    written = active & enabled.astype(np.bool_)
    return moved, written if word.bc else written & valid


def lane_access(word: Any, name: str) -> Callable[[Group], Any]:
    """V_READFIRSTLANE_B32, V_READLANE_B32 and V_WRITELANE_B32."""
    source = word.src0.offset
    target = word.vdst.offset

    def first(group: Group) -> None:
        lane = group.active().argmax(axis=1)
        value = np.broadcast_to(group.vector(source), (group.n, group.waves.lanes))
        group.set_scalar(target - 256 if target >= 256 else target, value[np.arange(group.n), lane])

    if name == "V_READFIRSTLANE_B32":
        return first
    selector = (word.src1 if hasattr(word, "src1") else word.vsrc1).offset

    def lane_of(group: Group) -> Array:
        chosen = np.broadcast_to(group.scalar(selector), (group.n,))
        return (chosen & np.uint32(group.waves.lanes - 1)).astype(np.int64)

    def read(group: Group) -> None:
        value = np.broadcast_to(group.vector(source), (group.n, group.waves.lanes))
        register = target - 256 if target >= 256 else target
        group.set_scalar(register, value[np.arange(group.n), lane_of(group)])

    def write(group: Group) -> None:
        register = target - 256 if target >= 256 else target
        value = np.broadcast_to(group.scalar(source), (group.n,))
        chosen = np.arange(group.waves.lanes) == lane_of(group)[:, None]
        group.set_vgpr(register, np.broadcast_to(value[:, None], chosen.shape), chosen)

    return read if name == "V_READLANE_B32" else write


def permute_lanes(word: Any, name: str, sources: list[int]) -> Callable[[Group], Any]:
    """V_PERMLANE16_B32 and V_PERMLANEX16_B32: any order within a row of 16 lanes, or of the neighbouring row."""
    value_operand, low_operand, high_operand = sources
    target = word.vdst.offset
    crossed = 16 if "X16" in name else 0
    # Bits of OPSEL: read inactive lanes too; keep the old value where the lane read is inactive.
    fetch_inactive = bool(getattr(word, "opsel", 0) & 1)

    def run(group: Group) -> None:
        lanes = group.waves.lanes
        lane = np.arange(lanes)
        selectors = [
            np.broadcast_to(group.scalar(o), (group.n,)).astype(np.uint64) for o in (low_operand, high_operand)
        ]
        both = selectors[0] | (selectors[1] << np.uint64(32))
        place = ((both[:, None] >> (lane % 16 * 4).astype(np.uint64)) & np.uint64(15)).astype(np.int64)
        source = (lane // 16 * 16 ^ crossed) + place
        value = np.broadcast_to(group.vector(value_operand), (group.n, lanes))
        moved = np.take_along_axis(value, source, axis=1)
        if not fetch_inactive:
            active = np.take_along_axis(group.active(), source, axis=1)
            moved = np.where(active, moved, np.uint32(0))
        group.set_vector(target, moved, 32, group.mask)

    return run
