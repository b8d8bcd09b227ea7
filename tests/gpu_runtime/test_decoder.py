"""A decoder of two layers, grouped queries and int4 weights, on an emulated gfx1151, against the host target."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import hip_compiler
from hip_compiler.runtime import DeviceArray
from hip_compiler.runtime.native import FOLDER
from tests.fake_hip import FakeHip
from tests.gpu_runtime.test_models import device_array, on_host
from tests.llm.decoder import Decoder

pytestmark = pytest.mark.skipif(
    not (FOLDER / "kernels.pack").is_file(), reason="kernels.pack is not built: python kernels/build.py"
)
PROMPT = np.array([[5, 17, 80]])


def decoder() -> Decoder:
    return Decoder(hidden=32, heads=2, shared=1, size=16, middle=48)


def steps(run: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]) -> list[np.ndarray]:
    """Logits of the prompt and of a token behind it; caches go around by copies."""
    feeds = {"input_ids": PROMPT, "attention_mask": np.ones_like(PROMPT), **decoder().caches(0)}
    first = run(feeds)
    caches = {name.replace("present", "past"): x for name, x in first.items() if name != "logits"}
    assert all(cache.shape[2] == PROMPT.size and np.abs(cache).max() > 0.1 for cache in caches.values())
    second = run({"input_ids": np.array([[11]]), "attention_mask": np.ones((1, PROMPT.size + 1), np.int64), **caches})
    return [first["logits"], second["logits"]]


def test_prompt_and_token_equal_the_host(make_hip: Callable[..., FakeHip]) -> None:
    hip = make_hip(load=None)
    with (
        hip_compiler.compile(decoder().model()) as host,
        hip_compiler.compile(decoder().model(), "amdgpu", arch=("gfx1151",)) as gpu,
    ):
        for found, expected in zip(steps(gpu.run), steps(host.run), strict=True):
            assert np.abs(expected).max() > 0.5
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)
    assert any(name.startswith("matmul_nbits_b4") for name in hip.launched())
    assert any(name.startswith("attention") for name in hip.launched())


def test_caches_that_stay_on_the_device_and_a_graph(make_hip: Callable[..., FakeHip]) -> None:
    """Steps of one shape: ids and mask are changed in place, caches grow in place, and every later step is a replay."""
    hip = make_hip(load=None)
    capacity, tokens = 6, (5, 17, 80, 11)
    with hip_compiler.compile(decoder().model()) as host:
        caches = {name: _aligned(cache) for name, cache in decoder().caches(capacity).items()}
        outputs = {name.replace("past", "present"): cache for name, cache in caches.items()}
        wanted = []
        for position, token in enumerate(tokens):
            feeds = {"input_ids": np.array([[token]]), "attention_mask": _mask(capacity, position), **caches}
            wanted.append(host.run(feeds, outputs=outputs)["logits"].copy())
    with hip_compiler.compile(decoder().model(), "amdgpu", arch=("gfx1151",), graph_capture=True) as gpu:
        held = {name: device_array(hip, cache) for name, cache in decoder().caches(capacity).items()}
        ids, mask = device_array(hip, np.zeros((1, 1), np.int64)), device_array(hip, _mask(capacity, 0))
        logits = device_array(hip, np.zeros((1, 1, 96), np.float32))
        results = {name.replace("past", "present"): cache for name, cache in held.items()} | {"logits": logits}
        bound = gpu.bind_device({"input_ids": ids, "attention_mask": mask, **held}, results)
        for position, token in enumerate(tokens):
            _write(hip, ids, np.array([[token]]))
            _write(hip, mask, _mask(capacity, position))
            found = on_host(hip, bound.run()["logits"])
            assert np.abs(found).max() > 0.5
            np.testing.assert_allclose(found, wanted[position], rtol=1e-5, atol=2e-6)
    # Scratch grows during the first run, so that the second asks for other addresses than the first.
    assert hip.calls.count("hipGraphLaunch") == len(tokens) - 2
    for array in (ids, mask, logits, *held.values()):
        hip.hipFree(array.address)


def _mask(capacity: int, position: int) -> np.ndarray:
    return (np.arange(capacity) <= position).astype(np.int64)[None]


def _write(hip: FakeHip, array: DeviceArray, value: np.ndarray) -> None:
    hip.memories[0].view(array.address, array.nbytes, "the test")[:] = np.frombuffer(value.tobytes(), np.uint8)


def _aligned(array: np.ndarray) -> np.ndarray:
    from hip_compiler.runtime import empty

    found = empty(array.shape, array.dtype)
    found[...] = array
    return found
