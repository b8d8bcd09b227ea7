"""What the tests draw: extents with 0 and 1 among them, numbers with every special value; and what they compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.parser
from hypothesis import settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

import hip_compiler
from hip_compiler.runtime import Session

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3.4e38, -3.4e38, 1.0, -1.0, 0.5, -2.5)
"""Not a number, infinities, both zeros, denormal and extreme numbers, and a few that are easy to look at."""

extents = st.sampled_from((0, 1, 1, 2, 3, 5, 17))
"""An extent: nothing, one, a few, and one more than a vector."""


def budget(examples: int) -> Any:
    """So many examples, always the same ones; under the profile `fuzz` as many as that says, new ones every time."""
    if settings.get_current_profile_name() == "fuzz":
        return settings(deadline=None, print_blob=True)
    return settings(max_examples=examples, deadline=None, derandomize=True)


def floats(shape: Sequence[int], seed: int, *, special: bool = True) -> np.ndarray:
    """float32 numbers of both signs; about one in three is special."""
    rng = np.random.default_rng(seed)
    numbers = rng.uniform(-4, 4, tuple(shape)).astype(np.float32)
    if special:
        odd = rng.choice(np.array(SPECIAL, np.float32), tuple(shape))
        numbers = np.where(rng.random(tuple(shape)) < 0.3, odd, numbers)
    return np.asarray(numbers, np.float32)


def integers(shape: Sequence[int], seed: int, dtype: Any = np.int32) -> np.ndarray:
    """Integers around 0, and the limits of the type."""
    rng, info = np.random.default_rng(seed), np.iinfo(dtype)
    numbers = rng.integers(max(info.min, -5), 6, tuple(shape)).astype(dtype)
    limits = rng.choice(np.array([info.min, info.max, info.max - 1], dtype), tuple(shape))
    return np.asarray(np.where(rng.random(tuple(shape)) < 0.1, limits, numbers), dtype)


@cache
def model(graph: str, opset: int = 21) -> onnx.ModelProto:
    """A model of one graph in the text form of ONNX."""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{graph}')


@cache
def session(graph: str, opset: int = 21) -> Session:
    """The graph compiled, once for all extents."""
    return hip_compiler.compile(model(graph, opset))


def same_as_reference(graph: str, feeds: Mapping[str, np.ndarray], opset: int = 21, rtol: float = 1e-5) -> None:
    """A run agrees with ONNX's reference evaluator: element types, shapes, numbers, and where there is none."""
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(model(graph, opset)).run(None, dict(feeds))
    found = session(graph, opset).run(dict(feeds))
    for (name, array), wanted in zip(found.items(), expected, strict=True):
        same(array, np.asarray(wanted), name, rtol)


def same(found: np.ndarray, expected: np.ndarray, name: str, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Element type, shape and numbers agree; NaN with NaN, infinities with their sign."""
    assert found.dtype == expected.dtype, f"{name}: {found.dtype} instead of {expected.dtype}"
    assert found.shape == expected.shape, f"{name}: {found.shape} instead of {expected.shape}"
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=name)


def part(extent: int, start: int, end: int, step: int) -> slice:
    """The slice of NumPy that ONNX's numbers mean: bounds count from the end where negative, and are clamped."""
    start, end = (value + extent if value < 0 else value for value in (start, end))
    if step > 0:
        start, end = (min(max(value, 0), extent) for value in (start, end))
        return slice(start, end, step)
    start, end = min(max(start, 0), extent - 1), min(max(end, -1), extent - 1)
    if extent == 0:
        return slice(0, 0)
    return slice(start, None if end < 0 else end, step)
