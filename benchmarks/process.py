"""A subprocess that answers one line of JSON with another, so that a crash or a hang costs one question only."""

from __future__ import annotations

import contextlib
import io
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]

TAIL = 2000


class WorkerDiedError(Exception):
    """The subprocess ended, or was ended after `timeout` seconds without an answer."""


class Worker:
    """Runs `python -m MODULE ARGUMENTS...` and talks to `serve` in it.

    Args:
        module: module whose main calls `serve`.
        arguments: its command line.
        environment: variables to add to the subprocess's environment.
    """

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        assignments = [f"{name}={value}" for name, value in (environment or {}).items()]
        self.process = subprocess.Popen(
            ["env", *assignments, sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self._stdin, self._stdout, self._stderr = self.process.stdin, self.process.stdout, self.process.stderr
        for stream in (self._stdout, self._stderr):
            os.set_blocking(stream.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._selector.register(self._stderr, selectors.EVENT_READ)
        self._answer = ""
        self._complaint = ""

    def ask(self, question: Message, timeout: float) -> Message:
        """The answer to a question.

        Raises:
            WorkerDiedError: when none comes; the text says why, with the end of what the subprocess printed.
        """
        try:
            self._stdin.write(json.dumps(question) + "\n")
        except BrokenPipeError:
            raise WorkerDiedError(self._obituary()) from None
        while "\n" not in self._answer:
            ready = self._selector.select(timeout)
            if not ready:
                self.close()
                raise WorkerDiedError(f"no answer within {timeout:.0f} s")
            for key, _ in ready:
                self._receive(key.fileobj)
            if self.process.poll() is not None and "\n" not in self._answer:
                raise WorkerDiedError(self._obituary())
        line, _, self._answer = self._answer.partition("\n")
        answer: Message = json.loads(line)
        return answer

    def _receive(self, stream: Any) -> None:
        text = stream.read() or ""
        if stream is self._stdout:
            self._answer += text
        else:
            self._complaint = (self._complaint + text)[-TAIL:]

    def _obituary(self) -> str:
        code = self.process.wait()
        with contextlib.suppress(OSError, ValueError):
            self._receive(self._stderr)
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        lines = self._complaint.strip().splitlines()
        return f"the process ended with {how}" + (f": {lines[-1]}" if lines else "")

    def close(self) -> None:
        """Ends the subprocess."""
        self.process.kill()
        self.process.wait()
        self._selector.close()
        for stream in (self._stdin, self._stdout, self._stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(answer: Callable[[Message], Message]) -> None:
    """Answers questions from standard input until it ends. What `answer` prints goes to standard error."""
    channel = io.TextIOWrapper(os.fdopen(os.dup(1), "wb"), line_buffering=True)
    os.dup2(2, 1)
    for line in sys.stdin:
        channel.write(json.dumps(answer(json.loads(line))) + "\n")
