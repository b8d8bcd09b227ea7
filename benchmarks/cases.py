"""ONNX's backend tests as single cases, each run through ONNX's own runner and put into one of four classes."""

from __future__ import annotations

import argparse
import importlib
import time
import unittest
import warnings
from typing import Any

import numpy as np
from onnx.backend.test.runner import Runner

from benchmarks.disputed import DISPUTED
from benchmarks.process import Message, serve
from hip_compiler.errors import ErrorCode, HipCompilerError

BACKENDS = {"hip-compiler": "hip_compiler.backend", "onnxruntime": "onnxruntime.backend"}

DETAIL = 400


class RefusedError(Exception):
    """The backend says that it cannot run the model. (The runner would count its own exception as success.)"""


class _Prepared:
    """A prepared model whose refusals reach us through the runner, and that counts its runs."""

    def __init__(self, owner: _Refusing, prepared: Any) -> None:
        self._owner, self._prepared = owner, prepared

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        self._owner.runs += 1
        try:
            return self._prepared.run(inputs, **kwargs)
        except unittest.SkipTest as refusal:
            raise RefusedError(str(refusal)) from refusal


class _Refusing:
    """A backend whose refusals reach us through the runner.

    Attributes:
        runs: how often a model was run.
    """

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.runs = 0

    def supports_device(self, device: str) -> bool:
        return device == "CPU" and bool(self._backend.supports_device(device))

    def is_compatible(self, model: Any) -> bool:
        return True

    def prepare(self, model: Any, device: str, **kwargs: Any) -> Any:
        try:
            return _Prepared(self, self._backend.prepare(model, device, **kwargs))
        except unittest.SkipTest as refusal:
            raise RefusedError(str(refusal)) from refusal


class _Runner(Runner):
    """ONNX's runner, which also compares tensors of rank 0 in sequences: those it takes the length of, and fails."""

    @classmethod
    def assert_similar_outputs(cls, ref_outputs: Any, outputs: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(ref_outputs, np.ndarray) and isinstance(outputs, np.ndarray):
            ref_outputs, outputs = [ref_outputs], [outputs]
        super().assert_similar_outputs(ref_outputs, outputs, *args, **kwargs)


class Cases:
    """Every case of ONNX's backend tests.

    Args:
        backend: module or object with ONNX's backend interface.
    """

    def __init__(self, backend: Any) -> None:
        self._backend = _Refusing(backend)
        self._tests: dict[str, tuple[str, unittest.TestCase]] = {}
        runner_backend: Any = self._backend  # the runner asks for a class, and is content with its methods
        with warnings.catch_warnings():
            # ONNX makes its cases as they are listed; casting what does not fit warns, as it should there.
            warnings.simplefilter("ignore")
            runner = _Runner(runner_backend, __name__)
        for category, test_class in runner.test_cases.items():
            for method in dir(test_class):
                if method.startswith("test_") and method.endswith("_cpu"):
                    kind = category.removeprefix("OnnxBackend").removesuffix("Test").removesuffix("Model")
                    self._tests[method.removesuffix("_cpu")] = (kind, test_class(method))

    def kinds(self) -> dict[str, str]:
        """Name of each case -> its kind: Node, Simple, PyTorchOperator, PyTorchConverted or Real."""
        return {name: kind for name, (kind, _) in self._tests.items()}

    def run(self, name: str) -> Message:
        """Runs one case: its `status` (passed, unsupported, disputed or failed), `detail` and `seconds`."""
        _, test = self._tests[name]
        start = time.perf_counter()
        status, detail = "passed", ""
        try:
            runs = self._backend.runs
            getattr(test, f"{name}_cpu")()
            if self._backend.runs == runs:
                status, detail = "failed", "the case ran no model"
        except RefusedError as refusal:
            status, detail = "unsupported", str(refusal)
        except HipCompilerError as error:
            status = "unsupported" if error.code is ErrorCode.UNSUPPORTED else "failed"
            detail = " ".join(str(error).split())
        except AssertionError as error:
            status, detail = "failed", f"{type(error).__name__}: {' '.join(str(error).split())}"
            if name in DISPUTED:
                status, detail = "disputed", f"{DISPUTED[name]}; {detail}"
        except Exception as error:  # noqa: BLE001  whatever a case raises is its result
            status, detail = "failed", f"{type(error).__name__}: {' '.join(str(error).split())}"
        return {"status": status, "detail": detail[:DETAIL], "seconds": time.perf_counter() - start}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=BACKENDS)
    cases = Cases(importlib.import_module(BACKENDS[parser.parse_args().engine]))

    def answer(question: Message) -> Message:
        return cases.run(question["run"]) if "run" in question else {"kinds": cases.kinds()}

    serve(answer)


if __name__ == "__main__":
    main()
