"""Books of the fake runtime: what exists, who owns it, and the work that streams still have to do."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tests.emulator import Memory as Ranges

INVALID_VALUE, OUT_OF_MEMORY, NO_DEVICE, INVALID_DEVICE, NO_BINARY = 1, 2, 100, 101, 209
INVALID_HANDLE, NOT_FOUND, ILLEGAL_ADDRESS, CAPTURE_UNSUPPORTED = 400, 500, 700, 900
ERROR_NAMES = {
    INVALID_VALUE: b"hipErrorInvalidValue",
    OUT_OF_MEMORY: b"hipErrorOutOfMemory",
    NO_DEVICE: b"hipErrorNoDevice",
    INVALID_DEVICE: b"hipErrorInvalidDevice",
    NO_BINARY: b"hipErrorNoBinaryForGpu",
    INVALID_HANDLE: b"hipErrorInvalidHandle",
    NOT_FOUND: b"hipErrorNotFound",
    ILLEGAL_ADDRESS: b"hipErrorIllegalAddress",
    CAPTURE_UNSUPPORTED: b"hipErrorStreamCaptureUnsupported",
}
POISON = 0xCD
PAGE = 4096


class Finding(Exception):  # noqa: N818 - what it is called in reports
    """A misuse: the call returns the error, and the test fails in the end."""

    def __init__(self, error: int, text: str) -> None:
        super().__init__(text)
        self.error = error


class Code(Protocol):
    """A loaded code object, as the emulator's `Module` is."""

    kernels: Mapping[str, Any]

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        kernarg: bytes,
        memory: Any,
        dynamic_lds: int = ...,
    ) -> Any: ...


@dataclass
class Block:
    """Memory that a caller took. `device` is -1 for pinned memory of the host."""

    array: np.ndarray
    device: int


@dataclass
class Stream:
    device: int
    work: deque[Callable[[], None]] = field(default_factory=deque)
    capture: list[Callable[[], None]] | None = None


@dataclass
class Event:
    stream: Stream | None = None
    recorded: int = 0
    reached: int = 0


@dataclass
class Module:
    device: int
    code: Code


@dataclass
class Function:
    module: Module
    name: str


class Memory:
    """Memory of one device and pinned memory, by address, for copies and for kernels."""

    def __init__(self) -> None:
        self.ranges = Ranges()
        self.freed: list[tuple[int, int]] = []

    def view(self, address: int, size: int, what: str) -> np.ndarray:
        """Bytes at an address.

        Raises:
            Finding: they are not all inside one block.
        """
        for start, end in self.freed:
            if start <= address < end:
                raise Finding(ILLEGAL_ADDRESS, f"{what}: use after free of {address:#x}")
        try:
            self.ranges.read(address, size)
        except Exception as error:
            raise Finding(ILLEGAL_ADDRESS, f"{what}: {error}") from error
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


@dataclass
class Graph:
    work: list[Callable[[], None]]


@dataclass
class GraphExec:
    work: list[Callable[[], None]]


def store(kind: Any, address: int, value: Any) -> None:
    """Write a number through a pointer."""
    kind.from_address(address).value = value


class Books:
    """State of a runtime with devices of given architectures."""

    def __init__(self, architectures: Sequence[str], memory: int) -> None:
        self.architectures = tuple(architectures)
        self.limit = memory
        self.findings: list[str] = []
        self.launches: list[tuple[int, str, tuple[int, ...], tuple[int, ...], bytes]] = []
        self.copies: list[tuple[str, int]] = []
        self.device = 0
        self.memories = [Memory() for _ in architectures]
        self.blocks: dict[int, Block] = {}
        self.objects: dict[int, Any] = {}
        self.default_streams = [Stream(number) for number in range(len(architectures))]
        self._next = 0x1000

    def new(self, value: Any) -> int:
        """A handle of an object."""
        self._next += 16
        self.objects[self._next] = value
        return self._next

    def get(self, handle: int, kind: type[Any], what: str) -> Any:
        """The object of a handle.

        Raises:
            Finding: it was destroyed, or never made.
        """
        value = self.objects.get(handle)
        if not isinstance(value, kind):
            raise Finding(INVALID_HANDLE, f"{what}: {handle:#x} is no {kind.__name__}, or was destroyed")
        return value

    def stream(self, handle: int, what: str) -> Stream:
        found: Stream = self.get(handle, Stream, what) if handle else self.default_streams[self.device]
        if found.device != self.device:
            raise Finding(INVALID_HANDLE, f"{what}: a stream of device {found.device} while {self.device} is current")
        return found

    def enqueue(self, handle: int, what: str, work: Callable[[], None]) -> None:
        """Work of a stream, or of the graph that it is captured for."""
        stream = self.stream(handle, what)
        if stream.capture is not None:
            stream.capture.append(work)
        else:
            stream.work.append(work)

    def drain(self, stream: Stream) -> int:
        """Do all the work of a stream; an error of the last of it that failed."""
        error = 0
        while stream.work:
            try:
                stream.work.popleft()()
            except Finding as finding:
                self.findings.append(str(finding))
                error = finding.error
        return error

    def not_while_capturing(self, what: str) -> None:
        if any(isinstance(value, Stream) and value.capture is not None for value in self.objects.values()):
            raise Finding(CAPTURE_UNSUPPORTED, f"{what} while a stream is captured")
