"""Progress of long work, shown on a terminal only."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

QUIET_SECONDS = 1.0
INTERVAL = 0.25


class Progress:
    """Shows the current phase and the time so far on standard error, once the work has taken a second.

    Use it in a `with` block and call it with the name of each phase.
    """

    def __init__(self) -> None:
        self._phase = ""
        self._start = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True) if sys.stderr.isatty() else None

    def __call__(self, phase: str) -> None:
        self._phase = phase

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        if self._done.wait(QUIET_SECONDS):
            return
        while not self._done.wait(INTERVAL):
            print(
                f"\r\x1b[K{time.monotonic() - self._start:6.1f} s  {self._phase}", end="", file=sys.stderr, flush=True
            )
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
