"""Access to global memory: scalar loads, vector loads and stores, atomics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.emulator.numeric import Array
from tests.emulator.state import NULL, EmulationError, Group

SIZES = {
    "B8": 1, "BYTE": 1, "UBYTE": 1, "SBYTE": 1, "U8": 1, "I8": 1,
    "B16": 2, "SHORT": 2, "USHORT": 2, "SSHORT": 2, "U16": 2, "I16": 2,
    "B32": 4, "DWORD": 4, "B64": 8, "DWORDX2": 8, "B96": 12, "DWORDX3": 12, "B128": 16, "DWORDX4": 16,
}  # fmt: skip
_SIGNED = ("I8", "SBYTE", "I16", "SSHORT")
_SCALAR_WORDS = {"B32": 1, "DWORD": 1, "B64": 2, "DWORDX2": 2, "B96": 3, "B128": 4, "DWORDX4": 4, "B256": 8,
                 "DWORDX8": 8, "B512": 16, "DWORDX16": 16}  # fmt: skip
Gather = Callable[[Array, int], Array]
Scatter = Callable[[Array, Array], None]


def signed(value: int, bits: int) -> int:
    """A field of an instruction as a signed number."""
    return (value ^ (1 << (bits - 1))) - (1 << (bits - 1))


def cache_control(word: Any, name: str, family: str) -> Callable[[Group], Any] | None:
    """Buffer instructions: only those that write caches back or invalidate them."""
    if "INV" in name or "WB" in name:
        return None
    raise EmulationError(f"{name} is not modelled")


def scalar_load(word: Any, name: str, family: str) -> Callable[[Group], Any] | None:
    """SMEM: consecutive words for a wave."""
    parts = name.split("_")
    if parts[1] != "LOAD":
        if "INV" in name or "WB" in name or "PREFETCH" in name:
            return None
        raise EmulationError(f"{name} is not modelled")
    target, base = word.sdata.offset, word.sbase.offset
    small = parts[2] in ("U8", "I8", "U16", "I16")
    words = 1 if small else _SCALAR_WORDS[parts[2]]
    offset = signed(word.offset, 21) if hasattr(word, "offset") else signed(word.ioffset, 24)
    register: int | None = word.soffset.offset
    if family == "cdna":
        offset = offset if word.imm else 0
        register = register if word.soffset_en else None
    elif register == NULL:
        register = None

    def run(group: Group) -> None:
        address = group.scalar(base, 64) + np.uint64(offset & 0xFFFFFFFFFFFFFFFF)
        if register is not None:
            address = address + group.scalar(register).astype(np.uint64)
        if small:
            size = SIZES[parts[2]]
            raw = group.waves.memory.gather(address, size)
            dtype = {"U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16}[parts[2]]
            value = np.ascontiguousarray(raw).view(dtype)[:, 0].astype(np.int32).view(np.uint32)
            group.set_scalar(target, value)
            return
        address = address & np.uint64(0xFFFFFFFFFFFFFFFC)
        if (address == address[0]).all():
            data = np.frombuffer(group.waves.memory.read(int(address[0]), 4 * words), np.uint32)[None]
        else:
            data = np.ascontiguousarray(group.waves.memory.gather(address, 4 * words)).view(np.uint32)
        for number in range(words):
            group.set_scalar(target + number, data[:, number])

    return run


def global_access(word: Any, name: str, family: str) -> Callable[[Group], Any] | None:
    """GLOBAL and FLAT instructions; FLAT addresses must be global ones."""
    if "INV" in name or "WB" in name:
        return None
    offset = signed(word.ioffset, 24) if hasattr(word, "ioffset") else signed(word.offset, 13)
    base: int | None = word.saddr.offset
    if base in ((NULL, 127) if family != "cdna" else (127,)):
        base = None
    address_operand = (word.vaddr if hasattr(word, "vaddr") else word.addr).offset
    target = word.vdst.offset - 256
    data = (word.vsrc if hasattr(word, "vsrc") else word.data).offset - 256
    if getattr(word, "acc", 0):
        target, data = target + 256, data + 256
    returns = bool(getattr(word, "glc", 0) or getattr(word, "sc0", 0) or getattr(word, "th", 0) & 1)
    access = Access(name.split("_"), target, data, returns)

    def run(group: Group) -> None:
        if base is None:
            address = group.vector(address_operand, 64)
        else:
            address = group.scalar(base, 64)[:, None] + group.vector(address_operand).astype(np.uint64)
        address = address + np.uint64(offset & 0xFFFFFFFFFFFFFFFF)
        access.run(group, address, group.waves.memory.gather, group.waves.memory.scatter)

    return run


class Access:
    """What a load, store or atomic does, apart from where its addresses come from.

    Args:
        words: the name of the instruction, split at underscores; the second says what it does.
        target: register that is loaded.
        data: register that is stored.
        returns: whether an atomic gives the old value back.
    """

    def __init__(self, words: list[str], target: int, data: int, returns: bool) -> None:
        self.name = "_".join(words)
        self.verb = words[1]
        self.operation = "_".join(words[2:])
        self.target = target
        self.data = data
        self.returns = returns
        self.half = "D16" in words
        self.high = "HI" in words
        types = [word for word in words[2:] if word in SIZES]
        self.type = types[-1] if types else "B32"
        self.size = SIZES[self.type]
        if self.verb == "ATOMIC":
            self.wide = self.type in ("B64", "U64", "I64") or self.operation.endswith(("X2", "64"))
        elif self.verb not in ("LOAD", "READ", "STORE", "WRITE"):
            raise EmulationError(f"{self.name} is not modelled")

    def run(self, group: Group, address: Array, gather: Gather, scatter: Scatter) -> None:
        """Execute for the active lanes of addresses [n, lanes]."""
        mask = group.mask
        address = np.broadcast_to(address, (group.n, group.waves.lanes))
        if mask is not None and not mask.any():
            return
        chosen = address.reshape(-1) if mask is None else address[mask]
        if self.verb in ("LOAD", "READ"):
            self._load(group, gather(chosen, self.size), mask)
        elif self.verb in ("STORE", "WRITE"):
            scatter(chosen, self._stored(group, mask))
        else:
            self._atomic(group, chosen, mask, gather, scatter)

    def _load(self, group: Group, data: Array, mask: Any) -> None:
        data = np.ascontiguousarray(data)
        if self.size < 4:
            dtype = {1: (np.uint8, np.int8), 2: (np.uint16, np.int16)}[self.size][self.type in _SIGNED]
            self._set(group, self.target, data.view(dtype)[:, 0].astype(np.int32).view(np.uint32), mask, self.half)
            return
        words = data.view(np.uint32)
        for number in range(self.size // 4):
            self._set(group, self.target + number, words[:, number], mask, False)

    def _set(self, group: Group, register: int, values: Array, mask: Any, half: bool) -> None:
        full = np.zeros((group.n, group.waves.lanes), np.uint32) if mask is not None else values.reshape(group.n, -1)
        if mask is not None:
            full[mask] = values
        if half:
            group.set_vector(register + 256, full, 16, mask, self.high)
        else:
            group.set_vgpr(register, full, mask)

    def _register(self, group: Group, register: int, mask: Any) -> Array:
        value = group.vgpr(register)
        return value.reshape(-1) if mask is None else value[mask]

    def _stored(self, group: Group, mask: Any) -> Array:
        words = [self._register(group, self.data + number, mask) for number in range(max(1, self.size // 4))]
        data = np.ascontiguousarray(np.stack(words, axis=1)).view(np.uint8)
        return data[:, 2 : 2 + self.size] if self.high else data[:, : self.size]

    def _atomic(self, group: Group, address: Array, mask: Any, gather: Gather, scatter: Scatter) -> None:
        size = 8 if self.wide else 4
        dtype: Any = np.uint64 if self.wide else np.uint32
        step = size // 4

        def operand(register: int) -> Array:
            low = self._register(group, register, mask)
            if not self.wide:
                return low
            return low.astype(np.uint64) | (
                self._register(group, register + 1, mask).astype(np.uint64) << np.uint64(32)
            )

        value = operand(self.data)
        # CMPSWAP: the new value comes first in global memory, the expected one after it.
        expected = operand(self.data + step) if self.operation.startswith("CMPSWAP") else value
        old = np.empty(len(address), dtype)
        for lane in range(len(address)):
            where = address[lane : lane + 1]
            before = np.ascontiguousarray(gather(where, size)).view(dtype)[0, 0]
            old[lane] = before
            after = atomic(self.operation, before, value[lane], expected[lane])
            scatter(where, np.array([[after]], dtype).view(np.uint8))
        if self.returns:
            words = old.view(np.uint32).reshape(len(address), step)
            for number in range(step):
                self._set(group, self.target + number, words[:, number], mask, False)


def atomic(operation: str, old: Any, value: Any, expected: Any) -> Any:
    """What an atomic stores."""
    name = operation.replace("RTN_", "").replace("_RTN", "").removesuffix("_X2")
    signed_type: Any = np.int64 if old.dtype == np.uint64 else np.int32
    if name in ("ADD", "ADD_U32", "ADD_U64"):
        return old + value
    if name in ("SUB", "SUB_U32", "SUB_U64"):
        return old - value
    if name == "ADD_F32":
        return (old.view(np.float32) + value.view(np.float32)).view(np.uint32)
    if name in ("SWAP", "SWAP_B32", "SWAP_B64"):
        return value
    if name in ("CMPSWAP", "CMPSWAP_B32", "CMPSWAP_B64"):
        return value if old == expected else old
    if name in ("UMAX", "MAX_U32", "MAX_U64"):
        return max(old, value)
    if name in ("UMIN", "MIN_U32", "MIN_U64"):
        return min(old, value)
    if name in ("SMAX", "MAX_I32", "MAX_I64"):
        return max(old.view(signed_type), value.view(signed_type)).view(old.dtype)
    if name in ("SMIN", "MIN_I32", "MIN_I64"):
        return min(old.view(signed_type), value.view(signed_type)).view(old.dtype)
    if name in ("AND", "AND_B32"):
        return old & value
    if name in ("OR", "OR_B32"):
        return old | value
    raise EmulationError(f"atomic {operation} is not modelled")
