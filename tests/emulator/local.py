"""LDS instructions, and the lane exchange that goes through the LDS hardware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.emulator.loads import Access
from tests.emulator.numeric import Array
from tests.emulator.state import EmulationError, Group


def make(word: Any, name: str, family: str) -> Callable[[Group], Any] | None:
    """A DS instruction."""
    offsets = (word.offset0, word.offset1)
    address, target = word.addr.offset, word.vdst.offset - 256
    data = [word.data0.offset - 256, word.data1.offset - 256]
    if getattr(word, "acc", 0):
        target, data = target + 256, [register + 256 for register in data]
    offset = offsets[0] | (offsets[1] << 8)
    if name in ("DS_BPERMUTE_B32", "DS_PERMUTE_B32"):
        return _permute(name, address, target, data[0], offset)
    if name == "DS_SWIZZLE_B32":
        return _swizzle(address, target, offset)
    words = name.split("_")
    if "2ADDR" in words or words[1] in ("READ2", "WRITE2", "READ2ST64", "WRITE2ST64"):
        stride = 64 if "ST64" in name or "STRIDE64" in name else 1
        return _two(words, address, target, data, offsets, stride)
    if words[1] not in ("LOAD", "STORE", "READ", "WRITE"):
        words = ["DS", "ATOMIC", *(word for word in words[1:] if word != "RTN")]
    access = Access(words, target, data[0], "RTN" in name)
    if access.verb == "ATOMIC" and "CMP" in name:
        raise EmulationError(f"{name} is not modelled")
    # B96 and B128 in one instruction want no more alignment than their words, as in unaligned access mode.

    def run(group: Group) -> None:
        _access(access, group, group.vector(address).astype(np.uint64) + np.uint64(offset))

    return run


def _access(access: Access, group: Group, addresses: Array) -> None:
    mask = group.mask
    numbers = np.broadcast_to(group.waves.workgroup[group.index][:, None], (group.n, group.waves.lanes))
    chosen = numbers.reshape(-1) if mask is None else numbers[mask]
    local = group.waves.local
    if access.verb == "ATOMIC":
        # Atomics go lane by lane, in the order of the chosen lanes.
        lane = iter(np.repeat(chosen, 1))
        current = [np.uint64(0)]

        def gather(where: Array, size: int) -> Array:
            current[0] = next(lane)
            return local.gather(current[0], where, size)

        access.run(group, addresses, gather, lambda where, data: local.scatter(current[0], where, data))
        return
    access.run(
        group,
        addresses,
        lambda where, size: local.gather(chosen, where, size),
        lambda where, data: local.scatter(chosen, where, data),
    )


def _two(
    words: list[str], address: int, target: int, data: list[int], offsets: tuple[int, int], stride: int
) -> Callable[[Group], Any]:
    size = 8 if words[-1] == "B64" else 4
    verb = "READ" if words[1] in ("LOAD", "READ2", "READ2ST64") else "WRITE"
    accesses = [
        Access(["DS", verb, words[-1]], target + number * size // 4, data[number], False) for number in range(2)
    ]

    def run(group: Group) -> None:
        # The address register may be one of those loaded: read it once.
        base = group.vector(address).astype(np.uint64)
        for access, offset in zip(accesses, offsets, strict=True):
            _access(access, group, base + np.uint64(offset * size * stride))

    return run


def _permute(name: str, address: int, target: int, data: int, offset: int) -> Callable[[Group], Any]:
    def run(group: Group) -> None:
        lanes = group.waves.lanes
        place = np.broadcast_to(group.vector(address), (group.n, lanes))
        other = ((place + np.uint32(offset)) >> np.uint32(2)).astype(np.int64) % lanes
        value = group.vgpr(data)
        active = group.active()
        if name == "DS_BPERMUTE_B32":
            moved = np.take_along_axis(value, other, axis=1)
            moved = np.where(np.take_along_axis(active, other, axis=1), moved, np.uint32(0))
        else:
            moved = np.zeros((group.n, lanes), np.uint32)
            wave, lane = np.nonzero(active)
            moved[wave, other[wave, lane]] = value[wave, lane]
        group.set_vgpr(target, moved, group.mask)

    return run


def _swizzle(address: int, target: int, offset: int) -> Callable[[Group], Any]:
    """DS_SWIZZLE_B32: bit 15 chooses quads, else and, or, xor masks within 32 lanes."""

    def run(group: Group) -> None:
        lane = np.arange(group.waves.lanes)
        if offset & 0x8000:
            source = lane // 4 * 4 + ((offset >> (2 * (lane % 4))) & 3)
        else:
            keep, put, flip = offset & 31, offset >> 5 & 31, offset >> 10 & 31
            source = lane // 32 * 32 + (((lane % 32 & keep) | put) ^ flip)
        moved = np.where(group.active()[:, source], group.vgpr(address - 256)[:, source], np.uint32(0))
        group.set_vgpr(target, moved, group.mask)

    return run
