"""What the entry points do: devices, memory, streams, events, modules, launches, graphs."""

# ruff: noqa: N802, N815 - the names are those of the functions

from __future__ import annotations

import ctypes
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tests.fake_hip.blaslt import FakeBlasLt
from tests.fake_hip.library import Handler, install

INVALID_VALUE, OUT_OF_MEMORY, NO_DEVICE, INVALID_DEVICE, NO_BINARY = 1, 2, 100, 101, 209
INVALID_HANDLE, NOT_FOUND, ILLEGAL_ADDRESS, CAPTURE_UNSUPPORTED = 400, 500, 700, 900
_NAMES = {
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
        from tests.emulator import Memory as Ranges

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


class FakeHip:
    """A HIP runtime with devices of given architectures.

    Args:
        architectures: of each device, as its driver names it.
        load: what runs code objects: (architecture, image) to a `Code`; raises for what the device cannot run.
        memory: bytes of memory of each device.

    Attributes:
        findings: misuse so far.
        calls: names of the functions called, in order.
        launches: (device, kernel, grid, block, arguments) of the kernels executed.
        blaslt: the matrix library.
    """

    def __init__(
        self,
        architectures: Sequence[str] = ("gfx1151",),
        load: Callable[[str, bytes], Code] | None = None,
        memory: int = 1 << 28,
    ) -> None:
        self.architectures = tuple(architectures)
        self._load = load or _emulate
        self._limit = memory
        self.findings: list[str] = []
        self.calls: list[str] = []
        self.launches: list[tuple[int, str, tuple[int, ...], tuple[int, ...], bytes]] = []
        self.device = 0
        self.memories = [Memory() for _ in architectures]
        self.blocks: dict[int, Block] = {}
        self.objects: dict[int, Any] = {}
        self._default = [Stream(number) for number in range(len(architectures))]
        self._stack: list[int] = []
        self._next = 0x1000
        self.blaslt = FakeBlasLt(self)
        self._handler = Handler(self._handle)

    def install(self, library: Path) -> None:
        """Answer the calls of a library from now on."""
        install(library, self._handler)

    def check(self) -> None:
        """Fail for everything found, and for everything not given back."""
        left = [f"{len(self.blocks)} blocks of memory"] if self.blocks else []
        kinds: dict[str, int] = {}
        for value in self.objects.values():
            kinds[type(value).__name__] = kinds.get(type(value).__name__, 0) + 1
        left += [f"{count} of {kind}" for kind, count in kinds.items() if kind != "Function"]
        assert not self.findings, self.findings
        assert not left, f"not given back: {', '.join(left)}"

    @property
    def held(self) -> int:
        """Bytes of device memory taken."""
        return sum(block.array.size for block in self.blocks.values() if block.device >= 0)

    def launched(self) -> list[str]:
        """Names of the kernels executed."""
        return [entry[1] for entry in self.launches]

    # ---- dispatch
    def _handle(self, name: bytes, arguments: Any, count: int) -> int:
        text = name.decode()
        self.calls.append(text)
        owner = self.blaslt if text.startswith("hipblasLt") else self
        try:
            return int(getattr(owner, text)(*arguments[:count]) or 0)
        except Finding as finding:
            self.findings.append(str(finding))
            return finding.error
        except Exception:  # noqa: BLE001 - nothing can be raised through C
            self.findings.append(f"{text}: {traceback.format_exc()}")
            return INVALID_VALUE

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
        found: Stream = self.get(handle, Stream, what) if handle else self._default[self.device]
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

    def _not_while_capturing(self, what: str) -> None:
        if any(isinstance(value, Stream) and value.capture is not None for value in self.objects.values()):
            raise Finding(CAPTURE_UNSUPPORTED, f"{what} while a stream is captured")

    # ---- devices
    def hipInit(self, flags: int) -> int:
        return 0 if self.architectures else NO_DEVICE

    def hipGetDeviceCount(self, count: int) -> None:
        _store(ctypes.c_int32, count, len(self.architectures))

    def hipGetDevice(self, device: int) -> None:
        _store(ctypes.c_int32, device, self.device)

    def hipSetDevice(self, device: int) -> None:
        if not 0 <= device < len(self.architectures):
            raise Finding(INVALID_DEVICE, f"hipSetDevice({device})")
        self.device = device

    def hipDeviceGetAttribute(self, value: int, attribute: int, device: int) -> int:
        name = self.architectures[device]
        wave = 64 if name.startswith("gfx9") else 32
        # Numbers of HIP, then of CUDA.
        known = {87: wave, 63: 4, 74: 65536}
        if name.startswith("sm_"):
            known = {10: 32, 16: 4, 97: 232448, 75: int(name[3:-1]), 76: int(name[-1])}
        if attribute not in known:
            raise Finding(INVALID_VALUE, f"hipDeviceGetAttribute of attribute {attribute}")
        _store(ctypes.c_int32, value, known[attribute])
        return 0

    def hipGetDevicePropertiesR0600(self, properties: int, device: int) -> int:
        if not 0 <= device < len(self.architectures):
            return INVALID_DEVICE
        # Offsets of hipDeviceProp_tR0600.
        content = bytearray(1472)
        architecture = self.architectures[device].encode()
        content[0:8] = b"fake GPU"
        content[288:296] = self._limit.to_bytes(8, "little")
        content[308:312] = (64 if architecture.startswith(b"gfx9") else 32).to_bytes(4, "little")
        content[388:392] = (4).to_bytes(4, "little")
        content[1160 : 1160 + len(architecture)] = architecture
        ctypes.memmove(properties, bytes(content), len(content))
        return 0

    def hipDrvGetErrorName(self, error: int, name: int) -> int:
        if error not in _NAMES:
            return INVALID_VALUE
        _store(ctypes.c_char_p, name, _NAMES[error])
        return 0

    def hipRuntimeGetVersion(self, version: int) -> None:
        _store(ctypes.c_int32, version, 70_000_000)

    hipDriverGetVersion = hipRuntimeGetVersion

    def cuDevicePrimaryCtxRetain(self, primary: int, device: int) -> None:
        _store(ctypes.c_void_p, primary, 0x100 + device)

    def cuDevicePrimaryCtxRelease_v2(self, device: int) -> None:
        pass

    def cuCtxPushCurrent_v2(self, primary: int) -> None:
        self._stack.append(self.device)
        self.device = primary - 0x100

    def cuCtxPopCurrent_v2(self, primary: int) -> None:
        self.device = self._stack.pop()

    # ---- memory
    def _take(self, size: int, device: int) -> int:
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
        for stream in [*self._default, *(value for value in self.objects.values() if isinstance(value, Stream))]:
            if block.device in (-1, stream.device):
                self.drain(stream)
        for number, memory in enumerate(self.memories):
            if block.device in (-1, number):
                memory.ranges.remove(address)
                memory.freed.append((address, address + block.array.size))

    def hipMalloc(self, memory: int, size: int) -> int:
        self._not_while_capturing("hipMalloc")
        taken = sum(b.array.size for b in self.blocks.values() if b.device == self.device)
        if taken + size > self._limit:
            return OUT_OF_MEMORY
        _store(ctypes.c_void_p, memory, self._take(size, self.device))
        return 0

    def hipFree(self, memory: int) -> None:
        self._not_while_capturing("hipFree")
        if memory:
            self._give(memory, False, "hipFree")

    def hipHostMalloc(self, memory: int, size: int, flags: int) -> None:
        self._not_while_capturing("hipHostMalloc")
        _store(ctypes.c_void_p, memory, self._take(size, -1))

    def hipHostFree(self, memory: int) -> None:
        self._not_while_capturing("hipHostFree")
        self._give(memory, True, "hipHostFree")

    def hipHostGetDevicePointer(self, result: int, memory: int, flags: int) -> None:
        self.memories[self.device].view(memory, 1, "hipHostGetDevicePointer")
        _store(ctypes.c_void_p, result, memory)

    def hipMemGetInfo(self, free: int, total: int) -> None:
        taken = sum(b.array.size for b in self.blocks.values() if b.device == self.device)
        _store(ctypes.c_size_t, free, self._limit - taken)
        _store(ctypes.c_size_t, total, self._limit)

    def _is_pinned(self, address: int) -> bool:
        return any(b.device == -1 and a <= address < a + b.array.size for a, b in self.blocks.items())

    def _copy(self, what: str, to: int, source: int, size: int, stream: int, host_to: bool, host_from: bool) -> None:
        memory = self.memories[self.device]
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
        return self.drain(self._default[self.device])

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

    # ---- streams and events
    def hipStreamCreateWithFlags(self, stream: int, flags: int) -> None:
        _store(ctypes.c_void_p, stream, self.new(Stream(self.device)))

    def hipStreamDestroy(self, stream: int) -> None:
        self.drain(self.get(stream, Stream, "hipStreamDestroy"))
        del self.objects[stream]

    def hipStreamSynchronize(self, stream: int) -> int:
        found = self.stream(stream, "hipStreamSynchronize")
        if found.capture is not None:
            raise Finding(CAPTURE_UNSUPPORTED, "hipStreamSynchronize of a stream that is captured")
        return self.drain(found)

    def hipDeviceSynchronize(self) -> int:
        errors = [self.drain(self._default[self.device])]
        for value in list(self.objects.values()):
            if isinstance(value, Stream) and value.device == self.device:
                errors.append(self.drain(value))
        return max(errors)

    def hipEventCreateWithFlags(self, event: int, flags: int) -> None:
        _store(ctypes.c_void_p, event, self.new(Event()))

    def hipEventRecord(self, event: int, stream: int) -> None:
        found: Event = self.get(event, Event, "hipEventRecord")
        found.stream = self.stream(stream, "hipEventRecord")
        found.recorded += 1
        number = found.recorded

        def work() -> None:
            found.reached = max(found.reached, number)

        self.enqueue(stream, "hipEventRecord", work)

    def _reach(self, event: Event, number: int) -> int:
        while event.reached < number and event.stream is not None and event.stream.work:
            try:
                event.stream.work.popleft()()
            except Finding as finding:
                self.findings.append(str(finding))
                return finding.error
        return 0

    def hipEventSynchronize(self, event: int) -> int:
        self._not_while_capturing("hipEventSynchronize")
        found: Event = self.get(event, Event, "hipEventSynchronize")
        return self._reach(found, found.recorded)

    def hipStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        found: Event = self.get(event, Event, "hipStreamWaitEvent")
        number = found.recorded

        def work() -> None:
            self._reach(found, number)

        self.enqueue(stream, "hipStreamWaitEvent", work)

    def hipEventDestroy(self, event: int) -> None:
        self.get(event, Event, "hipEventDestroy")
        del self.objects[event]

    # ---- modules and launches
    def hipModuleLoadData(self, module: int, image: int) -> int:
        try:
            code = self._load(self.architectures[self.device], _image(image))
        except ValueError:
            return NO_BINARY
        _store(ctypes.c_void_p, module, self.new(Module(self.device, code)))
        return 0

    def hipModuleUnload(self, module: int) -> None:
        found = self.get(module, Module, "hipModuleUnload")
        gone = [h for h, v in self.objects.items() if v is found or (isinstance(v, Function) and v.module is found)]
        for handle in gone:
            del self.objects[handle]

    def hipModuleGetFunction(self, function: int, module: int, name: int) -> int:
        found = self.get(module, Module, "hipModuleGetFunction")
        text = ctypes.string_at(name).decode()
        if text not in found.code.kernels:
            return NOT_FOUND
        _store(ctypes.c_void_p, function, self.new(Function(found, text)))
        return 0

    def cuFuncGetParamInfo(self, function: int, index: int, offset: int, size: int) -> int:
        explicit = self._explicit(self.get(function, Function, "cuFuncGetParamInfo"))
        if index >= len(explicit):
            return INVALID_VALUE
        _store(ctypes.c_size_t, offset, explicit[index].offset)
        _store(ctypes.c_size_t, size, explicit[index].size)
        return 0

    def cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> None:
        self.get(function, Function, "cuFuncSetAttribute")

    @staticmethod
    def _explicit(function: Function) -> list[Any]:
        arguments = function.module.code.kernels[function.name].arguments
        return [argument for argument in arguments if not argument.kind.startswith("hidden_")]

    def hipModuleLaunchKernel(self, function: int, *rest: int) -> None:
        grid, block, (lds, stream, parameters, extra) = rest[:3], rest[3:6], rest[6:]
        found: Function = self.get(function, Function, "hipModuleLaunchKernel")
        what = f"launch of {found.name}"
        if found.module.device != self.device:
            raise Finding(INVALID_HANDLE, f"{what}: loaded on device {found.module.device}, not {self.device}")
        if parameters or not extra:
            raise Finding(INVALID_VALUE, f"{what}: the arguments are not packed")
        words = (ctypes.c_uint64 * 5).from_address(extra)
        end = 0 if self.architectures[self.device].startswith("sm_") else 3
        if (words[0], words[2], words[4]) != (1, 2, end):
            raise Finding(INVALID_VALUE, f"{what}: the words of its extra array are wrong")
        arguments = ctypes.string_at(words[1], ctypes.c_size_t.from_address(words[3]).value)
        explicit = self._explicit(found)
        wanted = max((argument.offset + argument.size for argument in explicit), default=0)
        if len(arguments) != wanted:
            raise Finding(INVALID_VALUE, f"{what}: {len(arguments)} bytes of arguments, it takes {wanted}")
        threads = block[0] * block[1] * block[2]
        if not all(grid) or not 0 < threads <= 1024 or any(g * b >= 2**32 for g, b in zip(grid, block, strict=True)):
            raise Finding(INVALID_VALUE, f"{what}: grid {grid}, block {block}")
        device, memory = self.device, self.memories[self.device]

        def work() -> None:
            self.launches.append((device, found.name, grid, block, arguments))
            try:
                found.module.code.launch(found.name, grid, block, arguments, memory.ranges, lds)
            except Finding:
                raise
            except Exception as error:
                raise Finding(ILLEGAL_ADDRESS, f"{what}: {error}") from error

        self.enqueue(stream, what, work)

    # ---- graphs
    def hipStreamBeginCapture(self, stream: int, mode: int) -> None:
        if not stream:
            raise Finding(CAPTURE_UNSUPPORTED, "capture of the default stream")
        self.stream(stream, "hipStreamBeginCapture").capture = []

    def hipStreamEndCapture(self, stream: int, graph: int) -> None:
        found = self.stream(stream, "hipStreamEndCapture")
        if found.capture is None:
            raise Finding(INVALID_VALUE, "hipStreamEndCapture of a stream that is not captured")
        _store(ctypes.c_void_p, graph, self.new(Graph(found.capture)))
        found.capture = None

    def hipGraphInstantiateWithFlags(self, exec_: int, graph: int, flags: int) -> None:
        found = self.get(graph, Graph, "hipGraphInstantiateWithFlags")
        _store(ctypes.c_void_p, exec_, self.new(GraphExec(list(found.work))))

    def hipGraphLaunch(self, exec_: int, stream: int) -> None:
        found = self.get(exec_, GraphExec, "hipGraphLaunch")

        def work() -> None:
            for each in found.work:
                each()

        self.enqueue(stream, "hipGraphLaunch", work)

    def hipGraphDestroy(self, graph: int) -> None:
        self.get(graph, Graph, "hipGraphDestroy")
        del self.objects[graph]

    def hipGraphExecDestroy(self, exec_: int) -> None:
        self.get(exec_, GraphExec, "hipGraphExecDestroy")
        del self.objects[exec_]


@dataclass
class Graph:
    work: list[Callable[[], None]]


@dataclass
class GraphExec:
    work: list[Callable[[], None]]


def _store(kind: Any, address: int, value: Any) -> None:
    kind.from_address(address).value = value


def _image(address: int) -> bytes:
    """A code object, whose ELF header says how long it is, or PTX up to its NUL."""
    if ctypes.string_at(address, 4) != b"\x7fELF":
        return ctypes.string_at(address)
    sections = int.from_bytes(ctypes.string_at(address + 40, 8), "little")
    size, count = (int.from_bytes(ctypes.string_at(address + at, 2), "little") for at in (58, 60))
    return ctypes.string_at(address, sections + size * count)


def _emulate(architecture: str, image: bytes) -> Code:
    from tests.emulator import Device, EmulationError

    try:
        return Device(architecture.partition(":")[0]).load(image)
    except EmulationError as error:
        raise ValueError(str(error)) from error
