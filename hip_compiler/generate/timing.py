"""Times on a machine that others use, too: what an action takes when nobody is in the way.

Of many times the tenth that are least count: another process can only make an action longer. On one thread the time is
that of the processor, which stands still while another process has the core; on several it is the clock's, since
threads that wait for each other use their processors all the while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LEAST = 0.1
SETTLED = 0.03
"""Seconds after which the threads of another engine no longer look for work."""
_TASKS = Path("/proc/self/task")


@dataclass(frozen=True)
class Sample:
    """One action: seconds by the clock, and of processors, those of all threads together."""

    clock: float
    processor: float


def sample(action: Callable[[], object]) -> Sample:
    """Runs the action."""
    processor, clock = time.process_time(), time.perf_counter()
    action()
    return Sample(time.perf_counter() - clock, time.process_time() - processor)


def undisturbed(samples: Sequence[Sample], threads: int) -> float:
    """Seconds that the action takes when nobody is in the way."""
    times = [entry.processor if threads == 1 else entry.clock for entry in samples]
    return float(np.quantile(times, LEAST))


def waited() -> float:
    """Seconds that threads of this process, those that live, were ready and had no core; 0 where nothing tells."""
    total = 0
    for task in _TASKS.glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[1])
        except (OSError, IndexError):  # the thread has ended
            continue
    return total / 1e9
