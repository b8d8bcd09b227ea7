"""Memory of devices and of the host: taking, giving back, copies, fills."""

# ruff: noqa: N802 - the names are those of the functions

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tests.fake_hip.state import (
    CAPTURE_UNSUPPORTED,
    INVALID_VALUE,
    OUT_OF_MEMORY,
    PAGE,
    POISON,
    Block,
    Books,
    Finding,
    Stream,
    store,
)


class MemoryCalls(Books):
    """Functions on memory."""

    def take(self, size: int, device: int) -> int:
        room = np.full(size + 2 * PAGE, POISON, np.uint8)
        start = PAGE - room.__array_interface__["data"][0] % PAGE
        block = room[start : start + size]
        address = int(block.__array_interface__["data"][0])
        self.blocks[address] = Block(block, device)
        for number, memory in enumerate(self.memories):
            if device in (-1, number):
                memory.ranges.add(block)
                memory.freed = [(a, b) for a, b in memory.freed if b <= address or a >= address + size]
        return address

    def _give(self, address: int, pinned: bool, what: str) -> None:
        block = self.blocks.get(address)
        if block is None or (block.device == -1) != pinned:
            raise Finding(INVALID_VALUE, f"{what}: {address:#x} is not allocated, or was freed before")
        del self.blocks[address]
        # Freeing waits for the device.
        for stream in [*self.default_streams, *(value for value in self.objects.values() if isinstance(value, Stream))]:
            if block.device in (-1, stream.device):
                self.drain(stream)
        for number, memory in enumerate(self.memories):
            if block.device in (-1, number):
                memory.ranges.remove(address)
                memory.freed.append((address, address + block.array.size))

    def hipMalloc(self, memory: int, size: int) -> int:
        self.not_while_capturing("hipMalloc")
        taken = sum(b.array.size for b in self.blocks.values() if b.device == self.device)
        if taken + size > self.limit:
            return OUT_OF_MEMORY
        store(ctypes.c_void_p, memory, self.take(size, self.device))
        return 0

    def hipFree(self, memory: int) -> None:
        self.not_while_capturing("hipFree")
        if memory:
            self._give(memory, False, "hipFree")

    def hipHostMalloc(self, memory: int, size: int, flags: int) -> None:
        self.not_while_capturing("hipHostMalloc")
        store(ctypes.c_void_p, memory, self.take(size, -1))

    def hipHostFree(self, memory: int) -> None:
        self.not_while_capturing("hipHostFree")
        self._give(memory, True, "hipHostFree")

    def hipHostGetDevicePointer(self, result: int, memory: int, flags: int) -> None:
        self.memories[self.device].view(memory, 1, "hipHostGetDevicePointer")
        store(ctypes.c_void_p, result, memory)

    def hipMemGetInfo(self, free: int, total: int) -> None:
        taken = sum(b.array.size for b in self.blocks.values() if b.device == self.device)
        store(ctypes.c_size_t, free, self.limit - taken)
        store(ctypes.c_size_t, total, self.limit)

    def _is_pinned(self, address: int) -> bool:
        return any(b.device == -1 and a <= address < a + b.array.size for a, b in self.blocks.items())

    def _copy(self, what: str, to: int, source: int, size: int, stream: int, host_to: bool, host_from: bool) -> None:
        memory = self.memories[self.device]
        self.copies.append((what, size))
        early = None
        if host_from and not self._is_pinned(source):
            # The driver takes a copy of memory that is not pinned before it returns.
            if self.stream(stream, what).capture is not None:
                raise Finding(CAPTURE_UNSUPPORTED, f"{what} from memory that is not pinned, in a graph")
            early = ctypes.string_at(source, size)

        def work() -> None:
            data = early if early is not None else memory.view(source, size, what).tobytes()
            if host_to and not self._is_pinned(to):
                ctypes.memmove(to, data, size)
            else:
                memory.view(to, size, what)[:] = np.frombuffer(data, np.uint8)

        if not host_to:
            memory.view(to, size, what)
        if not host_from:
            memory.view(source, size, what)
        self.enqueue(stream, what, work)

    def hipMemcpyHtoDAsync(self, to: int, source: int, size: int, stream: int) -> None:
        self._copy("hipMemcpyHtoDAsync", to, source, size, stream, False, True)

    def hipMemcpyDtoHAsync(self, to: int, source: int, size: int, stream: int) -> None:
        self._copy("hipMemcpyDtoHAsync", to, source, size, stream, True, False)

    def hipMemcpyDtoDAsync(self, to: int, source: int, size: int, stream: int) -> None:
        self._copy("hipMemcpyDtoDAsync", to, source, size, stream, False, False)

    def hipMemcpyAsync(self, to: int, source: int, size: int, kind: int, stream: int) -> None:
        self._copy("hipMemcpyAsync", to, source, size, stream, kind in (0, 2), kind in (0, 1))

    def hipMemcpy(self, to: int, source: int, size: int, kind: int) -> int:
        self._copy("hipMemcpy", to, source, size, 0, kind in (0, 2), kind in (0, 1))
        return self.drain(self.default_streams[self.device])

    def _fill(self, to: int, value: int, count: int, stream: int, dtype: type[Any]) -> None:
        memory = self.memories[self.device]
        size = count * np.dtype(dtype).itemsize
        memory.view(to, size, "a memset")
        pattern = np.array([value & (256 ** np.dtype(dtype).itemsize - 1)], dtype)

        def work() -> None:
            memory.view(to, size, "a memset").view(dtype)[:] = pattern

        self.enqueue(stream, "a memset", work)

    def hipMemsetD8Async(self, to: int, value: int, count: int, stream: int) -> None:
        self._fill(to, value, count, stream, np.uint8)

    def hipMemsetD16Async(self, to: int, value: int, count: int, stream: int) -> None:
        self._fill(to, value, count, stream, np.uint16)

    def hipMemsetD32Async(self, to: int, value: int, count: int, stream: int) -> None:
        self._fill(to, value, count, stream, np.uint32)
