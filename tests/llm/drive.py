"""Runs decoder graphs with input_ids, attention_mask and states that go around: a prompt, then token after token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from hip_compiler.dtypes import BY_ONNX
from hip_compiler.ort import PROVIDER, register

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Arrays]


def state_names(inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
    """Output of a state -> the input that it becomes: present.0.key -> past_key_values.0.key, and the like."""
    taken = {}
    for name in outputs:
        if not name.startswith("present"):
            continue
        rest = name.removeprefix("present")
        taken[name] = next(start + rest for start in ("past_key_values", "past") if start + rest in inputs)
    return taken


def empty_states(model: onnx.ModelProto, size: int, *, batch: int = 1, window: int = 0) -> Arrays:
    """Caches without positions, zeros for states of one size and for caches of a window's capacity, by input name."""
    named = {"batch_size": batch, "kv_cache_dim": size, "past_sliding_length": window}
    return {
        entry.name: np.zeros(
            [extent.dim_value or named.get(extent.dim_param, 0) for extent in entry.type.tensor_type.shape.dim],
            BY_ONNX[entry.type.tensor_type.elem_type].numpy,
        )
        for entry in model.graph.input
        if entry.name.startswith("past")
    }


def steps(run: Run, states: Arrays, names: Mapping[str, str], tokens: np.ndarray, prompt: int) -> Iterator[np.ndarray]:
    """Logits of the prompt `tokens[:, :prompt]`, then of every further token; states go around."""
    bounds = [0, *range(prompt, tokens.shape[1] + 1)]
    for first, last in pairwise(bounds):
        feeds = {"input_ids": tokens[:, first:last], "attention_mask": np.ones((len(tokens), last), np.int64), **states}
        results = run(feeds)
        states = {past: np.array(results[present]) for present, past in names.items()}
        yield np.array(results["logits"])


def onnx_runtime(model: Path | bytes, threads: int = 1) -> Run:
    """The graph in ONNX Runtime on the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    source: Any = model if isinstance(model, bytes) else str(model)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(None, feeds), strict=True))


def provider(model: Path | bytes, **chosen: str) -> Run:
    """The graph in ONNX Runtime with our provider, whole."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_provider_for_devices(register(), {"strict": "1", **chosen})
    source: Any = model if isinstance(model, bytes) else str(model)
    session = onnxruntime.InferenceSession(source, options, enable_fallback=0)
    assert session.get_providers()[0] == PROVIDER
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(None, feeds), strict=True))
