"""Times a language model: time to the first token and tokens a second, engines side by side."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from hip_compiler.generate.engines import Engine
from hip_compiler.generate.timing import SETTLED, Sample, sample, undisturbed, waited

PROMPTS = (16, 128, 512, 2048)
DECODED = 32
WARM_UP = 2
"""Tokens after the prompt in the turn that does not count."""


@dataclass(frozen=True)
class Figure:
    """One engine at one prompt length: milliseconds to the first token, and tokens a second after it."""

    engine: str
    prompt: int
    first_ms: float
    tokens_per_second: float


@dataclass(frozen=True)
class Measured:
    """Figures in the order of the prompts, and the share of the time in which threads had no core to run on."""

    figures: list[Figure]
    waiting: float


def measure(
    engines: Sequence[Engine],
    prompts: Sequence[int],
    vocabulary: int,
    *,
    threads: int,
    rounds: int,
    seconds: float,
) -> Measured:
    """Every engine at every prompt length.

    Engines take turns of a prompt and `DECODED` tokens, so that all meet the same machine, and rest in between, so that
    none meets the waiting threads of the one before. There is one turn at least; after `seconds` none begins.
    """
    draw = np.random.default_rng(0)
    figures, took, idle = [], 0.0, 0.0
    for prompt in prompts:
        tokens = [int(token) for token in draw.integers(0, vocabulary, prompt + DECODED)]
        first: dict[str, list[Sample]] = {engine.name: [] for engine in engines}
        rest: dict[str, list[Sample]] = {engine.name: [] for engine in engines}
        begun = time.perf_counter()
        for turn in range(rounds + 1):
            if turn > 1 and time.perf_counter() - begun > seconds:
                break
            for engine in engines:
                time.sleep(SETTLED)
                start, before = time.perf_counter(), waited()
                began = sample(partial(engine.begin, tokens[:prompt], prompt + DECODED + 1))
                following = tokens[prompt:] if turn else tokens[prompt : prompt + WARM_UP]
                steps = [sample(partial(engine.step, token)) for token in following]
                took, idle = took + time.perf_counter() - start, idle + waited() - before
                if turn:
                    first[engine.name].append(began)
                    rest[engine.name] += steps
        figures += [
            Figure(
                engine.name,
                prompt,
                1e3 * undisturbed(first[engine.name], threads),
                1 / undisturbed(rest[engine.name], threads),
            )
            for engine in engines
        ]
    return Measured(figures, min(1.0, idle / (took * threads)) if took else 0.0)
