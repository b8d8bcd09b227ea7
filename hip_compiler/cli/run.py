"""``hip-compiler run``: run a model or an artifact, and print what comes out."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hip_compiler.cli.options import add_compile_options, compile_options
from hip_compiler.cli.output import add_json, print_json, table

if TYPE_CHECKING:
    from hip_compiler.runtime import Session

HELP = "Run an ONNX model or an artifact on given or random inputs."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, help="ONNX file, or artifact")
    parser.add_argument(
        "-i",
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="NAME=FILE.npy, FILE.npz, or NAME=FILE.npz for a sequence; repeatable",
    )
    parser.add_argument(
        "-d", "--dim", action="append", default=[], metavar="NAME=N", help="extent of a symbol for random inputs"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of random inputs (default: 0)")
    parser.add_argument("-n", "--iterations", type=int, default=1, help="runs; the median time is printed")
    parser.add_argument("--threads", type=int, default=0, help="threads; 0: one per available core")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU, for a model compiled for GPUs")
    parser.add_argument("--graph", action="store_true", help="GPUs: replay runs that repeat as one graph")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the outputs to a .npz file")
    add_compile_options(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    import numpy as np

    from hip_compiler.cli.feeds import flat, random_feed, read_extents, read_feeds, write_npz

    start = time.perf_counter()
    extents = read_extents(arguments.dim)
    with _session(arguments) as session:
        loaded = time.perf_counter() - start
        draw = np.random.default_rng(arguments.seed)
        feeds = read_feeds(arguments.input, session.inputs)
        for info in session.inputs:
            if info.name not in feeds:
                feeds[info.name] = random_feed(info, extents, draw)
        seconds = []
        for _ in range(max(1, arguments.iterations)):
            start = time.perf_counter()
            outputs = session.run(feeds)
            seconds.append(time.perf_counter() - start)
    arrays = flat(outputs)
    if arguments.save is not None:
        write_npz(arguments.save, arrays)
    rows = [_summary(name, array) for name, array in arrays.items()]
    times = {"ready": loaded, "first_run": seconds[0], "median_run": float(np.median(seconds))}
    if arguments.json:
        print_json({"seconds": times, "outputs": rows})
        return 0
    print(table(tuple(rows[0]) if rows else (), [tuple(row.values()) for row in rows]))
    runs = f"median of {len(seconds)} runs {times['median_run'] * 1e3:.3f} ms" if len(seconds) > 1 else ""
    print(f"ready in {loaded:.3f} s, first run {times['first_run'] * 1e3:.3f} ms{', ' if runs else ''}{runs}")
    return 0


def _session(arguments: argparse.Namespace) -> Session:
    from hip_compiler.runtime import Session

    places: dict[str, Any] = {"device": arguments.device, "graph_capture": arguments.graph}
    if arguments.model.is_dir() or arguments.model.suffix in (".hipc", ".so"):
        return Session(arguments.model, arguments.threads, **places)
    from hip_compiler.cli.progress import Progress
    from hip_compiler.core.driver import compile_model

    with Progress() as progress:
        compiled = compile_model(arguments.model, compile_options(arguments), progress=progress)
    return Session(compiled.artifact, arguments.threads, **places)


def _summary(name: str, array: Any) -> dict[str, Any]:
    import numpy as np

    kind = "string" if array.dtype == object else str(array.dtype)
    row: dict[str, Any] = {"output": name, "dtype": kind, "shape": list(array.shape)}
    plain = np.asarray(array, np.float64) if array.dtype.kind not in "cOSU" else None
    measures = (("min", np.min), ("max", np.max), ("mean", np.mean))
    for label, measure in measures:
        known = plain is not None and plain.size > 0
        row[label] = float(f"{measure(plain):.6g}") if known and plain is not None else "-"
    return row
