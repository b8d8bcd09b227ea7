"""Memory of the emulated device: ranges of real process memory that are lent to it, and the LDS of workgroups."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Protocol

import numpy as np

Bytes = Any  # numpy uint8 array


class OutOfBounds(Exception):  # noqa: N818 - a finding, named as it is reported
    """An access outside the memory that a kernel may touch; the launch adds the kernel's name."""


class DeviceMemory(Protocol):
    """What a launch needs of memory. Addresses are uint64; a row of `data` is one access."""

    def read(self, address: int, size: int) -> bytes: ...
    def write(self, address: int, data: bytes) -> None: ...
    def gather(self, addresses: Any, size: int) -> Any: ...
    def scatter(self, addresses: Any, data: Any) -> None: ...


class _Range:
    def __init__(self, start: int, view: Bytes, writable: bool) -> None:
        self.start = start
        self.end = start + view.size
        self.view = view
        self.writable = writable
        # Wider views make an aligned access one element: most are.
        self.views = {1: view}
        for size, dtype in ((2, np.uint16), (4, np.uint32), (8, np.uint64), (16, np.complex128)):
            if start % size == 0:
                self.views[size] = view[: view.size // size * size].view(dtype)


class Memory:
    """Ranges of memory by address; any access that is not inside one of them raises `OutOfBounds`."""

    def __init__(self, parent: Memory | None = None) -> None:
        self._starts: list[int] = []
        self._ranges: list[_Range] = []
        self._parent = parent

    def add(self, view: Bytes, address: int | None = None, writable: bool = True) -> int:
        """Lend a contiguous numpy array; its address is that of its data when none is given."""
        if not view.flags.c_contiguous:
            raise ValueError("the array is not contiguous")
        flat = view.reshape(-1).view(np.uint8)
        start = int(flat.__array_interface__["data"][0]) if address is None else address
        at = bisect_right(self._starts, start)
        before = self._ranges[at - 1] if at else None
        after = self._ranges[at] if at < len(self._ranges) else None
        if (before and before.end > start) or (after and start + flat.size > after.start):
            raise ValueError(f"the range at {start:#x} overlaps another")
        self._starts.insert(at, start)
        self._ranges.insert(at, _Range(start, flat, writable))
        return start

    def remove(self, address: int) -> None:
        """Take back the range that begins at an address."""
        at = self._starts.index(address)
        del self._starts[at], self._ranges[at]

    def _find(self, address: int, size: int, verb: str) -> _Range:
        at = bisect_right(self._starts, address) - 1
        if at >= 0 and address + size <= self._ranges[at].end:
            found = self._ranges[at]
            if verb == "write" and not found.writable:
                raise OutOfBounds(f"write of {size} bytes at {address:#x}, which is read-only")
            return found
        if self._parent is not None:
            return self._parent._find(address, size, verb)
        raise OutOfBounds(f"{verb} of {size} bytes at {address:#x}{self._near(address)}")

    def _near(self, address: int) -> str:
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return ", below all memory"
        found = self._ranges[at]
        return f", {address - found.start} bytes into a range of {found.end - found.start} bytes"

    def read(self, address: int, size: int) -> bytes:
        """Bytes at an address."""
        found = self._find(address, size, "read")
        return found.view[address - found.start :][:size].tobytes()

    def write(self, address: int, data: bytes) -> None:
        """Store bytes at an address."""
        found = self._find(address, len(data), "write")
        found.view[address - found.start :][: len(data)] = np.frombuffer(data, np.uint8)

    def gather(self, addresses: Any, size: int) -> Any:
        """uint64 [n] -> uint8 [n, size]."""
        found = self._find(int(addresses[0]), size, "read")
        inside = (addresses >= np.uint64(found.start)) & (addresses <= np.uint64(found.end - size))
        if inside.all():
            return _gather(found, addresses - np.uint64(found.start), size)
        result = np.empty((len(addresses), size), np.uint8)
        result[inside] = _gather(found, addresses[inside] - np.uint64(found.start), size)
        result[~inside] = self.gather(addresses[~inside], size)
        return result

    def scatter(self, addresses: Any, data: Any) -> None:
        """Store uint8 [n, size] at uint64 [n]; of two lanes with one address the later one wins."""
        size = data.shape[1]
        found = self._find(int(addresses[0]), size, "write")
        inside = (addresses >= np.uint64(found.start)) & (addresses <= np.uint64(found.end - size))
        if inside.all():
            _scatter(found, addresses - np.uint64(found.start), data)
            return
        _scatter(found, addresses[inside] - np.uint64(found.start), data[inside])
        self.scatter(addresses[~inside], data[~inside])


def _gather(found: _Range, offsets: Any, size: int) -> Any:
    view = found.views.get(size)
    if view is not None and not (offsets & np.uint64(size - 1)).any():
        return view[(offsets // np.uint64(size)).astype(np.int64)][:, None].view(np.uint8)
    return found.view[offsets.astype(np.int64)[:, None] + np.arange(size)]


def _scatter(found: _Range, offsets: Any, data: Any) -> None:
    size = data.shape[1]
    view = found.views.get(size)
    if view is not None and not (offsets & np.uint64(size - 1)).any():
        view[(offsets // np.uint64(size)).astype(np.int64)] = np.ascontiguousarray(data).view(view.dtype)[:, 0]
        return
    found.view[offsets.astype(np.int64)[:, None] + np.arange(size)] = data


# As float32, float16 and bfloat16 alike a NaN: what is read before it is written shows.
POISON = 0x7FC07FC0


class LocalMemory:
    """LDS of several workgroups; the addresses of a workgroup begin at 0."""

    def __init__(self, workgroups: int, size: int) -> None:
        self.size = size
        stride = (size + 15) // 16 * 16
        self.stride = stride
        words = np.full(workgroups * stride // 4, POISON, np.uint32)
        self._range = _Range(0, words.view(np.uint8), True) if workgroups * stride else None

    def _offsets(self, workgroup: Any, addresses: Any, size: int) -> Any:
        outside = addresses + np.uint64(size) > np.uint64(self.size)
        if outside.any() or self._range is None:
            raise OutOfBounds(f"LDS access of {size} bytes at {int(addresses[outside.argmax()])} of {self.size} bytes")
        return addresses + workgroup * np.uint64(self.stride)

    def gather(self, workgroup: Any, addresses: Any, size: int) -> Any:
        """uint64 [n] workgroup numbers and addresses -> uint8 [n, size]."""
        offsets = self._offsets(workgroup, addresses, size)
        assert self._range is not None
        return _gather(self._range, offsets, size)

    def scatter(self, workgroup: Any, addresses: Any, data: Any) -> None:
        """Store uint8 [n, size]."""
        offsets = self._offsets(workgroup, addresses, data.shape[1])
        assert self._range is not None
        _scatter(self._range, offsets, data)
