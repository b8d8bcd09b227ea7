"""Runs a kernel: sets waves up as the hardware does, and executes them until all have ended.

Many waves execute one instruction together. Those with the lowest address go first, so that waves which took
different paths meet again.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from hip_compiler.toolchain.codeobject import KernelInfo
from tests.emulator.decode import FAMILIES, Instruction, decode
from tests.emulator.memory import LocalMemory, Memory, OutOfBounds
from tests.emulator.state import EXEC, EmulationError, Group, Waves

_MOST_LANES = 16384
_LONGEST = 50_000_000


class Program:
    """Code of a loaded object; instructions are decoded when they are first met."""

    def __init__(self, architecture: str, base: int, image: bytes) -> None:
        self.family = FAMILIES[architecture]
        # Up to gfx908 each work item id has a register of its own; later ones share one.
        self.separate_ids = architecture in ("gfx906", "gfx908")
        self.base = base
        self.image = image
        self._known: dict[int, Instruction] = {}

    def at(self, address: int) -> Instruction:
        """The instruction at an address."""
        found = self._known.get(address)
        if found is None:
            data = self.image[address - self.base :][:24]
            if address < self.base or len(data) < 4:
                raise EmulationError(f"execution leaves the code: {address:#x}")
            found = self._known[address] = decode(self.family, data.ljust(24, b"\0"), address)
        return found


class Launch:
    """One launch of a kernel.

    Args:
        program: the code.
        name, kernel: the kernel.
        grid, block: workgroups and work items of a workgroup, in three directions.
        memory: what the kernel may touch, its argument block included.
        kernarg, packet: addresses of the argument block and of the dispatch packet.
        dynamic_lds: bytes of LDS beyond what the kernel declares.
        together: waves of a workgroup advance side by side; otherwise each runs to the next barrier alone, which
            shows where a barrier is missing.
    """

    def __init__(
        self,
        program: Program,
        name: str,
        kernel: KernelInfo,
        grid: Sequence[int],
        block: Sequence[int],
        memory: Memory,
        kernarg: int,
        packet: int,
        dynamic_lds: int,
        together: bool,
    ) -> None:
        self.program = program
        self.name = name
        self.kernel = kernel
        self.grid = tuple(grid)
        self.block = tuple(block)
        self.memory = memory
        self.kernarg = kernarg
        self.packet = packet
        self.lds = kernel.lds + dynamic_lds
        self.together = together
        threads = self.block[0] * self.block[1] * self.block[2]
        self.waves_per_group = -(-threads // kernel.wave)
        self.threads = threads
        descriptor = program.image[kernel.descriptor :][:64]
        self.entry = program.base + kernel.descriptor + struct.unpack_from("<q", descriptor, 16)[0]
        self.resource2 = struct.unpack_from("<I", descriptor, 52)[0]
        self.properties, preload = struct.unpack_from("<HH", descriptor, 56)
        if kernel.scratch:
            raise EmulationError(f"{name} uses {kernel.scratch} bytes of scratch memory, which is not modelled")
        if preload:
            raise EmulationError(f"{name} wants its arguments preloaded, which is not modelled")

    def run(self) -> int:
        """Execute all workgroups; the number of instructions executed, each counted once for all its waves."""
        if min(*self.grid, *self.block) < 1 or self.threads > self.kernel.max_threads:
            raise EmulationError(f"{self.name}: grid {self.grid} of blocks {self.block} cannot be launched")
        per_batch = max(1, _MOST_LANES // (self.waves_per_group * self.kernel.wave))
        positions = [(x, y, z) for z, y, x in itertools.product(*(range(extent) for extent in reversed(self.grid)))]
        executed = 0
        with np.errstate(all="ignore"):
            for start in range(0, len(positions), per_batch):
                executed += self._batch(positions[start : start + per_batch])
        return executed

    # -- setting up -----------------------------------------------------------------------------------------------

    def _batch(self, positions: Sequence[tuple[int, int, int]]) -> int:
        kernel = self.kernel
        count = len(positions) * self.waves_per_group
        registers = 512 if self.program.family == "cdna" else 256
        local = LocalMemory(len(positions), self.lds)
        waves = Waves(self.program.family, count, kernel.wave, registers, self.memory, local)
        waves.pc[:] = self.entry
        waves.workgroup[:] = np.arange(count) // self.waves_per_group
        self._set_registers(waves, np.array(positions, np.uint32))
        try:
            return self._execute(waves)
        except OutOfBounds as error:
            raise OutOfBounds(f"{self.name}: {error}") from None
        except EmulationError as error:
            raise EmulationError(f"{self.name}: {error}") from None

    def _set_registers(self, waves: Waves, positions: Any) -> None:
        lanes = self.kernel.wave
        number = np.arange(waves.count) % self.waves_per_group
        item = number[:, None] * lanes + np.arange(lanes)
        active = item < self.threads
        Group(waves, np.arange(waves.count)).set_lanes(EXEC, active)

        x, y, z = self.block[0], self.block[1], self.block[2]
        ids = [item % x, item // x % y, item // (x * y) % z]
        if self.program.separate_ids:
            for register, value in enumerate(ids):
                waves.v[register] = value
        else:
            waves.v[0] = (ids[0] | (ids[1] << 10) | (ids[2] << 20)).astype(np.uint32)

        at = 0
        for bit, words in enumerate((4, 2, 2, 2, 2, 2, 1)):
            if not self.properties >> bit & 1:
                continue
            # The buffer descriptor and the address of scratch memory stay poison: no kernel with scratch is run.
            address = {1: self.packet, 3: self.kernarg}.get(bit)
            if address is not None:
                waves.s[at], waves.s[at + 1] = address & 0xFFFFFFFF, address >> 32
            at += words
        at = self.resource2 >> 1 & 31
        place = positions[(np.arange(waves.count) // self.waves_per_group)]
        if self.program.family == "rdna4":
            waves.s[108 + 9] = place[:, 0]
            waves.s[108 + 7] = place[:, 1] | (place[:, 2] << np.uint32(16))
            return
        for direction in range(3):
            if self.resource2 >> (7 + direction) & 1:
                waves.s[at] = place[:, direction]
                at += 1

    # -- executing ------------------------------------------------------------------------------------------------

    def _execute(self, waves: Waves) -> int:
        ready = np.ones(waves.count, np.bool_)
        waiting = np.zeros(waves.count, np.bool_)
        number = np.arange(waves.count) % self.waves_per_group
        executed = 0
        while True:
            if not ready.any():
                if not waiting.any():
                    return executed
                # The rest of these workgroups has ended: ended waves do not hold a barrier up.
                ready, waiting = waiting.copy(), np.zeros_like(waiting)
            chosen = ready
            if not self.together:
                chosen = ready & (number == number[ready].min())
            pc = waves.pc[chosen].min()
            members = np.nonzero(chosen & (waves.pc == pc))[0]
            others = waves.pc[chosen & (waves.pc != pc)]
            limit = int(others.min()) if others.size else None
            steps, event = self._run(Group(waves, members), limit)
            executed += steps
            if executed > _LONGEST:
                raise EmulationError("the kernel does not end")
            if event == "end":
                ready[members] = False
            elif event == "barrier":
                ready[members] = False
                waiting[members] = True
                self._release(waves, ready, waiting)

    def _release(self, waves: Waves, ready: Any, waiting: Any) -> None:
        groups = waves.workgroup.astype(np.int64)
        running = np.zeros(int(groups.max()) + 1, np.bool_)
        running[groups[ready]] = True
        free = waiting & ~running[groups]
        ready |= free
        waiting &= ~free

    def _run(self, group: Group, limit: int | None) -> tuple[int, str]:
        """Execute until the waves part, meet others, end or reach a barrier; counts instructions."""
        waves, program = group.waves, self.program
        pc = group.pc
        steps = 0
        while True:
            instruction = program.at(pc)
            steps += 1
            if instruction.kind == "step":
                if instruction.run is not None:
                    instruction.run(group)
                pc += instruction.size
            elif instruction.kind == "branch":
                following = pc + instruction.size
                taken = None if instruction.run is None else instruction.run(group)
                if taken is None or taken.all():
                    pc = instruction.target
                elif not taken.any():
                    pc = following
                else:
                    waves.pc[group.members] = np.where(taken, instruction.target, following)
                    return steps, "parted"
            elif instruction.kind == "jump":
                assert instruction.run is not None
                addresses = instruction.run(group)
                if (addresses != addresses[0]).any():
                    waves.pc[group.members] = addresses
                    return steps, "parted"
                pc = int(addresses[0])
            else:
                waves.pc[group.members] = pc + instruction.size
                return steps, instruction.kind
            if (limit is not None and pc >= limit) or steps > _LONGEST:
                waves.pc[group.members] = pc
                return steps, "met"
