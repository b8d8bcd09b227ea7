"""Session.bind: arrays that stay where they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import hip_compiler
from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime import Session, empty
from tests.models.decoders import PRECISIONS, Shape, decoder

SHAPE = Shape(kinds=("attention",))
CACHES = {"past_key_values.0.key": "present.0.key", "past_key_values.0.value": "present.0.value"}


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with hip_compiler.compile(decoder(SHAPE, PRECISIONS["fp32"])) as loaded:
        yield loaded


def caches(capacity: int) -> dict[str, np.ndarray]:
    made = {name: empty((1, SHAPE.kv_heads, capacity, SHAPE.size), np.dtype(np.float32)) for name in CACHES}
    for array in made.values():
        array[...] = 0
    return made


def feeds(length: int, total: int) -> dict[str, np.ndarray]:
    return {"input_ids": np.arange(3, 3 + length)[None], "attention_mask": np.ones((1, total), np.int64)}


def test_bound_runs_equal_plain_ones(session: Session) -> None:
    past = caches(0)
    plain = session.run({**feeds(5, 5), **past})
    own = caches(9)
    binding = session.bind(own, {CACHES[name]: array for name, array in own.items()})
    for _ in range(2):
        results = binding.run(feeds(5, 5))
        assert list(results) == ["logits"]
        np.testing.assert_array_equal(results["logits"], plain["logits"])
    for name, array in own.items():
        np.testing.assert_array_equal(array[:, :, :5], plain[CACHES[name]])


def test_what_cannot_be_bound_is_refused(session: Session) -> None:
    own = caches(9)
    key, value = own.values()
    for given, outputs, words in (
        ({"no": key}, {}, "unknown: no"),
        (own, {"no": key}, "no output 'no'"),
        ({"past_key_values.0.key": key[:, :, ::2]}, {}, "cannot be used where it lies"),
        ({"past_key_values.0.key": key.astype(np.float64)}, {}, "element type"),
        ({"past_key_values.0.key": value}, {"present.0.value": value}, "bound to the same memory"),
        ({}, {"present.0.key": key, "present.0.value": key}, "outputs 'present.0.key' and 'present.0.value'"),
    ):
        with pytest.raises(HipCompilerError, match=words):
            session.bind(given, outputs)
    memory = np.zeros(key.size + 32, np.float32)
    odd = memory[(-memory.ctypes.data % 64) // 4 + 1 :][: key.size].reshape(key.shape)
    with pytest.raises(HipCompilerError, match="multiple of 64 bytes"):
        session.bind({}, {"present.0.key": odd})


def test_feeds_of_a_bound_run_are_checked(session: Session) -> None:
    own = caches(9)
    binding = session.bind(own, {CACHES[name]: array for name, array in own.items()})
    with pytest.raises(HipCompilerError, match="missing: attention_mask"):
        binding.run({"input_ids": np.array([[1]])})
    with pytest.raises(HipCompilerError, match="extents of the feeds"):
        binding.run(feeds(5, 5) | {"attention_mask": np.ones((2, 5), np.int64)})
    with pytest.raises(
        HipCompilerError, match=r"'present.0.key' has shape \[1, 2, 9, 32\], the output \[1, 2, 10, 32\]"
    ):
        binding.run(feeds(10, 10))
    assert binding.run(feeds(5, 5))["logits"].shape == (1, 5, SHAPE.vocabulary)
    logits = empty((1, 1, SHAPE.vocabulary), np.dtype(np.float32))
    other = session.bind({}, {"logits": logits})
    with pytest.raises(HipCompilerError, match="lies in memory of a bound output"):
        past = logits.reshape(-1)[: 2 * 32].reshape(1, 2, 1, 32)
        other.run(feeds(1, 2) | {"past_key_values.0.key": past, "past_key_values.0.value": past.copy()})


def test_a_closed_session_runs_no_binding() -> None:
    session = hip_compiler.compile(decoder(SHAPE, PRECISIONS["fp32"]))
    own = caches(9)
    binding = session.bind(own, {CACHES[name]: array for name, array in own.items()})
    session.close()
    with pytest.raises(HipCompilerError, match="closed"):
        binding.run(feeds(1, 1))
