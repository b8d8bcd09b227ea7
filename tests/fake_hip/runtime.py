"""The fake HIP runtime: its devices, and how calls reach the functions."""

# ruff: noqa: N802, N815 - the names are those of the functions

from __future__ import annotations

import ctypes
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.emulator import Device, EmulationError
from tests.fake_hip.blaslt import FakeBlasLt
from tests.fake_hip.library import Handler, install
from tests.fake_hip.memory import MemoryCalls
from tests.fake_hip.modules import ModuleCalls
from tests.fake_hip.state import ERROR_NAMES, INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, Code, Finding, store
from tests.fake_hip.streams import StreamCalls


class FakeHip(MemoryCalls, StreamCalls, ModuleCalls):
    """A HIP runtime with devices of given architectures.

    Args:
        architectures: of each device, as its driver names it.
        load: what runs code objects: (architecture, image) to a `Code`; raises for what the device cannot run.
        memory: bytes of memory of each device.

    Attributes:
        findings: misuse so far.
        calls: names of the functions called, in order.
        copies: (function, bytes) of the copies asked for.
        launches: (device, kernel, grid, block, arguments) of the kernels executed.
        blaslt: the matrix library.
    """

    def __init__(
        self,
        architectures: Sequence[str] = ("gfx1151",),
        load: Callable[[str, bytes], Code] | None = None,
        memory: int = 1 << 28,
    ) -> None:
        super().__init__(architectures, memory)
        self.load = load or _emulate
        self.calls: list[str] = []
        self._stack: list[int] = []
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

    def hipInit(self, flags: int) -> int:
        return 0 if self.architectures else NO_DEVICE

    def hipGetDeviceCount(self, count: int) -> None:
        store(ctypes.c_int32, count, len(self.architectures))

    def hipGetDevice(self, device: int) -> None:
        store(ctypes.c_int32, device, self.device)

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
        store(ctypes.c_int32, value, known[attribute])
        return 0

    def hipGetDevicePropertiesR0600(self, properties: int, device: int) -> int:
        if not 0 <= device < len(self.architectures):
            return INVALID_DEVICE
        # Offsets of hipDeviceProp_tR0600.
        content = bytearray(1472)
        architecture = self.architectures[device].encode()
        content[0:8] = b"fake GPU"
        content[288:296] = self.limit.to_bytes(8, "little")
        content[308:312] = (64 if architecture.startswith(b"gfx9") else 32).to_bytes(4, "little")
        content[388:392] = (4).to_bytes(4, "little")
        content[1160 : 1160 + len(architecture)] = architecture
        ctypes.memmove(properties, bytes(content), len(content))
        return 0

    def hipDrvGetErrorName(self, error: int, name: int) -> int:
        if error not in ERROR_NAMES:
            return INVALID_VALUE
        store(ctypes.c_char_p, name, ERROR_NAMES[error])
        return 0

    def hipRuntimeGetVersion(self, version: int) -> None:
        store(ctypes.c_int32, version, 70_000_000)

    hipDriverGetVersion = hipRuntimeGetVersion

    def cuDeviceGetName(self, name: int, count: int, device: int) -> None:
        ctypes.memmove(name, b"fake GPU\0", min(count, 9))

    def cuDevicePrimaryCtxRetain(self, primary: int, device: int) -> None:
        store(ctypes.c_void_p, primary, 0x100 + device)

    def cuDevicePrimaryCtxRelease_v2(self, device: int) -> None:
        pass

    def cuCtxPushCurrent_v2(self, primary: int) -> None:
        self._stack.append(self.device)
        self.device = primary - 0x100

    def cuCtxPopCurrent_v2(self, primary: int) -> None:
        self.device = self._stack.pop()


def _emulate(architecture: str, image: bytes) -> Code:
    try:
        return Device(architecture.partition(":")[0]).load(image)
    except EmulationError as error:
        raise ValueError(str(error)) from error
