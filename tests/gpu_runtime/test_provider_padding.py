"""Prompts that the provider pads, so that runs of many lengths are one graph: the same numbers, and fewer graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from hip_compiler.core.frontend.load import LoadedModel
from hip_compiler.errors import HipCompilerError
from hip_compiler.ort import compile_context, register
from hip_compiler.ort.padding import Decoder as Roles
from hip_compiler.ort.padding import decoder_of
from hip_compiler.runtime.native import FOLDER
from tests.fake_hip import FakeHip
from tests.gpu_runtime.test_provider_memory import AMD, decoder, gpus, known_before, on
from tests.ort.models import make, node, plain, product, session, values

__all__ = ["gpus", "known_before"]
needs_kernels = pytest.mark.skipif(
    not (FOLDER / "kernels.pack").is_file(), reason="kernels.pack is not built: python kernels/build.py"
)
PAD = {"graph_capture": "1", "static_pad_prefill": "8"}
TOKENS = np.array([5, 17, 80, 11, 3, 44, 29, 60, 7, 90])


@pytest.fixture(scope="module", autouse=True)
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One compilation for all sessions of a model with the same options."""
    with patch.dict(PAD, cache_dir=str(tmp_path_factory.mktemp("kept"))):
        yield


def feeds(length: int, past: int = 0) -> dict[str, np.ndarray]:
    """Tokens behind `past` others."""
    return {"input_ids": TOKENS[None, past : past + length], "attention_mask": np.ones((1, past + length), np.int64)}


def run(made: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = [output.name for output in made.get_outputs()]
    return dict(zip(names, made.run(names, inputs), strict=True))


def check(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].shape == value.shape
        assert np.abs(value).max() > 0.1
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)


@needs_kernels
def test_prompts_of_many_lengths_are_one_graph(gpus: FakeHip) -> None:
    model = decoder().model()
    oracle, made = plain(model), on(register(0), model, **PAD)
    lengths = (5, 7, 6, 8, 3)
    for length in lengths:
        inputs = {**feeds(length), **decoder().caches(0)}
        expected = run(oracle, inputs)
        check(run(made, inputs), expected)
    # Scratch grows during the first run, so that the second asks for other addresses than the first.
    assert gpus.calls.count("hipGraphInstantiateWithFlags") == 1
    assert gpus.calls.count("hipGraphLaunch") >= len(lengths) - 2 - 1  # 8 is a run that is not padded


@needs_kernels
def test_without_it_every_length_is_its_own(gpus: FakeHip) -> None:
    made = on(register(0), decoder().model(), graph_capture="1")
    for length in (5, 7, 6, 3):
        run(made, {**feeds(length), **decoder().caches(0)})
    assert gpus.calls.count("hipGraphLaunch") == 0


@needs_kernels
def test_tokens_behind_a_padded_prompt(gpus: FakeHip) -> None:
    """Caches that grow from run to run: a prompt, some more of it, a token."""
    model = decoder().model()
    results = []
    for made in (plain(model), on(register(0), model, **PAD)):
        caches, steps = decoder().caches(0), []
        for past, length in ((0, 5), (5, 3), (8, 1)):
            found = run(made, {**feeds(length, past), **caches})
            caches = {name.replace("present", "past"): found[name] for name in found if name != "logits"}
            steps.append(found)
        results.append(steps)
    for expected, found in zip(*results, strict=True):
        check(found, expected)


@needs_kernels
@pytest.mark.parametrize(
    ("capacity", "static"),
    [(16, False), (16, True), (9, True), (6, False)],
    ids=["room", "room, mask of the capacity", "room for the prompt", "no room to pad"],
)
def test_caches_with_room_stay_where_they_are(gpus: FakeHip, capacity: int, static: bool) -> None:
    model = decoder().model()
    oracle, made = plain(model), on(register(1), model, **PAD)
    grown = decoder().caches(0)
    held = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy(cache, "gpu", 1, AMD)
        for name, cache in decoder().caches(capacity).items()
    }
    for past, length in ((0, 3), (3, 2), (5, 1)):
        expected = run(oracle, {**feeds(length, past), **grown})
        grown = {name.replace("present", "past"): expected[name] for name in expected if name != "logits"}
        inputs = feeds(length, past)
        if static:
            inputs["attention_mask"] = (np.arange(capacity) < past + length).astype(np.int64)[None]
        binding = made.io_binding()
        for name, value in inputs.items():
            binding.bind_cpu_input(name, value)
        for name, cache in held.items():
            binding.bind_ortvalue_input(name, cache)
            binding.bind_ortvalue_output(name.replace("past", "present"), cache)
        binding.bind_output("logits")
        made.run_with_iobinding(binding)
        [logits] = (value.numpy() for value in binding.get_outputs() if value.device_name() == "cpu")
        assert logits.shape == expected["logits"].shape and np.abs(logits).max() > 0.1
        np.testing.assert_allclose(logits, expected["logits"], rtol=1e-4, atol=1e-5)
        for name, cache in held.items():
            np.testing.assert_allclose(cache.numpy()[:, :, : past + length], grown[name], rtol=1e-4, atol=1e-5)


@needs_kernels
def test_a_mask_with_gaps_is_not_padded(gpus: FakeHip) -> None:
    """Only tokens that come last may be added."""
    model = decoder().model()
    made, usual = on(register(0), model, **PAD), on(register(0), model)
    inputs = {**feeds(5), **decoder().caches(0)}
    inputs["attention_mask"][0, 1] = 0
    check(run(made, inputs), run(usual, inputs))


def loaded(model: onnx.ModelProto) -> LoadedModel:
    return LoadedModel(model, (), "a test")


def test_roles_of_a_decoders_inputs() -> None:
    found = decoder_of(loaded(decoder().model()))
    assert found == Roles(limit=256, ids=0, mask=1, positions=-1, caches=((2, 1), (3, 2)))
    assert found.words(64) == "64 256 0 1 -1 2 2 1 3 2"


def changed(op: str, **attributes: Any) -> onnx.ModelProto:
    """A decoder whose logits go through another operator."""
    model = decoder().model()
    model.graph.node[-1].output[0] = "before"
    model.graph.node.append(helper.make_node(op, ["before"], ["logits"], name="/after", **attributes))
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (product(), "it has no input 'input_ids'"),
        (changed("Softmax", axis=1), r"Softmax \(/after\) may make tokens depend on later ones"),
        (changed("ReduceMean"), r"ReduceMean \(/after\) may make tokens depend on later ones"),
    ],
    ids=["no decoder", "softmax", "mean"],
)
def test_other_models_are_refused(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(HipCompilerError, match=message):
        decoder_of(loaded(model))


def test_attention_in_parts_is_refused() -> None:
    model = decoder().model()
    model.graph.node.append(node("MatMul", "logits logits", "square"))
    with pytest.raises(HipCompilerError, match=r"MatMul \(matmul\) may make tokens depend on later ones"):
        decoder_of(loaded(model))


def test_an_input_that_nobody_knows_is_refused() -> None:
    model = decoder().model()
    model.graph.input.append(helper.make_tensor_value_info("image", TensorProto.FLOAT, [1]))
    with pytest.raises(HipCompilerError, match="input 'image' is none of a decoder's"):
        decoder_of(loaded(model))


def test_model_arch_says_what_a_model_must_be() -> None:
    x = {"x": values(2, 64)}
    expected = session(product()).run(None, x)[0]
    assert session(product(), {"model_arch": "other"}).run(None, x)[0].tobytes() == expected.tobytes()
    with pytest.raises(Exception, match="it has no input 'input_ids'"):
        session(product(), {"model_arch": "decoder"})
    session(decoder().model(), {"model_arch": "decoder", "strict": "1"})


@needs_kernels
def test_what_it_cannot_go_with(gpus: FakeHip, tmp_path: Any) -> None:
    model = decoder().model()
    with pytest.raises(Exception, match="HIPC0001: options static_pad_prefill and model_arch=other contradict"):
        on(register(0), model, **PAD, model_arch="other")
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(HipCompilerError, match="static_pad_prefill cannot be a part of a context model"):
        compile_context(tmp_path / "m.onnx", tmp_path / "c.onnx", target="amdgpu", arch="gfx1151", static_pad_prefill=8)
    context = compile_context(tmp_path / "m.onnx", tmp_path / "c.onnx", target="amdgpu", arch="gfx1151")
    with pytest.raises(Exception, match="static_pad_prefill is for models that are compiled here"):
        on(register(0), str(context), **PAD)


@needs_kernels
def test_an_output_that_is_not_one_per_token_is_an_error(gpus: FakeHip) -> None:
    """The last token's logits alone: behind a padded prompt they would be another token's."""
    model = decoder().model()
    model.graph.node[-1].output[0] = "all"
    for name, bound in (("from", -1), ("to", 1 << 40), ("along", 1)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([bound]), name))
    model.graph.node.append(node("Slice", "all from to along", "logits"))
    made = on(register(0), model, **PAD)
    inputs = {**feeds(5), **decoder().caches(0)}
    with pytest.raises(Exception, match="is not one per token: leave static_pad_prefill out"):
        run(made, inputs)
    check(run(on(register(0), model, graph_capture="1"), inputs), run(plain(model), inputs))


def test_a_prompt_of_a_model_without_caches_is_refused() -> None:
    model = make([node("Gather", "table input_ids", "y")], {}, {"y": [1, "n", 4]}, table=values(6, 4))
    for name in ("input_ids", "attention_mask"):
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, [1, "n"]))
    with pytest.raises(HipCompilerError, match="it has no GroupQueryAttention with caches"):
        decoder_of(loaded(model))
