"""hip-compiler generate and bench-llm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hip_compiler.cli import main


def test_generate_prints_text_and_speed(
    llama: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HIPC_CACHE_DIR", str(tmp_path))
    assert main(["generate", str(llama), "-p", "the of", "-n", "6"]) == 0
    printed = capsys.readouterr()
    assert "first after" in printed.err and "tokens/s" in printed.err
    assert main(["generate", str(llama), "-p", "the of", "-n", "6", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["text"] + "\n" == printed.out and answer["ended_by"] in ("length", "end")
    arguments = ["--temperature", "0.9", "--top-k", "9", "--top-p", "0.8", "--repetition-penalty", "1.2", "--seed", "1"]
    assert main(["generate", str(llama), "-p", "is it", "--system", "be", "-n", "3", "--json", *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["prompt_tokens"] > 6


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-p", ""], "the prompt has no tokens"),
        (["-n", "0"], "0 new tokens were asked for"),
        (["--stop", ""], "a stop string is empty"),
        (["--temperature", "-1"], "temperature = -1.0 is not a number from 0 on"),
        (["--top-p", "1.5"], "top_p = 1.5 is not above 0, at most 1"),
        (["--top-k", "-3"], "top_k = -3 is not a count"),
        (["--repetition-penalty", "0"], "repetition_penalty = 0.0 is not a number above 0"),
        (["--max-length", "1"], "a text may have 1"),
        (["--threads", "-2"], "-2 is no number of threads"),
    ],
)
def test_generate_says_what_is_wrong_in_a_sentence(
    words: list[str],
    sentence: str,
    llama: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    monkeypatch.setenv("HIPC_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "refused"))
    assert main(["generate", str(llama), "-p", "the of", *words]) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err and printed.err.startswith("HIPC0001") and not printed.out.strip()
    assert len(printed.err.splitlines()) <= 2


def test_bench_llm_names_the_engines_it_knows(llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench-llm", str(llama), "--beside", "other"]) == 2
    assert "no engine 'other'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--rounds", "0"], ["--rounds", "-1"], ["--seconds", "nan"], ["--seconds", "-5"]])
def test_bench_llm_refuses_to_measure_nothing(
    llama: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench-llm", str(llama), *words]) == 2
    assert f"{words[0]} {float(words[1]):g} leaves nothing to measure" in capsys.readouterr().err.replace("-5.0", "-5")


def test_generate_refuses_other_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(tmp_path), "-p", "x"]) == 1
    assert "HIPC0103" in capsys.readouterr().err


def test_bench_llm_prints_a_table(
    llama: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HIPC_CACHE_DIR", str(tmp_path))
    words = ["bench-llm", str(llama), "--prompts", "8", "4096", "--rounds", "1", "--threads", "1"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "no prompt of 4096" in err
    assert "hip-compiler" in out and "onnxruntime" in out and "bound of this machine" in out and "4096" not in out
    assert "MB of weights a token" in out and "we are" in out
    assert main([*words, "--beside", "--json"]) == 0
    [record] = json.loads(capsys.readouterr().out)
    [figure] = record["figures"]
    assert record["model"] == llama.name and 0 <= record["waiting"] <= 1
    assert figure["prompt"] == 8 and figure["tokens_per_second"] > 0
    # 2 layers of qkv, o, gate, up, down, and the logits, float32.
    logits = 64 * 160
    products = 2 * (64 * 256 + 128 * 64 + 3 * 64 * 96) + logits
    assert record["bounds"]["work"] == {"weight_bytes": 4 * products, "operations": 2 * products, "integers": 0}
    assert record["bounds"]["logits"] == {"weight_bytes": 4 * logits, "operations": 2 * logits, "integers": 0}
