"""How the next token is chosen from logits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from hip_compiler.errors import ErrorCode, HipCompilerError


@dataclass(frozen=True)
class Sampling:
    """Settings of the choice of tokens.

    Attributes:
        temperature: divides the logits; 0: the most likely token, always.
        top_k: choose among so many most likely tokens; 0: among all.
        top_p: choose among the fewest most likely tokens whose probabilities sum up to this.
        repetition_penalty: divides positive logits of tokens that were there, and multiplies negative ones.
        seed: of the choices; None: another one each time.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        rules = {
            "temperature": (self.temperature >= 0 and math.isfinite(self.temperature), "a number from 0 on"),
            "top_k": (self.top_k >= 0, "a count, or 0 for all"),
            "top_p": (0 < self.top_p <= 1, "above 0, at most 1"),
            "repetition_penalty": (
                self.repetition_penalty > 0 and math.isfinite(self.repetition_penalty),
                "a number above 0",
            ),
        }
        for name, (holds, what) in rules.items():
            if not holds:
                raise HipCompilerError(ErrorCode.USAGE, f"{name} = {getattr(self, name)} is not {what}")

    @classmethod
    def from_search(cls, search: Mapping[str, Any], **chosen: Any) -> Self:
        """Settings of a `search` section of genai_config.json; `chosen` ones that are not None replace them."""
        known = {field.name for field in fields(cls)}
        found = {name: value for name, value in search.items() if name in known and value is not None}
        if not search.get("do_sample", False):
            found["temperature"] = 0.0
        return cls(**(found | {name: value for name, value in chosen.items() if value is not None}))


class Sampler:
    """Chooses tokens one after the other."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self._random = np.random.default_rng(sampling.seed)

    def choose(self, logits: np.ndarray, history: Sequence[int]) -> int:
        """The next token.

        Args:
            logits: `[vocabulary]`, of any float type; it is not changed.
            history: tokens so far, those of the prompt included.

        Raises:
            HipCompilerError: `HIPC0701`, when the logits are not numbers.
        """
        s = self.sampling
        if s.repetition_penalty != 1 and history:
            logits = _penalised(logits.astype(np.float32), np.unique(history), s.repetition_penalty)
        best = int(np.argmax(logits))
        if np.isnan(logits[best]):
            raise HipCompilerError(ErrorCode.RUN_FAILED, "the model's logits are not numbers (NaN)")
        if s.temperature == 0 or s.top_k == 1:
            return best
        tokens, probabilities = candidates(logits, s)
        place = int(np.searchsorted(np.cumsum(probabilities), self._random.random(), side="right"))
        return int(tokens[min(place, len(tokens) - 1)])


def candidates(logits: np.ndarray, sampling: Sampling) -> tuple[np.ndarray, np.ndarray]:
    """Tokens that may be chosen, most likely first, and their probabilities (float64, sum 1)."""
    values = logits.astype(np.float64) / sampling.temperature
    count = min(sampling.top_k or len(values), len(values))
    tokens = np.argpartition(-values, count - 1)[:count] if count < len(values) else np.arange(count)
    tokens = tokens[np.argsort(-values[tokens], kind="stable")]
    weights = np.exp(values[tokens] - values[tokens[0]])
    weights /= weights.sum()
    if sampling.top_p < 1:
        kept = int(np.searchsorted(np.cumsum(weights), sampling.top_p)) + 1
        tokens, weights = tokens[:kept], weights[:kept]
    return tokens, weights / weights.sum()


def _penalised(logits: np.ndarray, tokens: np.ndarray, penalty: float) -> np.ndarray:
    seen = logits[tokens]
    logits[tokens] = np.where(seen > 0, seen / penalty, seen * penalty)
    return logits
