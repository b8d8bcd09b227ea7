"""Code objects, and launches of their kernels."""

# ruff: noqa: N802 - the names are those of the functions

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from tests.fake_hip.state import (
    ILLEGAL_ADDRESS,
    INVALID_HANDLE,
    INVALID_VALUE,
    NO_BINARY,
    NOT_FOUND,
    Books,
    Code,
    Finding,
    Function,
    Module,
    store,
)


class ModuleCalls(Books):
    """Functions on modules; `load` makes `Code` of an architecture and an image, and raises ValueError if it cannot."""

    load: Callable[[str, bytes], Code]

    def hipModuleLoadData(self, module: int, image: int) -> int:
        try:
            code = self.load(self.architectures[self.device], _image(image))
        except ValueError:
            return NO_BINARY
        store(ctypes.c_void_p, module, self.new(Module(self.device, code)))
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
        store(ctypes.c_void_p, function, self.new(Function(found, text)))
        return 0

    def cuFuncGetParamInfo(self, function: int, index: int, offset: int, size: int) -> int:
        explicit = self._explicit(self.get(function, Function, "cuFuncGetParamInfo"))
        if index >= len(explicit):
            return INVALID_VALUE
        store(ctypes.c_size_t, offset, explicit[index].offset)
        store(ctypes.c_size_t, size, explicit[index].size)
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


def _image(address: int) -> bytes:
    """A code object, whose ELF header says how long it is, or PTX up to its NUL."""
    if ctypes.string_at(address, 4) != b"\x7fELF":
        return ctypes.string_at(address)
    sections = int.from_bytes(ctypes.string_at(address + 40, 8), "little")
    size, count = (int.from_bytes(ctypes.string_at(address + at, 2), "little") for at in (58, 60))
    return ctypes.string_at(address, sections + size * count)
