"""The GPUs of this machine through HIP's Python bindings: what they are, memory, streams.

The package `hip-python` is imported when something here is first used, and nowhere else.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime.device_array import ROCM, ROCM_HOST, DeviceArray

_NON_BLOCKING = 1


@dataclass(frozen=True)
class DeviceInfo:
    """A GPU.

    Attributes:
        number: what sessions call it.
        architecture: for example ``gfx1151``, without features.
        memory: bytes of its memory.
        wave: lanes of a wave.
    """

    number: int
    name: str
    architecture: str
    memory: int
    compute_units: int
    wave: int


@cache
def _hip() -> Any:
    try:
        from hip import hip
    except ImportError as error:
        raise HipCompilerError(
            ErrorCode.RUN_FAILED,
            "HIP's Python bindings are not installed",
            why=str(error),
            hint="pip install hip-python",
        ) from error
    return hip


def _call(function: str, *arguments: Any) -> Any:
    """Result of a HIP function, or the tuple of them.

    Raises:
        HipCompilerError: `HIPC0701`, when the library is missing, or the function fails.
    """
    hip = _hip()
    try:
        status, *results = getattr(hip, function)(*arguments)
    except RuntimeError as error:
        raise HipCompilerError(
            ErrorCode.RUN_FAILED,
            "the HIP runtime cannot be loaded",
            why=str(error),
            hint="install ROCm, or set ROCM_PATH to its folder",
        ) from error
    if status != hip.hipError_t.hipSuccess:
        raise HipCompilerError(ErrorCode.RUN_FAILED, f"{function} failed: {hip.hipError_t(status).name}")
    return results[0] if len(results) == 1 else tuple(results)


def devices() -> list[DeviceInfo]:
    """Every GPU that HIP can use."""
    found = []
    for number in range(_call("hipGetDeviceCount")):
        properties = _call("hipGetDeviceProperties", number)
        found.append(
            DeviceInfo(
                number,
                _text(properties.name),
                _text(properties.gcnArchName).partition(":")[0],
                int(properties.totalGlobalMem),
                int(properties.multiProcessorCount),
                int(properties.warpSize),
            )
        )
    return found


def empty(shape: Sequence[int], dtype: Any, device: int = 0) -> DeviceArray:
    """Uninitialised memory of a GPU, given back when the array and what was made of it are gone."""
    count = int(np.prod(tuple(shape), dtype=np.int64)) * np.dtype(dtype).itemsize
    with _current(device):
        memory = _Memory("hipFree", _address(_call("hipMalloc", max(count, 1))))
    return DeviceArray(memory.address, shape, dtype, (ROCM, device), memory)


def to_device(array: np.ndarray, device: int = 0) -> DeviceArray:
    """A copy of an array in memory of a GPU."""
    source = np.asarray(array, order="C")
    found = empty(source.shape, source.dtype, device)
    copy_to_device(found, source)
    return found


def copy_to_device(target: DeviceArray, source: np.ndarray) -> None:
    """Overwrite an array of a GPU; waits until it is done.

    Raises:
        HipCompilerError: `HIPC0700`, when shape or element type differ.
    """
    if source.shape != target.shape or source.dtype != target.dtype:
        raise HipCompilerError(
            ErrorCode.FEED,
            f"an array {source.dtype}{list(source.shape)} does not fit one {target.dtype}{list(target.shape)}",
        )
    data = np.asarray(source, order="C")
    if data.nbytes:
        kind = _hip().hipMemcpyKind.hipMemcpyHostToDevice
        with _current(target.device[1]):
            _call("hipMemcpy", target.address, data.__array_interface__["data"][0], data.nbytes, kind)


def to_host(array: DeviceArray) -> np.ndarray:
    """A copy in memory of the host. What writes the array must be complete."""
    found = np.empty(array.shape, array.dtype)
    if found.nbytes:
        kind = _hip().hipMemcpyKind.hipMemcpyDeviceToHost
        with _current(array.device[1]):
            _call("hipMemcpy", found.__array_interface__["data"][0], array.address, found.nbytes, kind)
    return found


def pinned(shape: Sequence[int], dtype: Any, device: int = 0) -> tuple[np.ndarray, DeviceArray]:
    """Zeroed memory of the host that a GPU reaches: as the host's array, and as the device's.

    Inputs that change at every step are written through the first and bound as the second, and logits that the host
    looks at are bound as the second and read through the first once the run is complete.
    """
    dtype = np.dtype(dtype)
    count = int(np.prod(tuple(shape), dtype=np.int64)) * dtype.itemsize
    with _current(device):
        memory = _Memory("hipHostFree", _address(_call("hipHostMalloc", max(count, 1), 0)))
        reached = _address(_call("hipHostGetDevicePointer", memory.address, 0))
    block = (ctypes.c_uint8 * max(count, 1)).from_address(memory.address)
    # The view keeps the block, and the block the memory.
    block.memory = memory
    host = np.frombuffer(block, np.uint8, count).view(dtype).reshape(shape)
    host[...] = np.zeros((), dtype)
    return host, DeviceArray(reached, shape, dtype, (ROCM_HOST, device), memory)


class Stream:
    """A stream of a GPU that does not wait for others. Its `address` is what `Session.bind_device` takes."""

    def __init__(self, device: int = 0) -> None:
        self.device = device
        with _current(device):
            stream = _call("hipStreamCreateWithFlags", _NON_BLOCKING)
        self._handle = stream
        self.address = _address(stream)
        self._finalizer = weakref.finalize(self, _destroy_stream, device, stream)

    def synchronize(self) -> None:
        """Wait until everything on it is done."""
        with _current(self.device):
            _call("hipStreamSynchronize", self._handle)

    def close(self) -> None:
        """Give it back; a second call does nothing."""
        self._finalizer()


class _Memory:
    """Memory that is given back when nothing refers to it."""

    def __init__(self, free: str, address: int) -> None:
        self.address = address
        weakref.finalize(self, _call, free, address)


def _destroy_stream(device: int, stream: Any) -> None:
    with _current(device):
        _call("hipStreamDestroy", stream)


@contextmanager
def _current(device: int) -> Iterator[None]:
    """The device is the thread's; afterwards the one that was."""
    previous = _call("hipGetDevice")
    if previous != device:
        _call("hipSetDevice", device)
    try:
        yield
    finally:
        if previous != device:
            _call("hipSetDevice", previous)


def _address(pointer: Any) -> int:
    return int(pointer.as_c_void_p().value if hasattr(pointer, "as_c_void_p") else pointer)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
