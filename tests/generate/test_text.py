"""Sampling, streaming, stop strings, chat templates, and the whole model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hip_compiler.errors import HipCompilerError
from hip_compiler.generate import LanguageModel, Sampler, Sampling, Tokenizer, read_config
from hip_compiler.generate.model import StopStrings
from hip_compiler.generate.sampling import candidates
from hip_compiler.generate.tokenizer import TextStream
from tests.generate.conftest import make_folder


@pytest.fixture(scope="module")
def model(llama: Path) -> LanguageModel:
    return LanguageModel(llama, cache=False)


# ---- sampling ---------------------------------------------------------------------------------------------------

LOGITS = np.log(np.array([0.05, 0.4, 0.1, 0.3, 0.15], np.float32))


def test_greedy_takes_the_best() -> None:
    assert Sampler(Sampling()).choose(LOGITS, []) == 1


@pytest.mark.parametrize(
    ("settings", "tokens", "probabilities"),
    [
        ({}, [1, 3, 4, 2, 0], [0.4, 0.3, 0.15, 0.1, 0.05]),
        ({"top_k": 2}, [1, 3], [4 / 7, 3 / 7]),
        ({"top_p": 0.71}, [1, 3, 4], [0.4 / 0.85, 0.3 / 0.85, 0.15 / 0.85]),
        ({"top_p": 0.01}, [1], [1.0]),
        ({"top_k": 4, "top_p": 0.7}, [1, 3], [4 / 7, 3 / 7]),
        ({"temperature": 0.5, "top_k": 2}, [1, 3], [0.16 / 0.25, 0.09 / 0.25]),
    ],
)
def test_candidates(settings: dict[str, float], tokens: list[int], probabilities: list[float]) -> None:
    found, weights = candidates(LOGITS, Sampling(**({"temperature": 1.0} | settings)))  # type: ignore[arg-type]
    assert found.tolist() == tokens
    np.testing.assert_allclose(weights, probabilities, rtol=1e-6)


def test_draws_follow_the_probabilities_and_the_seed() -> None:
    sampler = Sampler(Sampling(temperature=1.0, seed=3))
    drawn = [sampler.choose(LOGITS, []) for _ in range(4000)]
    np.testing.assert_allclose(np.bincount(drawn, minlength=5) / 4000, np.exp(LOGITS), atol=0.03)
    again = Sampler(Sampling(temperature=1.0, seed=3))
    assert drawn[:50] == [again.choose(LOGITS, []) for _ in range(50)]


def test_repetition_penalty_divides_and_multiplies() -> None:
    logits = np.array([2.0, 1.9, -1.0, -1.1], np.float32)
    assert Sampler(Sampling(repetition_penalty=1.2)).choose(logits, [0, 0]) == 1
    negative = np.array([-1.0, -1.1], np.float32)
    assert Sampler(Sampling(repetition_penalty=1.2)).choose(negative, [0]) == 1
    np.testing.assert_array_equal(logits, np.array([2.0, 1.9, -1.0, -1.1], np.float32))


@pytest.mark.parametrize(
    "settings", [{"temperature": -1.0}, {"top_p": 0.0}, {"top_p": 1.5}, {"top_k": -1}, {"repetition_penalty": 0.0}]
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(HipCompilerError, match=next(iter(settings))):
        Sampling(**settings)  # type: ignore[arg-type]


def test_logits_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(HipCompilerError, match="not numbers"):
        Sampler(Sampling()).choose(np.array([1.0, np.nan]), [])


def test_the_folders_settings_count_only_when_it_samples() -> None:
    search = {"do_sample": False, "temperature": 0.7, "top_k": 50, "num_beams": 1}
    assert Sampling.from_search(search) == Sampling(temperature=0.0, top_k=50)
    assert Sampling.from_search(search | {"do_sample": True}).temperature == 0.7
    assert Sampling.from_search(search, temperature=0.3, top_k=None).temperature == 0.3


# ---- text -------------------------------------------------------------------------------------------------------


def test_stop_strings_are_held_back_and_found_across_pieces() -> None:
    stop = StopStrings(["</end>", "STOP"])
    assert [stop.add(piece) for piece in ("one <", "b> two </e", "nd", "x ST", "O", "P more")] == [
        "one ", "<b> two ", "", "</endx ", "", "",
    ]  # fmt: skip
    assert stop.found and stop.finish() == ""
    other = StopStrings(["STOP"])
    assert other.add("a ST") + other.finish() == "a ST" and not other.found


def test_characters_of_several_tokens_appear_whole(llama: Path) -> None:
    tokenizer = Tokenizer(llama)
    tokens = tokenizer.encode("is ä the é")
    stream = TextStream(tokenizer)
    pieces = [stream.add(token) for token in tokens]
    assert "".join(pieces) + stream.finish() == "is ä the é"
    assert "" in pieces and not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)


def test_chat_template(llama: Path) -> None:
    prompt = Tokenizer(llama).chat([{"role": "system", "content": "be"}, {"role": "user", "content": "is it?"}])
    assert prompt == "<|im_start|>system be<|im_end|><|im_start|>user is it?<|im_end|><|im_start|>assistant "


def test_a_chat_template_runs_in_a_sandbox(llama: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes((llama / "tokenizer.json").read_bytes())
    for template, words in (
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{{ raise_exception('no system messages') }}", "no system messages"),
        ("{% if %}", "template failed"),
    ):
        (tmp_path / "chat_template.jinja").write_text(template)
        with pytest.raises(HipCompilerError, match=words):
            Tokenizer(tmp_path).chat([{"role": "user", "content": "x"}])


# ---- the model --------------------------------------------------------------------------------------------------


def test_streamed_pieces_make_the_text(model: LanguageModel) -> None:
    pieces = list(model.stream("the of and", max_new_tokens=12))
    result = model.last
    assert result is not None and result.text == "".join(piece.text for piece in pieces)
    assert result.prompt_tokens == len(model.tokenizer.encode("the of and"))
    assert [piece.token for piece in pieces if piece.text] and len(result.tokens) <= 12
    assert result.prompt_seconds > 0


def test_greedy_text_is_that_of_whole_runs(model: LanguageModel) -> None:
    """Every token is the best one after all before it, run as one prompt in a session of its own."""
    result = model.generate("the of and", max_new_tokens=10)
    tokens = model.tokenizer.encode("the of and")
    for token in result.tokens:
        again = model.generate(tokens, max_new_tokens=1)
        assert again.tokens == [token]
        tokens.append(token)


def test_lengths_and_stops(model: LanguageModel) -> None:
    free = model.generate("the", max_new_tokens=20)
    assert free.reason in ("length", "end")
    place = len(free.text) // 2
    stop = free.text[place : place + 2]
    stopped = model.generate("the", max_new_tokens=20, stop=[stop])
    assert stopped.reason == "stop" and stopped.text == free.text[: free.text.index(stop)]
    prompt = len(model.tokenizer.encode("the"))
    assert len(model.generate("the", max_new_tokens=20, max_length=prompt + 3).tokens) == 3
    with pytest.raises(HipCompilerError, match="a text may have 2"):
        model.generate([1, 2, 3], max_length=2)
    with pytest.raises(HipCompilerError, match="the prompt has no tokens"):
        model.generate("")


def test_a_token_that_ends_texts_ends_it(llama: Path, model: LanguageModel, tmp_path: Path) -> None:
    tokens = model.generate("the", max_new_tokens=6).tokens
    folder = make_folder(tmp_path / "ending", end=[0, tokens[3]])
    with LanguageModel(folder, cache=False) as ending:
        result = ending.generate("the", max_new_tokens=20)
    first = tokens.index(tokens[3])
    assert result.reason == "end" and result.tokens == tokens[: first + 1]


def test_random_text_is_repeatable(model: LanguageModel) -> None:
    sampling = Sampling(temperature=1.5, top_k=20, top_p=0.9, repetition_penalty=1.1, seed=7)
    a, b = (model.generate("it is", sampling, max_new_tokens=15) for _ in range(2))
    assert a.tokens == b.tokens
    c = model.generate("it is", Sampling(temperature=1.5, seed=8), max_new_tokens=15)
    assert c.tokens != a.tokens


# ---- folders that are not what they should be -------------------------------------------------------------------


def test_broken_folders_are_refused_in_words(tmp_path: Path, llama: Path) -> None:
    with pytest.raises(HipCompilerError, match=r"HIPC0103.*no folder of a language model"):
        read_config(tmp_path)
    path = tmp_path / "genai_config.json"
    path.write_text("{")
    with pytest.raises(HipCompilerError, match="is not JSON"):
        read_config(tmp_path)
    document = json.loads((llama / "genai_config.json").read_text())
    for change, words in (
        (lambda d: d["model"].pop("context_length"), "says nothing of 'context_length'"),
        (lambda d: d["model"].update(vision={}), "has a part 'vision'"),
        (lambda d: d["model"]["decoder"].update(pipeline=[]), "a pipeline of several graphs"),
        (lambda d: d["model"].update(decoder=3), "is not understood"),
    ):
        broken = json.loads(json.dumps(document))
        change(broken)
        path.write_text(json.dumps(broken))
        with pytest.raises(HipCompilerError, match=words):
            read_config(tmp_path)
    path.write_text(json.dumps(document))
    with pytest.raises(HipCompilerError, match=r"names model\.onnx, which is not in"):
        LanguageModel(tmp_path)
