"""Times the pretrained networks beside ONNX Runtime: compile, load, first run, median run, peak memory, difference.

Each engine runs in a process of its own; timed runs alternate between them, so that both meet the same machine.
Ratios are ours to theirs: below 1 we are faster, or smaller.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines import OURS, THEIRS
from benchmarks.process import Message, Worker, WorkerDiedError
from tests.models import CATALOG, FetchError, Model, find

TIMEOUT = 900.0
# Runs of one engine before it is the other's turn fill about this much time.
TURN_MS = 60.0
ROUNDS = 15

COLUMNS = (
    ("compile s", "compile_s", "{:.2f}"),
    ("load s", "load_s", "{:.3f}"),
    ("first ms", "first_ms", "{:.1f}"),
    ("median ms", "median_ms", "{:.2f}"),
    ("peak MB", "peak_mb", "{:.0f}"),
)


class EngineError(Exception):
    """An engine could not do what was asked; the text is its own."""


def ask(worker: Worker, **question: Any) -> Message:
    try:
        answer = worker.ask(question, TIMEOUT)
    except WorkerDiedError as death:
        raise EngineError(str(death)) from death
    if "error" in answer:
        raise EngineError(answer["error"])
    return answer


def measure(model: Model, engines: Sequence[str], threads: int, artifact: Path, rounds: int) -> dict[str, Message]:
    """What each engine did, by engine; one that could not do it has only an `error`."""
    results: dict[str, Message] = {}
    workers: dict[str, Worker] = {}
    try:
        for engine in engines:
            workers[engine] = _worker(engine, model, artifact, threads)
            try:
                results[engine] = ask(workers[engine], do="start")
            except EngineError as error:
                results[engine] = {"error": str(error)}
        running = {engine: worker for engine, worker in workers.items() if "error" not in results[engine]}
        _time(running, results, rounds)
        with tempfile.TemporaryDirectory() as folder:
            saved = {}
            for engine, worker in running.items():
                saved[engine] = Path(folder) / f"{engine}.npz"
                ask(worker, do="outputs", path=str(saved[engine]))
            if OURS in saved and THEIRS in saved:
                results[OURS]["difference"] = difference(_load(saved[OURS]), _load(saved[THEIRS]))
    finally:
        for worker in workers.values():
            worker.close()
    return results


def _worker(engine: str, model: Model, artifact: Path, threads: int) -> Worker:
    environment = {"HIPC_NUM_THREADS": str(threads)}
    return Worker("benchmarks.engines", engine, model.key, str(artifact), str(threads), environment=environment)


def _time(workers: Mapping[str, Worker], results: Mapping[str, Message], rounds: int) -> None:
    counts = {}
    times: dict[str, list[float]] = {engine: [] for engine in workers}
    for engine, worker in workers.items():
        warm = statistics.median(ask(worker, do="times", count=3)["ms"])
        counts[engine] = max(1, min(200, round(TURN_MS / max(warm, 1e-3))))
    for _ in range(rounds):
        for engine, worker in workers.items():
            answer = ask(worker, do="times", count=counts[engine])
            times[engine] += answer["ms"]
            results[engine]["peak_mb"] = answer["peak_mb"]
    for engine in workers:
        results[engine]["median_ms"] = statistics.median(times[engine])
        results[engine]["best_ms"] = min(times[engine])


def _load(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def difference(ours: Mapping[str, NDArray[Any]], theirs: Mapping[str, NDArray[Any]]) -> float:
    """Largest difference over the scale of its output: max |ours - theirs| / max |theirs|, over all outputs.

    Infinity when names, shapes or element types differ, or one has a NaN or an infinity where the other has not.
    """
    if ours.keys() != theirs.keys():
        return float("inf")
    worst = 0.0
    for name, expected in theirs.items():
        value = ours[name]
        if value.shape != expected.shape or value.dtype != expected.dtype:
            return float("inf")
        a, b = value.astype(np.float64), expected.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if not np.all(np.isfinite(a[~same]) & np.isfinite(b[~same])):
            return float("inf")
        scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0)) or 1.0
        worst = max(worst, float(np.max(np.abs(a[~same] - b[~same]), initial=0.0)) / scale)
    return worst


def compile_once(model: Model, artifact: Path, threads: int) -> Message:
    """Seconds and peak memory of compiling, in a process that ends afterwards."""
    with _worker(OURS, model, artifact, threads) as worker:
        return ask(worker, do="compile")


def row(label: str, values: Mapping[str, str]) -> str:
    return f"{label:34}" + "".join(f"{values.get(key, ''):>11}" for _, key, _ in COLUMNS)


def describe(results: Mapping[str, Message], label: str) -> list[str]:
    """Lines of the table for one network and thread count: ours, theirs, and the ratios."""
    lines = []
    for engine, result in results.items():
        if "error" in result:
            lines.append(f"{f'{label} {engine}':34}  {' '.join(result['error'].split())[:160]}")
            continue
        shown = {key: form.format(result[key]) for _, key, form in COLUMNS if key in result}
        lines.append(row(f"{label} {engine}", shown))
    ours, theirs = results.get(OURS, {}), results.get(THEIRS, {})
    if "median_ms" in ours and "median_ms" in theirs:
        ratios = {key: f"{ours[key] / theirs[key]:.2f}x" for _, key, _ in COLUMNS if key in ours and key in theirs}
        lines.append(row("", ratios) + f"   difference {ours['difference']:.1e}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("keys", nargs="*", metavar="KEY", help="networks; none: all of the catalogue")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="thread counts (default: 1 2)")
    parser.add_argument("--engines", nargs="+", choices=(OURS, THEIRS), default=[OURS, THEIRS])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"turns of each engine (default: {ROUNDS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure here")
    arguments = parser.parse_args()
    try:
        models = [find(key) for key in arguments.keys] or list(CATALOG)
    except KeyError as error:
        parser.error(error.args[0])

    print(row("network, threads, engine", {key: title for title, key, _ in COLUMNS}))
    record: dict[str, Any] = {}
    failures = 0
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            artifact = Path(folder) / f"{model.key}.hipc"
            try:
                model.path()
                compiled = compile_once(model, artifact, max(arguments.threads)) if OURS in arguments.engines else {}
            except (EngineError, FetchError) as error:
                print(f"{model.key:34}  {' '.join(str(error).split())[:160]}", flush=True)
                record[model.key] = {"error": str(error)}
                failures += 1
                continue
            record[model.key] = {"compile": compiled, "threads": {}}
            for threads in arguments.threads:
                try:
                    results = measure(model, arguments.engines, threads, artifact, arguments.rounds)
                except EngineError as error:
                    results = {"measuring": {"error": str(error)}}
                failures += sum("error" in result for result in results.values())
                record[model.key]["threads"][threads] = results
                shown = {**results}
                if OURS in results and compiled:
                    shown[OURS] = {**results[OURS], "compile_s": compiled["seconds"]}
                print("\n".join(describe(shown, f"{model.key} {threads}t")), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
