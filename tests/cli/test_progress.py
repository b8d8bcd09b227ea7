"""Progress: on a terminal, and only for work that takes longer than a second."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORK = """
import sys, time
from hip_compiler.cli.progress import Progress
with Progress() as progress:
    progress("first phase")
    time.sleep(float(sys.argv[1]))
"""


def shown(seconds: float) -> str:
    """What a terminal receives on standard error."""
    master, terminal = pty.openpty()
    command = [sys.executable, "-c", WORK, str(seconds)]
    subprocess.run(command, stderr=terminal, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    os.close(terminal)
    received = b""
    try:
        while chunk := os.read(master, 4096):
            received += chunk
    except OSError:
        pass  # Linux reports the closed other end as an input/output error.
    os.close(master)
    return received.decode()


def test_long_work_shows_its_phase_and_clears_the_line() -> None:
    text = shown(1.8)
    assert "first phase" in text
    assert text.endswith("\r\x1b[K")


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_short_work_shows_nothing(seconds: float) -> None:
    assert shown(seconds) == ""


def test_without_a_terminal_nothing_is_shown() -> None:
    command = [sys.executable, "-c", WORK, "1.5"]
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.stderr == b""
