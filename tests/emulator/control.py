"""Branches, barriers, the end of a program, and what only waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.emulator.decode import Instruction
from tests.emulator.state import EXEC, VCC, EmulationError, Group

_CONDITIONS: dict[str, Callable[[Group], Any]] = {
    "S_CBRANCH_EXECZ": lambda group: group.mask_words(EXEC) == 0,
    "S_CBRANCH_EXECNZ": lambda group: group.mask_words(EXEC) != 0,
    "S_CBRANCH_VCCZ": lambda group: group.mask_words(VCC) == 0,
    "S_CBRANCH_VCCNZ": lambda group: group.mask_words(VCC) != 0,
    "S_CBRANCH_SCC0": lambda group: ~group.waves.scc[group.index],
    "S_CBRANCH_SCC1": lambda group: group.waves.scc[group.index],
}
_NOTHING = (
    "S_NOP", "S_WAITCNT", "S_WAIT", "S_CLAUSE", "S_DELAY_ALU", "S_SLEEP", "S_SETPRIO", "S_SENDMSG", "S_CODE_END",
    "S_INST_PREFETCH", "S_SET_INST_PREFETCH", "S_ICACHE_INV", "S_DENORM_MODE", "S_ROUND_MODE", "S_WAKEUP",
)  # fmt: skip


def make(word: Any, name: str, size: int, address: int) -> Instruction:
    """A SOPP instruction."""
    if name == "S_ENDPGM":
        return Instruction(name, size, "end", None)
    # From gfx12 on a barrier is a signal and a wait; waves meet in the wait.
    if name in ("S_BARRIER", "S_BARRIER_WAIT"):
        return Instruction(name, size, "barrier", None)
    target = address + size + int(np.int16(np.uint16(word.simm16))) * 4
    if name == "S_BRANCH":
        return Instruction(name, size, "branch", None, target)
    if name in _CONDITIONS:
        return Instruction(name, size, "branch", _CONDITIONS[name], target)
    if name.startswith(_NOTHING):
        return Instruction(name, size, "step", None)
    raise EmulationError(f"{name} is not modelled")


def jump(word: Any, name: str, size: int, address: int) -> Instruction:
    """S_SETPC_B64 and S_SWAPPC_B64."""
    source = word.ssrc0.offset
    target = word.sdst.offset if name == "S_SWAPPC_B64" else None

    def run(group: Group) -> Any:
        addresses = group.scalar(source, 64).astype(np.int64)
        if target is not None:
            group.set_scalar(target, np.full(group.n, address + size, np.uint64), 64)
        return addresses

    return Instruction(name, size, "jump", run)


def get_pc(word: Any, following: int) -> Callable[[Group], Any]:
    """S_GETPC_B64: the address of the next instruction."""
    target = word.sdst.offset

    def run(group: Group) -> None:
        group.set_scalar(target, np.full(group.n, following, np.uint64), 64)

    return run
