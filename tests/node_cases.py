"""ONNX's own cases of single nodes, computed once per process: that takes seconds."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any


@cache
def node_cases() -> list[Any]:
    """Every case: `name`, `model`, `data_sets`."""
    with warnings.catch_warnings():
        # ONNX computes some of its cases with overflows and divisions by zero, as they are meant to.
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return list(load_model_tests(kind="node"))
