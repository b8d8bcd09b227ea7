"""Runs every case of `onnx.backend.test`: passed, unsupported, failed or crashed.

A case that fails or crashes is a defect: exit status 1. So is one that the baseline says passed, and does no more.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.cases import BACKENDS
from benchmarks.process import Message, Worker, WorkerDiedError

Results: TypeAlias = dict[str, Message]

STATUSES = ("passed", "unsupported", "disputed", "failed", "crashed")
BASELINE = Path(__file__).with_name("conformance_baseline.json")
FAST_ONE_IN = 8
# A worker is replaced after so many cases, so that memory which a case leaks cannot pile up.
CASES_PER_WORKER = 300
START_TIMEOUT, CASE_TIMEOUT = 300.0, 180.0


def run_cases(engine: str, names: Sequence[str], kinds: Mapping[str, str], jobs: int) -> Results:
    """Runs the cases in `jobs` subprocesses at a time; a case that ends its process is reported as crashed."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    results: Results = {}
    with tempfile.TemporaryDirectory() as home:
        crew = [threading.Thread(target=_work, args=(engine, home, waiting, kinds, results)) for _ in range(jobs)]
        for thread in crew:
            thread.start()
        while any(thread.is_alive() for thread in crew):
            crew[0].join(1.0)
            for thread in crew:
                thread.join(0.1)
            _progress(len(results), len(names))
    return {name: results[name] for name in sorted(results)}


def _work(engine: str, home: str, waiting: queue.SimpleQueue[str], kinds: Mapping[str, str], results: Results) -> None:
    worker: Worker | None = None
    served = 0
    while True:
        try:
            name = waiting.get_nowait()
        except queue.Empty:
            break
        if worker is None or served == CASES_PER_WORKER:
            if worker is not None:
                worker.close()
            worker, served = _start(engine, home), 0
        try:
            result = worker.ask({"run": name}, CASE_TIMEOUT)
            served += 1
        except WorkerDiedError as death:
            result = {"status": "crashed", "detail": str(death), "seconds": 0.0}
            worker.close()
            worker = None
        results[name] = {"kind": kinds[name], **result}
    if worker is not None:
        worker.close()


def _start(engine: str, home: str) -> Worker:
    # ONNX's runner writes inputs of the light models under ONNX_HOME; repro bundles of failures go to the cache folder.
    return Worker("benchmarks.cases", engine, environment={"ONNX_HOME": home, "HIPC_CACHE_DIR": home})


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done}/{total} cases", end="\n" if done == total else "", file=sys.stderr, flush=True)


def list_cases(engine: str) -> dict[str, str]:
    """Name of each case -> its kind."""
    with tempfile.TemporaryDirectory() as home, _start(engine, home) as worker:
        kinds: dict[str, str] = worker.ask({"list": True}, START_TIMEOUT)["kinds"]
        return kinds


def choose(names: Sequence[str], *, fast: bool, only: Sequence[str]) -> list[str]:
    """Cases to run: all, the fixed eighth of `fast`, those whose name contains a text of `only`."""
    if only:
        names = [name for name in names if any(text in name for text in only)]
    if fast:
        names = [name for name in names if zlib.crc32(name.encode()) % FAST_ONE_IN == 0]
    return sorted(names)


def regressions(results: Results, baseline: Mapping[str, Any]) -> list[str]:
    """Cases that failed or crashed, or that the baseline says passed and did not now; each with its reason."""
    passed_before = set(baseline.get("passed", ()))
    lines = []
    for name, result in results.items():
        status = result["status"]
        if status in ("failed", "crashed"):
            lines.append(f"{name}: {status}: {result['detail']}")
        elif status != "passed" and name in passed_before:
            lines.append(f"{name}: passed before, now {status}: {result['detail']}")
    return lines


def table(results: Results) -> str:
    """Counts by kind and status."""
    counts = Counter((result["kind"], result["status"]) for result in results.values())
    kinds = sorted({kind for kind, _ in counts})
    lines = [f"{'':18}" + "".join(f"{status:>13}" for status in STATUSES) + f"{'all':>9}"]
    for kind in kinds:
        row = [counts[kind, status] for status in STATUSES]
        lines.append(f"{kind:18}" + "".join(f"{count:13}" for count in row) + f"{sum(row):9}")
    totals = [sum(counts[kind, status] for kind in kinds) for status in STATUSES]
    lines.append(f"{'all':18}" + "".join(f"{count:13}" for count in totals) + f"{sum(totals):9}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conformance", description=__doc__)
    parser.add_argument("--engine", choices=BACKENDS, default="hip-compiler")
    parser.add_argument("--fast", action="store_true", help=f"one case in {FAST_ONE_IN}, always the same ones")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="cases whose name contains TEXT")
    parser.add_argument("--jobs", type=int, default=2, help="subprocesses at a time (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every result here")
    parser.add_argument("--baseline", type=Path, default=BASELINE, help="cases that passed before")
    parser.add_argument("--update-baseline", action="store_true", help="record what passes now")
    parser.add_argument("--verbose", action="store_true", help="also list the unsupported cases")
    arguments = parser.parse_args()

    start = time.perf_counter()
    kinds = list_cases(arguments.engine)
    names = choose(list(kinds), fast=arguments.fast, only=arguments.only)
    results = run_cases(arguments.engine, names, kinds, arguments.jobs)
    print(table(results))
    print(f"{len(results)} cases of onnx.backend.test, {arguments.engine}, {time.perf_counter() - start:.0f} s")
    if arguments.verbose:
        for name, result in results.items():
            if result["status"] == "unsupported":
                print(f"  {name}: {' '.join(result['detail'].split())}")
    totals = {status: sum(result["status"] == status for result in results.values()) for status in STATUSES}
    if arguments.json:
        content = {"engine": arguments.engine, "totals": totals, "cases": results}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")
    if arguments.update_baseline:
        record(arguments.baseline, results)
    baseline = json.loads(arguments.baseline.read_text()) if arguments.baseline.is_file() else {}
    defects = regressions(results, baseline)
    for line in defects:
        print(f"  {line}", file=sys.stderr)
    fresh = [name for name, result in results.items() if result["status"] == "passed"]
    gained = len(set(fresh) - set(baseline.get("passed", ())))
    if gained and baseline:
        print(f"{gained} cases pass that the baseline does not list; record them with --update-baseline")
    return 1 if defects else 0


def record(path: Path, results: Results) -> None:
    """Adds and removes only cases that were run; what did not pass is written down with its reason."""
    before = json.loads(path.read_text()) if path.is_file() else {}
    passed = {name for name, result in results.items() if result["status"] == "passed"}
    rest = {name: reason for name, reason in before.get("rest", {}).items() if name not in results}
    rest |= {name: _reason(result) for name, result in results.items() if name not in passed}
    passed |= set(before.get("passed", ())) - set(results)
    content = {"passed": sorted(passed), "rest": dict(sorted(rest.items()))}
    path.write_text(json.dumps(content, indent=1) + "\n")


def _reason(result: Message) -> str:
    """Status and reason, without the place in the compiler and the numbers that differed."""
    return f"{result['status']}: {result['detail'].partition(' where: ')[0].partition('; AssertionError')[0]}"


if __name__ == "__main__":
    sys.exit(main())
