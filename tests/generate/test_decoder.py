"""The decoder loop: caches in place, chunks, capacities, against runs with copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hip_compiler
from hip_compiler.generate import Decoder, read_config
from hip_compiler.runtime import Session
from tests.generate.conftest import make_folder
from tests.kernels.compare import assert_close, widen

TOKENS = [5, 17, 80, 3, 41, 9, 66, 20, 11, 90, 4, 33, 21, 7, 55, 60, 2, 8, 31, 77]


def load(folder: Path) -> tuple[Session, Any]:
    config = read_config(folder)
    return hip_compiler.compile(config.graph, last_position=config.logits), config


@pytest.mark.parametrize("family", ["llama", "lfm2", "gptoss"])
def test_sharing_changes_nothing(family: str, tmp_path: Path) -> None:
    session, config = load(make_folder(tmp_path, family))
    with session:
        found = []
        for share in (True, False):
            decoder = Decoder(session, config, 32, share=share)
            found.append([decoder.run(TOKENS[:9]), *(decoder.run([token]) for token in TOKENS[9:])])
            assert decoder.length == len(TOKENS)
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_caches_stay_where_they_are(llama: Path) -> None:
    session, config = load(llama)
    with session:
        decoder = Decoder(session, config, 16)
        before = {name: array.ctypes.data for name, array in decoder._caches.items()}
        assert len(before) == 4 and decoder._moving == {}
        decoder.run(TOKENS[:4])
        key = decoder._caches["past_key_values.0.key"]
        assert np.any(key[:, :, 3] != 0) and np.all(key[:, :, 4:] == 0)
        first = key[:, :, :4].copy()
        decoder.run(TOKENS[4:5])
        np.testing.assert_array_equal(key[:, :, :4], first)
        assert np.any(key[:, :, 4] != 0)
        assert before == {name: array.ctypes.data for name, array in decoder._caches.items()}


def test_capacity_is_not_length(llama: Path) -> None:
    session, config = load(llama)
    with session:
        results = []
        for capacity in (12, 13, 200):
            decoder = Decoder(session, config, capacity)
            results.append([decoder.run(TOKENS[:5]), decoder.run(TOKENS[5:6])])
            assert decoder.cache_bytes == 4 * 2 * 32 * capacity * 4
    for a, b in zip(results[0] * 2, [*results[1], *results[2]], strict=True):
        assert_close(b, widen(a), factor=5)


def test_prompt_in_chunks_and_a_second_sequence(llama: Path) -> None:
    session, config = load(llama)
    with session:
        decoder = Decoder(session, config, 32)
        whole = decoder.run(TOKENS)
        decoder.reset()
        decoder.run(TOKENS[:7])
        assert_close(decoder.run(TOKENS[7:]), widen(whole), factor=20)


def test_more_positions_than_the_capacity_are_refused(llama: Path) -> None:
    session, config = load(llama)
    with session:
        decoder = Decoder(session, config, 8)
        decoder.run(TOKENS[:8])
        with pytest.raises(hip_compiler.HipCompilerError, match="the caches hold 8 positions; 9 are needed"):
            decoder.run([1])
        with pytest.raises(hip_compiler.HipCompilerError, match="no tokens"):
            decoder.run([])


def test_the_run_itself_refuses_a_cache_that_is_too_small(llama: Path) -> None:
    session, config = load(llama)
    with session:
        decoder = Decoder(session, config, 8)
        decoder.run(TOKENS[:8])
        decoder.capacity = 9
        decoder._ones = np.ones((1, 9), np.int64)
        with pytest.raises(
            hip_compiler.HipCompilerError, match=r"'present.0.key' has shape \[1, 2, 8, 32\], the output"
        ):
            decoder.run([1])
