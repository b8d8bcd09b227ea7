"""SmolLM2-135M in the graphs of onnxruntime-genai's builder: the same text, the same perplexity.

The graphs take minutes to build and packages that the other tests do without: `make llm-models` builds them,
`make llm-test` runs these tests.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import hip_compiler
from hip_compiler.generate import Decoder, LanguageModel, ModelConfig, Sampling, Tokenizer, read_config
from hip_compiler.runtime import Session
from tests.models.genai import RECIPES, built_folder

pytestmark = pytest.mark.llm

PROMPTS = ("The capital of France is", "def fibonacci(n):\n", "Water boils at a temperature of")
TOKENS = 64
TEXT = (Path(__file__).parents[2] / "LICENSE").read_text(encoding="utf-8")
WINDOW = 512


def folder_of(key: str) -> Path:
    folder = built_folder(key)
    if folder is None:
        pytest.skip(f"the graph {key} is not built: make llm-models")
    pytest.importorskip("tokenizers", reason="the package tokenizers is not installed: pip install '.[llm]'")
    return folder


@cache
def theirs(key: str, prompt: tuple[int, ...]) -> tuple[int, ...]:
    """Greedy tokens of onnxruntime-genai."""
    genai: Any = pytest.importorskip(
        "onnxruntime_genai", reason="the package onnxruntime-genai is not installed: pip install '.[llm-models]'"
    )
    model = genai.Model(str(folder_of(key)))
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=len(prompt) + TOKENS, do_sample=False)
    generator = genai.Generator(model, params)
    generator.append_tokens(np.array(prompt, np.int32))
    found: list[int] = []
    while not generator.is_done() and len(found) < TOKENS:
        generator.generate_next_token()
        found.append(int(generator.get_next_tokens()[0]))
    return tuple(found)


def test_float32_text_is_that_of_onnxruntime_genai() -> None:
    with LanguageModel(folder_of("smollm2-fp32"), cache=False) as model:
        for prompt in PROMPTS:
            tokens = model.tokenizer.encode(prompt)
            result = model.generate(tokens, Sampling(), max_new_tokens=TOKENS)
            assert tuple(result.tokens) == theirs("smollm2-fp32", tuple(tokens))
            if prompt == PROMPTS[0]:
                assert "Paris" in result.text


@pytest.mark.parametrize("key", ["smollm2-int4", "smollm2-int4-asym", "smollm2-int8"])
def test_few_bits_give_the_same_text_up_to_near_ties(key: str) -> None:
    """Logits after the tokens that onnxruntime-genai chose; how far rounded activations may lead is computed.

    The exact graph is the same one without rounding. ONNX Runtime is some way off it, and we may be as far on the other
    side; a token may differ only where the two best ones are nearer to each other than that.
    """
    folder = folder_of(key)
    config, tokenizer = read_config(folder), Tokenizer(folder)
    exact_model = _exact(config)
    with (
        hip_compiler.compile(config.graph, last_position="logits") as session,
        hip_compiler.compile(exact_model, last_position="logits") as exact_session,
    ):
        for prompt in PROMPTS:
            tokens = tuple(tokenizer.encode(prompt))
            chosen = theirs(key, tokens)
            ours, exact = (_forced(one, config, tokens, chosen) for one in (session, exact_session))
            peer = _forced_in_onnx_runtime(config, tokens, chosen)
            own_error, error = (np.sqrt(np.mean((a - exact) ** 2)) for a in (ours, peer))
            assert 0 < own_error < 1.3 * error, "rounded more than accuracy level 4 does in ONNX Runtime"
            apart = np.abs(ours - peer).max(-1)
            assert np.all(apart < 2.5 * np.abs(peer - exact).max())
            for step, token in enumerate(chosen):
                if int(ours[step].argmax()) == token:
                    continue
                best, second = np.sort(peer[step])[:-3:-1]
                assert best - second < 2 * apart[step], f"token {step} differs, and it is no near-tie"


@pytest.mark.parametrize("key", [key for key in RECIPES if key.startswith("smollm2-")])
def test_perplexity_is_that_of_onnx_runtime(key: str) -> None:
    """The mean over windows that overlap: each token is scored after several contexts.

    Rounded activations move single tokens to either side, in both engines, and by chance: few tokens measure that.
    """
    config, tokenizer = read_config(folder_of(key)), Tokenizer(folder_of(key))
    tokens = tokenizer.encode(TEXT)
    windows = [tokens[start : start + WINDOW] for start in range(0, len(tokens) - WINDOW // 2, WINDOW // 2)]
    assert sum(map(len, windows)) > 4000
    peer = onnxruntime.InferenceSession(str(config.graph), providers=["CPUExecutionProvider"])
    ours, theirs = [], []
    with hip_compiler.compile(config.graph) as session:
        states = _empty(session, config)
        for window in windows:
            mask = np.ones((1, len(window)), np.int64)
            feeds = {"input_ids": np.array([window]), "attention_mask": mask, **states}
            ours.append(likelihoods(session.run(feeds)["logits"], window))
            theirs.append(likelihoods(peer.run(["logits"], feeds)[0], window))
    found, expected = (float(np.exp(-np.concatenate(scores).mean())) for scores in (ours, theirs))
    print(f"{key}: perplexity {found:.4f}, ONNX Runtime {expected:.4f}, {found / expected - 1:+.3%}")
    assert 2 < expected < 200
    assert abs(found / expected - 1) < (0.005 if "int" in key else 0.001)


def likelihoods(logits: np.ndarray, tokens: list[int]) -> np.ndarray:
    """Logarithms of the probabilities of all tokens but the first."""
    scores = logits[0, :-1].astype(np.float64)
    scores -= scores.max(-1, keepdims=True)
    return np.asarray(scores[np.arange(len(tokens) - 1), tokens[1:]] - np.log(np.exp(scores).sum(-1)))


def _exact(config: ModelConfig) -> onnx.ModelProto:
    model = onnx.load(config.graph)
    for node in model.graph.node:
        for entry in node.attribute:
            if entry.name == "accuracy_level":
                entry.i = 0
    return model


def _forced(session: Session, config: ModelConfig, prompt: tuple[int, ...], chosen: tuple[int, ...]) -> np.ndarray:
    decoder = Decoder(session, config, len(prompt) + len(chosen))
    rows = [decoder.run(prompt), *(decoder.run([token]) for token in chosen[:-1])]
    return np.stack(rows).astype(np.float64)


def _forced_in_onnx_runtime(config: ModelConfig, prompt: tuple[int, ...], chosen: tuple[int, ...]) -> np.ndarray:
    """One run over prompt and tokens would round rows together with others; caches go around instead."""
    from hip_compiler.generate.engines import OnnxRuntime

    engine = OnnxRuntime(config.graph.parent, 1)
    engine.begin(prompt, len(prompt) + len(chosen))
    rows = [engine.logits]
    for token in chosen[:-1]:
        engine.step(token)
        rows.append(engine.logits)
    return np.stack(rows).astype(np.float64)


def _empty(session: Session, config: ModelConfig) -> dict[str, np.ndarray]:
    known = {0: 1, 2: 0, 3: config.head_size}
    return {
        info.name: np.zeros(
            [known[axis] if isinstance(size, str) else size for axis, size in enumerate(info.shape)], info.dtype.numpy
        )
        for info in session.metadata.inputs
        if info.name in config.states
    }
