"""Every case that is disputed has evidence: a random operator, or expected values farther from the truth than ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import hip_compiler
from benchmarks.disputed import DISPUTED
from tests.node_cases import node_cases

RANDOM = {"Bernoulli", "Dropout", "RandomUniformLike"}


def truth_of_dft(x: np.ndarray) -> np.ndarray:
    """The inverse transform of [batch, n, m, 2] along axis 1, in double precision."""
    wide = x.astype(np.float64)
    result = np.fft.ifft(wide[..., 0] + 1j * wide[..., 1], axis=1)
    return np.stack([result.real, result.imag], -1)


def truth_of_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Causal attention over [batch, head, position, size], in double precision."""
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones(scores.shape[-2:])) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ v)


TRUTHS: dict[str, Callable[..., np.ndarray]] = {"test_dft": truth_of_dft, "test_attention": truth_of_attention}


def is_a_draw(case: Any) -> None:
    """What a random case gives is something that its definition can give."""
    (inputs, expected), graph = case.data_sets[0], case.model.graph
    feeds = {info.name: array for info, array in zip(graph.input, inputs, strict=True)}
    with hip_compiler.compile(case.model) as session:
        found = list(session.run(feeds).values())
    assert [(a.dtype, a.shape) for a in found] == [(a.dtype, a.shape) for a in expected], case.name
    if graph.node[0].op_type == "Dropout":
        x, ratio = inputs[0], float(inputs[1]) if len(inputs) > 1 else 0.5
        kept = found[1] if len(found) > 1 else found[0] != 0
        np.testing.assert_allclose(found[0], np.where(kept, x / (1 - ratio), 0), rtol=1e-5)
        assert 0 < kept.sum() < x.size
    else:
        assert np.isin(found[0], (0, 1)).all()
        assert (found[0] <= (inputs[0] > 0)).all()


def test_every_disputed_case_is_random_or_farther_from_the_truth_than_ours() -> None:
    """One test, as making ONNX's cases takes longer than all that follows."""
    known: dict[str, Any] = {case.name: case for case in node_cases()}
    computed = 0
    for name in DISPUTED:
        case = known[name]
        if RANDOM & {node.op_type for node in case.model.graph.node}:
            is_a_draw(case)
            continue
        truth = next(function for start, function in TRUTHS.items() if name.startswith(start))
        inputs, outputs = case.data_sets[0]
        feeds = {info.name: array for info, array in zip(case.model.graph.input, inputs, strict=True)}
        with hip_compiler.compile(case.model) as session:
            (found,) = session.run(feeds).values()
        exact = truth(*(array for array in inputs if array.ndim))
        ours = np.abs(found.astype(np.float64) - exact).max()
        theirs = np.abs(outputs[0].astype(np.float64) - exact).max()
        assert 0 < ours < theirs, name
        computed += 1
    assert computed == 3
