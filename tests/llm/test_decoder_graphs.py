"""Decoder graphs of every family and precision: a prompt and 32 tokens, one artifact, against ONNX Runtime."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import hip_compiler
from tests.kernels.compare import assert_close, widen
from tests.llm import drive, referee
from tests.models.decoders import PRECISIONS, SHAPES, decoder

PROMPT, STEPS = 24, 32
VARIANTS = [(family, "fp32") for family in SHAPES] + [
    *(("llama", precision) for precision in PRECISIONS if precision != "fp32"),
    ("smollm2", "int4"), ("smollm2", "int4-asym"), ("gptoss", "int4"), ("lfm2", "int4"), ("qwen3", "fp16"),
]  # fmt: skip


def tokens_of(vocabulary: int) -> np.ndarray:
    return np.random.default_rng(5).integers(0, vocabulary, (1, PROMPT + STEPS))


@cache
def model_of(family: str, precision: str) -> onnx.ModelProto:
    return decoder(SHAPES[family], PRECISIONS[precision])


def logits(run: drive.Run, family: str, model: onnx.ModelProto) -> list[np.ndarray]:
    shape = SHAPES[family]
    names = drive.state_names([entry.name for entry in model.graph.input], [entry.name for entry in model.graph.output])
    states = drive.empty_states(model, shape.size, window=shape.windows)
    return list(drive.steps(run, states, names, tokens_of(shape.vocabulary), PROMPT))


@pytest.mark.parametrize(("family", "precision"), VARIANTS)
def test_logits_equal_onnx_runtime(family: str, precision: str) -> None:
    model = model_of(family, precision)
    with hip_compiler.compile(model) as session:
        check_logits(logits(session.run, family, model), family, precision)


@pytest.mark.parametrize(("family", "precision"), VARIANTS)
def test_through_onnx_runtimes_provider(family: str, precision: str) -> None:
    model = model_of(family, precision)
    check_logits(logits(drive.provider(model.SerializeToString()), family, model), family, precision)


def check_logits(ours: list[np.ndarray], family: str, precision: str) -> None:
    """They are ONNX Runtime's, up to what each engine rounds."""
    model = model_of(family, precision)
    theirs = logits(drive.onnx_runtime(model.SerializeToString()), family, model)
    assert len(ours) == 1 + STEPS and all(np.abs(other).max() > 0.5 for other in theirs)
    exact = referee.logits(model, tokens_of(SHAPES[family].vocabulary), SHAPES[family].size)
    parts = [exact[None, :PROMPT], *(exact[None, place : place + 1] for place in range(PROMPT, PROMPT + STEPS))]
    settings = PRECISIONS[precision]
    if settings.accuracy == 4:
        # Activations are rounded: each is as far from the exact graph as the other.
        errors = [_rms(a, b) for a, b in zip(theirs, parts, strict=True)]
        own = [_rms(a, b) for a, b in zip(ours, parts, strict=True)]
        assert max(errors) > 1e-5, "the peer rounds nothing: compare directly"
        assert max(own) < 1.5 * max(errors)
        return
    for actual, other, wanted in zip(ours, theirs, parts, strict=True):
        assert_close(actual, wanted, factor=100 if not settings.half else 40)
        if not settings.qdq:  # ONNX Runtime fuses these graphs, and rounds activations then
            assert_close(actual, widen(other), factor=100 if not settings.half else 40)


def _rms(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(np.mean((widen(a) - widen(b)) ** 2)))


def test_prefill_in_parts_gives_the_same() -> None:
    """A prompt of 24 at once, or of 10 and then 14 tokens: windows and states go on where they were."""
    for family in ("gptoss", "lfm2"):
        model, shape = model_of(family, "fp32"), SHAPES[family]
        names = drive.state_names([e.name for e in model.graph.input], [e.name for e in model.graph.output])
        tokens = tokens_of(shape.vocabulary)
        with hip_compiler.compile(model) as session:
            states = drive.empty_states(model, shape.size, window=shape.windows)
            [whole] = drive.steps(session.run, states, names, tokens[:, :PROMPT], PROMPT)
            for first, last in ((0, 10), (10, PROMPT)):
                feeds = {"input_ids": tokens[:, first:last], "attention_mask": np.ones((1, last), np.int64), **states}
                results = session.run(feeds)
                states = {past: np.array(results[present]) for past, present in ((p, q) for q, p in names.items())}
        assert_close(results["logits"][0, -1], widen(whole[0, -1]), factor=20)


def test_last_position_alone_is_the_same(tmp_path: Path) -> None:
    model = model_of("smollm2", "int4")
    with hip_compiler.compile(model) as everything, hip_compiler.compile(model, last_position="logits") as last:
        whole = logits(everything.run, "smollm2", model)
        cut = logits(last.run, "smollm2", model)
    assert [array.shape[1] for array in cut] == [1] * (1 + STEPS)
    for a, b in zip(whole, cut, strict=True):
        assert_close(b[:, -1], widen(a[:, -1]), factor=20)


@pytest.mark.parametrize(("family", "precision"), [("llama", "fp32"), ("smollm2", "int4"), ("gptoss", "int4")])
def test_last_position_of_logits_whose_shape_nobody_says(family: str, precision: str) -> None:
    """Shape inference knows no operator of the builder's domain: the rank follows from what stands before."""
    model = onnx.ModelProto()
    model.CopyFrom(model_of(family, precision))
    next(entry for entry in model.graph.output if entry.name == "logits").type.tensor_type.ClearField("shape")
    with hip_compiler.compile(model) as everything, hip_compiler.compile(model, last_position="logits") as last:
        whole, cut = (logits(session.run, family, model) for session in (everything, last))
    assert whole[0].shape[1] == PROMPT and cut[0].shape[1] == 1
    for a, b in zip(whole, cut, strict=True):
        assert_close(b[:, -1], widen(a[:, -1]), factor=20)


def test_last_position_of_what_cannot_be_known_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one sentence with a way out; it is no defect, so there is no repro bundle."""
    monkeypatch.setenv("HIPC_CACHE_DIR", str(tmp_path))
    model = onnx.ModelProto()
    model.CopyFrom(model_of("llama", "fp32"))
    extra = onnx.helper.make_node("Reshape", ["logits", "extents"], ["reshaped"])
    model.graph.node.append(extra)
    model.graph.input.append(onnx.helper.make_tensor_value_info("extents", onnx.TensorProto.INT64, ["n"]))
    model.graph.output.append(onnx.helper.make_tensor_value_info("reshaped", onnx.TensorProto.FLOAT, None))
    with pytest.raises(hip_compiler.HipCompilerError, match="'reshaped' is not known to be") as caught:
        hip_compiler.compile(model, last_position="reshaped")
    assert "declare the output's shape" in str(caught.value) and "repro" not in str(caught.value)
    assert not [*tmp_path.glob("repro/*")]
    scores = next(entry for entry in model.graph.output if entry.name == "present.0.key").name
    with pytest.raises(hip_compiler.HipCompilerError, match="has rank 4"):
        hip_compiler.compile(model, last_position=scores)


def test_an_output_that_is_not_there_is_named() -> None:
    with pytest.raises(hip_compiler.HipCompilerError, match="no output 'hidden' to keep the last position of"):
        hip_compiler.compile(model_of("llama", "fp32"), last_position="hidden")


def test_a_pipeline_that_does_not_cut_is_refused() -> None:
    text = "builtin.module(simplify-onnx)"
    with pytest.raises(hip_compiler.HipCompilerError, match="last_position=logits has no effect"):
        hip_compiler.compile(model_of("llama", "fp32"), last_position="logits", pipeline=text)
    # A named pipeline makes its text from the options.
    hip_compiler.compile(model_of("llama", "fp32"), last_position="logits", pipeline="hipdnn-pipeline").close()
