"""Runs AMDGPU code objects on numpy: the real machine code, without the machine.

It models what a program computes: registers, lanes, LDS, barriers, matrix instructions. It models no time and no
memory order. The decoder's tables and the pseudo-code of most instructions come from the `tinygrad` package.
"""

from hip_compiler.toolchain.codeobject import Argument, KernelInfo
from tests.emulator.device import Device, Module, pack
from tests.emulator.memory import Memory, OutOfBounds
from tests.emulator.state import EmulationError

__all__ = ["Argument", "Device", "EmulationError", "KernelInfo", "Memory", "Module", "OutOfBounds", "pack"]
