"""How many waves of a kernel a compute unit can hold, from the registers and the LDS that the kernel takes.

An estimate: allocation granules and totals follow LLVM's AMDGPUBaseInfo for each generation; what else limits waves
(scalar registers, barriers) does not bind for these kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

from hip_compiler.toolchain.codeobject import KernelInfo


@dataclass(frozen=True)
class Unit:
    """What a SIMD and its compute unit have: vector registers a lane and their granule, most waves a SIMD, SIMDs and
    LDS bytes that a workgroup shares."""

    registers: int
    granule: int
    waves: int
    simds: int
    lds: int


_LARGE_GFX11 = ("gfx1100", "gfx1101", "gfx1151")


def unit_of(architecture: str) -> Unit:
    """The unit of an AMD architecture; for a generic one that of its smallest member."""
    if architecture in ("gfx90a", "gfx942", "gfx9-4-generic"):
        return Unit(512, 8, 8, 4, 64 << 10)
    if architecture == "gfx950":
        return Unit(512, 8, 8, 4, 160 << 10)
    if architecture.startswith("gfx9"):
        return Unit(256, 4, 10, 4, 64 << 10)
    if architecture.startswith("gfx10-1"):
        return Unit(1024, 8, 20, 4, 128 << 10)
    if architecture.startswith("gfx10"):
        return Unit(1024, 16, 16, 4, 128 << 10)
    if architecture.startswith("gfx12") or architecture in _LARGE_GFX11:
        return Unit(1536, 24, 16, 4, 128 << 10)
    return Unit(1024, 16, 16, 4, 128 << 10)


def waves_per_simd(kernel: KernelInfo, architecture: str) -> int:
    """Waves of a kernel that a SIMD holds at once, launched in blocks as large as they may be."""
    unit = unit_of(architecture)
    registers = kernel.vgprs + (kernel.agprs if unit.registers == 512 and kernel.agprs > 0 else 0)
    taken = -(-max(registers, 1) // unit.granule) * unit.granule
    by_registers = min(unit.waves, unit.registers // taken)
    if kernel.lds == 0:
        return by_registers
    waves = -(-kernel.max_threads // kernel.wave)
    by_lds = unit.lds // kernel.lds * waves // unit.simds
    return min(by_registers, max(1, by_lds))
