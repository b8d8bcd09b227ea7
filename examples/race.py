"""Compiles a network, runs it beside ONNX Runtime on the same inputs, and says how each did."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

import hip_compiler

Arrays = Mapping[str, NDArray[Any]]
TURN = 5
"""Runs that one engine has before the other has its own."""


@dataclass(frozen=True)
class Race:
    """What both engines did with one network.

    Attributes:
        outputs: of hip-compiler, by name.
        compile_s: seconds to compile.
        ours_ms, theirs_ms: median milliseconds of a run.
        error: largest difference of any output, over the largest value of that output.
    """

    outputs: dict[str, NDArray[Any]]
    compile_s: float
    ours_ms: float
    theirs_ms: float
    error: float

    def __str__(self) -> str:
        return (
            f"compiled in {self.compile_s:.2f} s; a run takes {self.ours_ms:.2f} ms "
            f"(ONNX Runtime {self.theirs_ms:.2f} ms); results differ by {self.error:.1e} of their scale at most"
        )


def race(model: Path, feeds: Arrays, rounds: int = 15) -> Race:
    """Compiles `model` for the CPU at hand and runs it and ONNX Runtime in turns, `rounds` times each at least."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    reference = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    start = time.perf_counter()
    session = hip_compiler.compile(model)
    compile_s = time.perf_counter() - start

    names = [output.name for output in reference.get_outputs()]
    expected = dict(zip(names, reference.run(names, dict(feeds)), strict=True))
    outputs = session.run(feeds)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(-(-rounds // TURN)):
        ours += _times(lambda: session.run(feeds))
        theirs += _times(lambda: reference.run(names, dict(feeds)))
    error = max(_difference(outputs[name], expected[name]) for name in names)
    return Race(outputs, compile_s, 1e3 * statistics.median(ours), 1e3 * statistics.median(theirs), error)


def _times(run: Callable[[], Any]) -> list[float]:
    """Seconds of the runs of one turn. Threads of the other engine keep cores busy for a while after its last run, in
    the hope of more work: the first runs of a turn do not count.
    """
    for _ in range(2):
        run()
    times = []
    for _ in range(TURN):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def _difference(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    scale = float(np.max(np.abs(theirs), initial=0.0)) or 1.0
    return float(np.max(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)), initial=0.0)) / scale
