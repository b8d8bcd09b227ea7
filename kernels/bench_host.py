"""Speed of the host matrix product and convolution: median GFLOP/s of one call, in one process.

`python kernels/bench_host.py [--threads N] [--level NAME]`
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hip_compiler.core.passes.winograd import LEAST_CHANNELS, points
from tests.kernels import harness

MATMULS = (
    (128, 384, 384),
    (128, 1536, 384),
    (128, 384, 1536),
    (128, 49152, 576),
    (1024, 1024, 1024),
    (197, 3072, 768),
    (1, 1536, 576),
    (1, 49152, 576),
)
"""M, N, K; b is packed."""

BATCHED = ((12, 128, 128, 32, True), (12, 128, 32, 128, False), (12, 512, 512, 64, True))
"""Batch, M, N, K, whether b is transposed; b is not packed."""

CONVOLUTIONS = (
    (64, 64, 56, 3, 1, 1),
    (64, 256, 56, 1, 1, 1),
    (128, 128, 28, 3, 1, 1),
    (256, 256, 14, 3, 1, 1),
    (512, 512, 7, 3, 1, 1),
    (3, 64, 224, 7, 2, 1),
    (96, 96, 56, 3, 1, 96),
    (96, 96, 56, 3, 2, 96),
)
"""Input channels, output channels, extent, kernel, stride, groups."""


def measure(
    symbol: str, inputs: Sequence[np.ndarray | None], output: np.ndarray, attributes: Sequence[Any], args: Any
) -> float:
    """Median seconds of one call."""
    keep: list[Any] = []
    arguments: list[Any] = []
    for array in [*inputs, output]:
        descriptor = None if array is None else harness.describe(array)
        keep.append(descriptor)
        arguments.append(None if descriptor is None else ctypes.byref(descriptor))
    for value in attributes:
        arguments += harness._attribute(value, keep)
    function = getattr(harness.library(args.level), symbol)
    # On a machine that others use, the time of the calling thread says more than the time on the wall.
    clock = time.thread_time if args.cpu_time else time.perf_counter
    times: list[float] = []
    with harness.context(args.threads, args.level) as handle:
        deadline = time.perf_counter() + args.seconds
        while len(times) < 5 or time.perf_counter() < deadline:
            start = clock()
            status = function(handle, *arguments)
            times.append(clock() - start)
            harness.check(handle, status, args.level)
    return statistics.median(times)


def random(*shape: int) -> np.ndarray:
    """Values in a 64-byte aligned array."""
    size = int(np.prod(shape))
    block = np.empty(size + 16, np.float32)
    start = -block.ctypes.data % 64 // 4
    aligned = block[start : start + size].reshape(shape)
    aligned[...] = np.random.default_rng(0).standard_normal(shape, np.float32)
    return aligned


def report(what: str, operations: float, seconds: float) -> None:
    print(f"{what:38} {seconds * 1e6:10.1f} us {operations / seconds / 1e9:8.1f} GFLOP/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--level", default=None)
    parser.add_argument("--seconds", type=float, default=0.3, help="time spent on each case")
    parser.add_argument("--cpu-time", action="store_true", help="measure the calling thread's processor time")
    parser.add_argument("--only", choices=("matmul", "batched", "conv"), default=None)
    args = parser.parse_args()
    if args.only in (None, "matmul"):
        for m, n, k in MATMULS:
            inputs = [random(m, k), random(-(-n // 32), k, 32), None, None]
            attributes = (False, False, 1.0, 0, True, n, 0.0, 0.0)
            seconds = measure("hipc_matmul", inputs, random(m, n), attributes, args)
            report(f"matmul {m} x {n} x {k}, packed", 2.0 * m * n * k, seconds)
    if args.only in (None, "batched"):
        for batch, m, n, k, transposed in BATCHED:
            inputs = [random(batch, m, k), random(batch, n, k) if transposed else random(batch, k, n), None, None]
            attributes = (False, transposed, 1.0, 0, False, 0, 0.0, 0.0)
            seconds = measure("hipc_matmul", inputs, random(batch, m, n), attributes, args)
            report(
                f"matmul {batch} of {m} x {n} x {k}{', b transposed' * transposed}", 2.0 * batch * m * n * k, seconds
            )
    if args.only in (None, "conv"):
        for channels, filters, extent, kernel, stride, groups in CONVOLUTIONS:
            inputs = [
                random(1, channels, extent, extent),
                random(filters, channels // groups, kernel, kernel),
                random(filters),
                None,
            ]
            out = extent // stride
            window = ([stride] * 2, [kernel // 2] * 4, [1, 1], groups, 1, 0.0, 0.0)
            seconds = measure("hipc_conv", inputs, random(1, filters, out, out), window, args)
            operations = 2.0 * filters * (channels // groups) * kernel**2 * out**2
            report(
                f"conv {channels} to {filters}, {extent}^2, {kernel}x{kernel}/{stride}, groups {groups}",
                operations,
                seconds,
            )
            if (kernel, stride, groups) == (3, 1, 1) and channels >= LEAST_CHANNELS:
                inputs[1] = random(*points(inputs[1]).shape)  # type: ignore[arg-type]
                seconds = measure("hipc_conv", inputs, random(1, filters, out, out), window, args)
                report("  the same, from points", operations, seconds)


if __name__ == "__main__":
    main()
