"""The runtime for GPUs, loaded from its bitcode, and driven at its C ABI as compiled code would."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from hip_compiler.runtime import abi, cpu
from hip_compiler.runtime.jit import Program
from hip_compiler.runtime.outputs import address_of, empty, row_major_strides
from tests.kernels.harness import CACHE, InputSpec, build

OK, UNSUPPORTED, SHAPE, MEMORY, INPUT, OUTPUT, CONSTANTS, INTERNAL, DEVICE = 0, 1, 2, 4, 5, 6, 7, 9, 10
DTYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "bfloat16": 16,
}
CORE = ("api", "blaslt", "codeobject", "context", "device", "io", "launch", "matmul", "memory", "move", "record")


class RunError(Exception):
    """A function returned a status other than 0."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"status {status}: {message}")
        self.status = status


@cache
def program(platform: str) -> Program:
    """The runtime of a platform, as machine code in this process: its core, and the matrix product."""
    sources = [build().GPU / f"{name}.cpp" for name in CORE]
    bitcode = Path(build().build_gpu(CACHE, sources=sources)[platform])
    module = llvm.parse_bitcode(bitcode.read_bytes())
    machine = cpu.host().target_machine()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return Program([machine.emit_object(module)])


def tensor(address: int, shape: Sequence[int], dtype: Any) -> abi.Tensor:
    """A contiguous `hipc_tensor`."""
    found = abi.Tensor(address, DTYPES[np.dtype(dtype).name], len(shape))
    found.shape[: len(shape)] = list(shape)
    found.strides[: len(shape)] = list(row_major_strides(shape))
    return found


class DeviceArray:
    """An array in memory of the device that the test itself took."""

    def __init__(self, address: int, shape: Sequence[int], dtype: Any) -> None:
        self.address, self.shape, self.dtype = address, tuple(shape), np.dtype(dtype)


class Context:
    """A state of the runtime, and one run at a time on it."""

    def __init__(self, platform: str, files: Mapping[str, bytes], device: int, capture: bool, constants: int) -> None:
        self._program = program(platform)
        self._files = {}
        for name, content in files.items():
            self._files[name] = empty((len(content) + 1,), np.dtype(np.uint8))
            self._files[name][:] = np.frombuffer(content + b"\0", np.uint8)
        self._map = abi.MapFile(self._find)
        self.outputs: list[np.ndarray] = []
        self.device_outputs: list[int] = []
        self._allocate = abi.AllocateOutput(self._output)
        self._keep: list[Any] = []
        self.handle = ctypes.c_void_p()
        fs = abi.Files(None, self._map, 0, device, int(capture))
        status = self.function("hipc_init")(ctypes.byref(self.handle), ctypes.byref(fs), ctypes.c_int64(constants))
        if status:
            error = RunError(status, self.last_error())
            self.close()
            raise error

    def _find(self, _: Any, name: bytes, size: Any) -> int | None:
        found = self._files.get(name.decode())
        if found is None:
            return None
        size[0] = found.size - 1
        return address_of(found)

    def _output(self, _: Any, index: int, dtype: int, rank: int, shape: Any) -> int:
        if self.device_outputs:
            return self.device_outputs[index]
        name = next(name for name, number in DTYPES.items() if number == dtype)
        self.outputs.append(empty(tuple(shape[:rank]), np.dtype(name)))
        return address_of(self.outputs[-1])

    def function(self, name: str, result: Any = ctypes.c_int32) -> Any:
        return ctypes.CFUNCTYPE(result)(self._program.address(name))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that takes the context and returns a status; ints are int64."""
        status = self.function(name)(self.handle, *(_c(argument) for argument in arguments))
        if status:
            raise RunError(status, self.last_error())

    def address(self, name: str, *arguments: Any) -> int:
        """Call a function that returns memory."""
        found = self.function(name, ctypes.c_void_p)(self.handle, *(_c(argument) for argument in arguments))
        if not found:
            raise RunError(-1, self.last_error())
        return int(found)

    def number(self, name: str) -> int:
        return int(self.function(name, ctypes.c_int64)(self.handle))

    def last_error(self) -> str:
        text = self.function("hipc_last_error", ctypes.c_char_p)(self.handle)
        return str(text.decode())

    def begin(
        self,
        inputs: Sequence[np.ndarray | DeviceArray],
        outputs_on_device: Sequence[int] = (),
        stream: int | None = None,
    ) -> list[int]:
        """Begin a run; addresses of the inputs as compiled code finds them."""
        tensors = (abi.Tensor * max(1, len(inputs)))()
        specs = (InputSpec * max(1, len(inputs)))()
        flags = (ctypes.c_uint8 * max(1, len(inputs)))()
        for number, value in enumerate(inputs):
            place = value.address if isinstance(value, DeviceArray) else address_of(value)
            tensors[number] = tensor(place, value.shape, value.dtype)
            dims = (ctypes.c_int64 * max(1, len(value.shape)))(
                *(-1 - 8 * number - axis for axis in range(len(value.shape)))
            )
            specs[number] = InputSpec(b"x%d" % number, DTYPES[value.dtype.name], len(value.shape), dims)
            flags[number] = isinstance(value, DeviceArray)
        self.outputs, self.device_outputs = [], list(outputs_on_device)
        self.io = abi.Io(tensors, len(inputs), None, self._allocate, flags, bool(outputs_on_device), stream)
        self._keep = [tensors, specs, flags, list(inputs)]
        self.call("hipc_begin", ctypes.byref(self.io), specs, len(inputs), 8 * len(inputs))
        return [int(self.io.inputs[number].data or 0) for number in range(len(inputs))]

    def end(self, status: int = 0) -> None:
        found = self.function("hipc_end")(self.handle, ctypes.c_int32(status))
        if found:
            raise RunError(found, self.last_error())

    def output(self, index: int, shape: Sequence[int], dtype: Any = np.float32) -> int:
        extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        number = DTYPES[np.dtype(dtype).name]
        return self.address("hipc_alloc_output", index, ctypes.c_int32(number), ctypes.c_int32(len(shape)), extents)

    def launch(self, kernel: str, *arguments: Any, iterations: int) -> None:
        """hipc_launch_kernel; ints are addresses or int64, floats float32."""
        slots = (ctypes.c_uint64 * max(1, len(arguments)))()
        for number, value in enumerate(arguments):
            data = np.float32(value).tobytes() if isinstance(value, float) else int(value).to_bytes(8, "little")
            slots[number] = int.from_bytes(data, "little")
        base = ctypes.addressof(slots)
        addresses = (ctypes.c_void_p * max(1, len(arguments)))(*(base + 8 * n for n in range(len(arguments))))
        self.call("hipc_launch_kernel", kernel.encode(), addresses, len(arguments), iterations, 1)

    def close(self) -> None:
        self.function("hipc_cleanup", None)(self.handle)
        self.handle = ctypes.c_void_p()


def _c(argument: Any) -> Any:
    return ctypes.c_int64(argument) if isinstance(argument, int) else argument


@contextmanager
def context(
    files: Mapping[str, bytes] = MappingProxyType({}),
    *,
    platform: str = "amd",
    device: int = 0,
    capture: bool = False,
    constants: int = 0,
) -> Iterator[Context]:
    """A state; it is cleaned up in the end."""
    state = Context(platform, files, device, capture, constants)
    try:
        yield state
    finally:
        state.close()
