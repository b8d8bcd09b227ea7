"""A decoder of two layers: prefill of 8, then 4 tokens, one artifact, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import hip_compiler
from tests.kernels.compare import assert_close, widen
from tests.llm.decoder import Decoder

PROMPT = np.array([[5, 17, 80, 3, 41, 9, 66, 20]])
STEPS = 4


def steps(run, decoder: Decoder) -> list[np.ndarray]:  # type: ignore[no-untyped-def]
    """Logits of the prefill and of every decoded token; caches go around by copies."""
    feeds = {"input_ids": PROMPT, "attention_mask": np.ones_like(PROMPT), **decoder.caches(0)}
    found = []
    for step in range(1 + STEPS):
        results = run(feeds)
        found.append(np.array(results["logits"]))
        caches = {name.replace("present", "past"): np.array(x) for name, x in results.items() if name != "logits"}
        length = PROMPT.shape[1] + step + 1
        assert all(cache.shape[2] == length - 1 for cache in caches.values())
        token = np.array([[11 * step + 2]])
        feeds = {"input_ids": token, "attention_mask": np.ones((1, length), np.int64), **caches}
    return found


def peer(decoder: Decoder) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(decoder.model().SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return steps(lambda feeds: dict(zip(names, session.run(None, feeds), strict=True)), decoder)


@pytest.mark.parametrize("zeros", ["none", "packed"])
@pytest.mark.parametrize("bits", [4, 8])
def test_prefill_and_decode_equal_onnx_runtime(bits: int, zeros: str) -> None:
    shapes = {"bits": bits, "zeros": zeros}
    with hip_compiler.compile(Decoder(**shapes).model()) as session:  # type: ignore[arg-type]
        ours = steps(session.run, Decoder())
    theirs = peer(Decoder(**shapes))  # type: ignore[arg-type]
    for actual, other in zip(ours, theirs, strict=True):
        assert np.abs(other).max() > 0.5
        assert_close(actual, widen(other), factor=50)


def test_accuracy_level_4_stays_near() -> None:
    with hip_compiler.compile(Decoder(accuracy=4).model()) as session:
        ours = steps(session.run, Decoder())
    exact = peer(Decoder())
    for actual, other in zip(ours, exact, strict=True):
        assert np.abs(actual - other).max() < 0.05 * np.abs(other).max()
    assert any(np.abs(actual - other).max() > 1e-5 for actual, other in zip(ours, exact, strict=True))


def test_shared_caches_give_the_same_tokens() -> None:
    decoder, capacity = Decoder(), 16
    with hip_compiler.compile(decoder.model()) as session:
        apart = steps(session.run, decoder)
        assert sorted(session.metadata.shared) == [(f"past_{x}{i}", f"present_{x}{i}") for x in "kv" for i in (0, 1)]
        block = {name: _aligned(cache) for name, cache in decoder.caches(capacity).items()}
        outputs = {name.replace("past", "present"): cache for name, cache in block.items()}
        ids = PROMPT
        for step, expected in enumerate(apart):
            mask = np.ones((1, PROMPT.shape[1] + step), np.int64)
            results = session.run({"input_ids": ids, "attention_mask": mask, **block}, outputs=outputs)
            assert all(results[name] is cache for name, cache in outputs.items())
            np.testing.assert_allclose(results["logits"], expected, rtol=1e-5, atol=1e-5)
            ids = np.array([[11 * step + 2]])
        assert all(np.any(cache[:, :, 11] != 0) and np.all(cache[:, :, 12:] == 0) for cache in block.values())


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy at an address that outputs may have."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
