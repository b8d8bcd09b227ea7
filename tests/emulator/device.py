"""The emulated device: loads code objects and launches their kernels."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from hip_compiler.toolchain import codeobject
from hip_compiler.toolchain.codeobject import KernelInfo
from tests.emulator.decode import FAMILIES
from tests.emulator.launch import Launch, Program
from tests.emulator.memory import Memory
from tests.emulator.state import EmulationError

_COVERS = {
    "gfx9-generic": ("gfx906",), "gfx9-4-generic": ("gfx942",), "gfx11-generic": ("gfx1100", "gfx1151"),
    "gfx12-generic": ("gfx1201",),
}  # fmt: skip


class Device:
    """A GPU of one architecture: gfx906, gfx90a, gfx942, gfx1100, gfx1151 or gfx1201."""

    def __init__(self, architecture: str) -> None:
        if architecture not in FAMILIES:
            raise EmulationError(f"{architecture} is not emulated; these are: {', '.join(FAMILIES)}")
        self.architecture = architecture

    def load(self, image: bytes) -> Module:
        """Load a code object made for this device, or for a generic target that covers it."""
        return _load(self.architecture, image)


# One module for all who load the same code: nothing changes it, and what is decoded once stays decoded.
@lru_cache(maxsize=32)
def _load(architecture: str, image: bytes) -> Module:
    code = codeobject.read(image)
    if architecture != code.architecture and architecture not in _COVERS.get(code.architecture, ()):
        raise EmulationError(f"code for {code.architecture} on a {architecture}")
    return Module(architecture, code)


class Module:
    """A loaded code object."""

    def __init__(self, architecture: str, code: codeobject.CodeObject) -> None:
        self.architecture = architecture
        self.kernels: Mapping[str, KernelInfo] = code.kernels
        # Kept where it lies, since code reads constants relative to its own address.
        self._image = np.frombuffer(bytearray(code.memory.ljust(4, b"\0")), np.uint8)
        self._base = int(self._image.__array_interface__["data"][0])
        self._program = Program(architecture, self._base, code.memory)

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        kernarg: bytes,
        memory: Memory,
        dynamic_lds: int = 0,
        together: bool = True,
    ) -> int:
        """Run a kernel to its end.

        Args:
            name: the kernel.
            grid: workgroups in three directions.
            block: work items of a workgroup in three directions.
            kernarg: the explicit arguments at their offsets; hidden ones are filled in here.
            memory: what the kernel may touch.
            dynamic_lds: bytes of LDS beyond what the kernel declares.
            together: False runs each wave of a workgroup to the next barrier alone, to show missing barriers.

        Returns:
            The number of instructions executed, each counted once for all waves that execute it together.

        Raises:
            OutOfBounds: the kernel touches something else.
            EmulationError: the kernel does something that is not modelled, or the launch is not possible.
        """
        kernel = self.kernels.get(name)
        if kernel is None:
            raise EmulationError(f"no kernel {name} among {len(self.kernels)}")
        block_of_arguments = self._arguments(name, kernel, grid, block, kernarg)
        own = Memory(memory)
        own.add(self._image, writable=False)
        arguments = np.frombuffer(block_of_arguments, np.uint8)
        address = own.add(arguments, writable=False)
        packet = np.frombuffer(self._packet(kernel, grid, block, address, dynamic_lds), np.uint8)
        dispatch = own.add(packet, writable=False)
        return Launch(self._program, name, kernel, grid, block, own, address, dispatch, dynamic_lds, together).run()

    @staticmethod
    def _packet(kernel: KernelInfo, grid: Sequence[int], block: Sequence[int], kernarg: int, lds: int) -> bytearray:
        """`hsa_kernel_dispatch_packet_t` of the HSA runtime specification."""
        items = [count * extent for count, extent in zip(grid, block, strict=True)]
        head = struct.pack("<HHHHHH", 0, 3, *block, 0)
        return bytearray(head + struct.pack("<IIIIIQQQQ", *items, 0, kernel.lds + lds, 0, kernarg, 0, 0))

    @staticmethod
    def _arguments(
        name: str, kernel: KernelInfo, grid: Sequence[int], block: Sequence[int], explicit: bytes
    ) -> bytearray:
        values = [argument for argument in kernel.arguments if not argument.kind.startswith("hidden_")]
        wanted = max((argument.offset + argument.size for argument in values), default=0)
        if not wanted <= len(explicit) <= max(kernel.kernarg_size, wanted + 7):
            raise EmulationError(f"{name} takes {wanted} bytes of arguments; {len(explicit)} were given")
        # Scalar loads may take in what lies behind the arguments, up to their own size: it is aligned, so it is there.
        result = bytearray(-(-max(kernel.kernarg_size, 1) // 64) * 64)
        result[:wanted] = explicit[:wanted]
        hidden = {"hidden_grid_dims": 3}
        for direction, letter in enumerate("xyz"):
            hidden[f"hidden_block_count_{letter}"] = grid[direction]
            hidden[f"hidden_group_size_{letter}"] = block[direction]
        for argument in kernel.arguments:
            if argument.kind.startswith("hidden_"):
                value = hidden.get(argument.kind, 0)
                result[argument.offset : argument.offset + argument.size] = value.to_bytes(argument.size, "little")
        return result


def pack(kernel: KernelInfo, values: Sequence[int | float | bytes | np.generic]) -> bytes:
    """An argument block from values in order: whole numbers, addresses, floats, numpy scalars, structures as bytes."""
    arguments = [argument for argument in kernel.arguments if not argument.kind.startswith("hidden_")]
    result = bytearray(max((argument.offset + argument.size for argument in arguments), default=0))
    for argument, value in zip(arguments, values, strict=True):
        if isinstance(value, bytes):
            data = value
        elif isinstance(value, np.generic):
            data = value.tobytes()
        elif isinstance(value, float):
            data = struct.pack("<f" if argument.size == 4 else "<d", value)
        else:
            data = int(value).to_bytes(argument.size, "little", signed=value < 0)
        if len(data) != argument.size:
            raise ValueError(f"{value!r} has {len(data)} bytes, the argument {argument.size}")
        result[argument.offset : argument.offset + argument.size] = data
    return bytes(result)
