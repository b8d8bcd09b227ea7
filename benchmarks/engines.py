"""One engine with one network in a process of its own, so that its memory can be told from the other's."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.process import Message, serve
from tests.models import Feeds, Model, find

Arrays: TypeAlias = dict[str, NDArray[Any]]
Run: TypeAlias = Callable[[Feeds], Arrays]

OURS, THEIRS = "hip-compiler", "onnxruntime"


def compile_ours(model: Model, artifact: Path) -> Message:
    """Compiles the network and saves it: `seconds`, and `peak_mb` of the process."""
    import hip_compiler

    start = time.perf_counter()
    session = hip_compiler.compile(model.path(), target="host")
    seconds = time.perf_counter() - start
    session.save(artifact)
    return {"seconds": seconds, "peak_mb": peak_megabytes()}


def load_ours(artifact: Path) -> Run:
    """A saved artifact; HIPC_NUM_THREADS says how many threads it may use."""
    import hip_compiler

    run: Run = hip_compiler.load(artifact).run
    return run


def load_theirs(model: Model, threads: int) -> Run:
    """A session of ONNX Runtime's CPU provider, with its default optimisations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model.path()), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(names, feeds), strict=True))


def peak_megabytes() -> float:
    """Largest resident set of this process so far. (`getrusage` would count the parent's, from before the exec.)"""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel reports no VmHWM")


class Engine:
    """Answers the questions of `benchmarks.run` about one engine and one network."""

    def __init__(self, model: Model, load: Callable[[], Run]) -> None:
        self._model = model
        self._load = load
        self._run: Run | None = None
        self._feeds = model.feeds(0)

    def start(self) -> Message:
        """Loads and runs once: `load_s`, `first_ms`."""
        begin = time.perf_counter()
        self._run = self._load()
        loaded = time.perf_counter()
        self._run(self._feeds)
        done = time.perf_counter()
        return {"load_s": loaded - begin, "first_ms": 1e3 * (done - loaded)}

    def times(self, count: int) -> Message:
        """Runs `count` times at the first extents: milliseconds of each."""
        assert self._run is not None
        stamps = [time.perf_counter()]
        for _ in range(count):
            self._run(self._feeds)
            stamps.append(time.perf_counter())
        return {"ms": [1e3 * (b - a) for a, b in pairwise(stamps)], "peak_mb": peak_megabytes()}

    def save_outputs(self, path: Path) -> Message:
        """Runs at every extents and saves all outputs, as `INDEX/NAME`."""
        assert self._run is not None
        arrays: Arrays = {}
        for index in range(len(self._model.extents)):
            outputs: Mapping[str, NDArray[Any]] = self._run(self._model.feeds(index))
            arrays |= {f"{index}/{name}".replace("/", "|"): np.asarray(value) for name, value in outputs.items()}
        np.savez(path, allow_pickle=False, **arrays)
        return {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=(OURS, THEIRS))
    parser.add_argument("key", help="network of the catalogue")
    parser.add_argument("artifact", type=Path, help="where hip-compiler's artifact is, or goes")
    parser.add_argument("threads", type=int)
    arguments = parser.parse_args()
    model = find(arguments.key)

    def load() -> Run:
        if arguments.engine == OURS:
            return load_ours(arguments.artifact)
        return load_theirs(model, arguments.threads)

    engine = Engine(model, load)

    def answer(question: Message) -> Message:
        try:
            match question["do"]:
                case "compile":
                    return compile_ours(model, arguments.artifact)
                case "start":
                    return engine.start()
                case "times":
                    return engine.times(question["count"])
                case "outputs":
                    return engine.save_outputs(Path(question["path"]))
        except Exception as error:  # noqa: BLE001  the asker reports it beside the network's name
            return {"error": str(error) or type(error).__name__}
        return {"error": f"no such question: {question}"}

    serve(answer)


if __name__ == "__main__":
    main()
