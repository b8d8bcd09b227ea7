"""A decoder's graph with its caches: a prompt at once, then token after token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.generate.config import ModelConfig, refused
from hip_compiler.runtime import Session, empty

ROLES = ("input_ids", "attention_mask", "position_ids")
POSITION_AXIS = 2
WINDOW = "hip.kv_window"


class Decoder:
    """One sequence of tokens, as it grows.

    Caches that the program appends to in place have one buffer each, of `capacity` positions, for input and output:
    a step writes its own positions and copies nothing. States of another kind go around as arrays of their own.

    Args:
        session: the compiled graph.
        config: what the graph's inputs and outputs are for.
        capacity: most positions of the sequence.
        share: False: caches get new memory in every step. Slower; the results are the same.

    Attributes:
        length: positions so far.

    Raises:
        HipCompilerError: `HIPC0103`, when the graph is not what the config says.
    """

    def __init__(self, session: Session, config: ModelConfig, capacity: int, *, share: bool = True) -> None:
        if capacity < 1:
            raise HipCompilerError(ErrorCode.USAGE, f"a sequence of {capacity} positions")
        self.capacity = capacity
        self.length = 0
        self._head_size = config.head_size
        self._logits = config.logits
        self._infos = {info.name: info for info in session.metadata.inputs}
        self._names = {role: config.inputs[role] for role in ROLES if config.inputs.get(role) in self._infos}
        states = {past: present for past, present in config.states.items() if past in self._infos}
        _check_interface(session, config, set(self._names.values()) | states.keys())
        pairs = dict(session.metadata.shared)
        shared = {past: present for past, present in states.items() if share and pairs.get(past) == present}
        # Layers with a window may have caches of every position all the same: then none is cut to a window.
        self._windows = dict(config.windows) if session.metadata.ops.get(WINDOW) else {}
        self._caches = {past: self._zeros(past, capacity) for past in shared}
        self._moving = {past: present for past, present in states.items() if past not in shared}
        outputs = {present: self._caches[past] for past, present in shared.items()}
        self._binding = session.bind(self._caches, outputs)
        self._states: dict[str, np.ndarray] = {}
        self._ones = np.ones((1, capacity), self._dtype("attention_mask"))
        self.reset()

    @property
    def cache_bytes(self) -> int:
        """Bytes of the caches and states now held."""
        return sum(array.nbytes for array in (*self._caches.values(), *self._states.values()))

    def reset(self) -> None:
        """Begin another sequence."""
        self.length = 0
        self._states = {past: self._zeros(past, 0) for past in self._moving}

    def run(self, tokens: Sequence[int]) -> np.ndarray:
        """Append tokens to the sequence.

        Returns:
            Logits `[vocabulary]` after the last of them.

        Raises:
            HipCompilerError: `HIPC0001`, when there are none; `HIPC0700`, when the capacity does not hold them.
        """
        count, total = len(tokens), self.length + len(tokens)
        if not count:
            raise HipCompilerError(ErrorCode.USAGE, "no tokens to run the model on")
        if total > self.capacity:
            raise HipCompilerError(
                ErrorCode.FEED,
                f"the caches hold {self.capacity} positions; {total} are needed",
                hint="give a larger capacity (max_length), or a shorter prompt",
            )
        results = self._binding.run(self._feeds(tokens, count, total) | self._states)
        self._states = {past: results[present] for past, present in self._moving.items()}
        self.length = total
        return np.asarray(results[self._logits][0, -1])

    def _feeds(self, tokens: Sequence[int], count: int, total: int) -> dict[str, Any]:
        made: dict[str, Any] = {"input_ids": np.array([tokens], self._dtype("input_ids"))}
        if "attention_mask" in self._names:
            made["attention_mask"] = self._ones[:, :total]
        if "position_ids" in self._names:
            made["position_ids"] = np.arange(self.length, total, dtype=self._dtype("position_ids"))[None]
        return {self._names[role]: array for role, array in made.items()}

    def _zeros(self, past: str, positions: int) -> np.ndarray:
        """A state of one sequence; the graph leaves the batch, the positions and the head's size open."""
        info = self._infos[past]
        known = {0: 1, POSITION_AXIS: self._windows.get(past, positions), 3: self._head_size}
        shape = tuple(known.get(axis, 0) if isinstance(size, str) else size for axis, size in enumerate(info.shape))
        dtype = info.dtype.numpy
        assert dtype is not None, "a session has arrays only"
        array = empty(shape, dtype)
        array[...] = 0
        return array

    def _dtype(self, role: str) -> Any:
        info = self._infos.get(self._names.get(role, ""))
        return np.int64 if info is None else info.dtype.numpy


def _check_interface(session: Session, config: ModelConfig, fed: set[str]) -> None:
    missing = [name for name in (config.inputs.get("input_ids", "input_ids"),) if name not in fed]
    if missing:
        raise refused(f"the graph has no input '{missing[0]}'", hint="only graphs that take tokens are run here")
    strange = [info.name for info in session.metadata.inputs if info.name not in fed]
    if strange:
        raise refused(f"the graph's input '{strange[0]}' is for nothing that the folder's description names")
    outputs = {info.name for info in session.metadata.outputs}
    for name in (config.logits, *(present for past, present in config.states.items() if past in fed)):
        if name not in outputs:
            raise refused(f"the graph has no output '{name}'")
