"""Engines that `bench-llm` times: a prompt, then token after token."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import hip_compiler
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.generate.config import read_config
from hip_compiler.generate.decoder import Decoder


class Engine(Protocol):
    """Runs a prompt, then token after token; each call returns when the logits are there."""

    name: str

    def begin(self, tokens: Sequence[int], capacity: int) -> None:
        """Run the prompt of a new sequence."""

    def step(self, token: int) -> None:
        """Run one more token."""


class Ours:
    """hip-compiler."""

    name = "hip-compiler"

    def __init__(self, folder: Path, threads: int, cache: bool) -> None:
        self._config = read_config(folder)
        self._session = hip_compiler.compile(
            self._config.graph, num_threads=threads, cache=cache, last_position=self._config.logits
        )
        self._decoder: Decoder | None = None

    def close(self) -> None:
        self._session.close()

    def begin(self, tokens: Sequence[int], capacity: int) -> None:
        # Memory of a new sequence's caches belongs to its first token, with every engine.
        self._decoder = Decoder(self._session, self._config, capacity)
        self._decoder.run(tokens)

    def step(self, token: int) -> None:
        assert self._decoder is not None
        self._decoder.run([token])


class OnnxRuntimeGenAI:
    """onnxruntime-genai on the same folder. Its work for one token includes the choice of the most likely one."""

    name = "onnxruntime-genai"

    def __init__(self, folder: Path, threads: int) -> None:
        import onnxruntime_genai as genai

        self._genai: Any = genai
        overlay = {"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}
        config = genai.Config(str(folder))
        config.clear_providers()
        config.overlay(json.dumps(overlay))
        self._model = genai.Model(config)
        self._generator: Any = None

    def begin(self, tokens: Sequence[int], capacity: int) -> None:
        params = self._genai.GeneratorParams(self._model)
        params.set_search_options(max_length=capacity, do_sample=False)
        self._generator = self._genai.Generator(self._model, params)
        self._generator.append_tokens(np.array(tokens, np.int32))
        self._generator.generate_next_token()

    def step(self, token: int) -> None:
        # It continues with the token that it chose: which one makes no difference to the time.
        self._generator.generate_next_token()


class OnnxRuntime:
    """The graph in ONNX Runtime, its caches handed over as values without copies."""

    name = "onnxruntime"

    def __init__(self, folder: Path, threads: int) -> None:
        import onnxruntime

        self._ort: Any = onnxruntime
        self._config = read_config(folder)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            str(self._config.graph), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = {entry.name: entry for entry in self._session.get_inputs()}
        self._states: dict[str, Any] = {}
        self._last: Any = None
        self._length = 0

    def begin(self, tokens: Sequence[int], capacity: int) -> None:
        self._length = 0
        self._states = {past: self._empty(self._inputs[past]) for past in self._config.states if past in self._inputs}
        self._run(tokens)

    def step(self, token: int) -> None:
        self._run([token])

    @property
    def logits(self) -> np.ndarray:
        """`[vocabulary]`, after the last token."""
        return np.asarray(self._last.numpy()[0, -1])

    def _run(self, tokens: Sequence[int]) -> None:
        total = self._length + len(tokens)
        feeds = {
            "input_ids": np.array([tokens], np.int64),
            "attention_mask": np.ones((1, total), np.int64),
            "position_ids": np.arange(self._length, total, dtype=np.int64)[None],
        }
        value = self._ort.OrtValue.ortvalue_from_numpy
        given = {name: value(array) for name, array in feeds.items() if name in self._inputs}
        names = [self._config.logits, *(self._config.states[past] for past in self._states)]
        results = self._session.run_with_ort_values(names, given | self._states)
        self._last = results[0]
        self._states = dict(zip(self._states, results[1:], strict=True))
        self._length = total

    def _empty(self, entry: Any) -> Any:
        known = {0: 1, 2: 0, 3: self._config.head_size}
        shape = [known.get(axis, 0) if isinstance(size, str) else size for axis, size in enumerate(entry.shape)]
        dtype = {"tensor(float)": np.float32, "tensor(float16)": np.float16}[entry.type]
        return self._ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, dtype))


PEERS: Mapping[str, Callable[[Path, int], Engine]] = {
    OnnxRuntimeGenAI.name: OnnxRuntimeGenAI,
    OnnxRuntime.name: OnnxRuntime,
}


@contextmanager
def engines(folder: Path, threads: int, beside: Sequence[str], *, cache: bool) -> Iterator[list[Engine]]:
    """Ours, then those beside it that are installed.

    Raises:
        HipCompilerError: `HIPC0001`, for an engine that is not known.
    """
    for name in beside:
        if name not in PEERS:
            raise HipCompilerError(ErrorCode.USAGE, f"no engine '{name}'", hint=f"there are {', '.join(PEERS)}")
    ours = Ours(folder, threads, cache)
    found: list[Engine] = [ours]
    for name in beside:
        try:
            found.append(PEERS[name](folder, threads))
        except ImportError:
            continue
    try:
        yield found
    finally:
        ours.close()
