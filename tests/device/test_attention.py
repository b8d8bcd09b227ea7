"""Attention, rotary positions and caches on emulated GPUs equal the host's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.device.machine import ARCHITECTURES
from tests.device.operators import BF16, FLOATS, MakeHip, call, check
from tests.gpu_runtime.harness import RunError

ATTENTION, CACHES = ("attention", "attention_prefill"), ("kv_cache",)


def draw(shape: Any, dtype: Any, seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def attend(
    make_hip: MakeHip,
    architecture: str,
    dtype: Any,
    batch: int,
    heads: tuple[int, int],
    positions: int,
    keys: int,
    size: int,
    *,
    causal: int = 1,
    window: int = 0,
    softcap: float = 0.0,
    smooth: int = 0,
    bias: Any = None,
    sink: Any = None,
    past: Any = None,
    lengths: Any = None,
    factor: float = 1.0,
) -> None:
    """Tensors are [batch, head, position, size]."""
    q = draw((batch, heads[0], positions, size), dtype)
    k, v = (draw((batch, heads[1], keys, size), dtype, seed) for seed in (2, 3))
    past, lengths = (None if x is None else np.array(x, np.int32) for x in (past, lengths))
    inputs = [q, k, v, bias, past, lengths, sink]
    attributes = (heads[0], heads[1], size, size, 0, 0, 0, 0.2, causal, window, softcap, smooth)
    check(make_hip, architecture, ATTENTION, "hipc_attention", inputs, [(q.shape, dtype)], *attributes, factor=factor)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_one_position_grouped_heads(make_hip: MakeHip, architecture: str, dtype: Any) -> None:
    attend(make_hip, architecture, dtype, 2, (6, 2), 1, 77, 64, past=[70, 12])


def test_keys_in_parts_with_a_window(make_hip: MakeHip) -> None:
    attend(make_hip, "gfx1151", np.float16, 1, (3, 1), 2, 600, 128, past=[548], lengths=[550], window=437)
    attend(make_hip, "gfx942", np.float32, 1, (2, 1), 1, 300, 32, past=[299])


def test_softcap_bias_mask_and_sinks(make_hip: MakeHip) -> None:
    bias, mask = draw((1, 2, 3, 40), np.float16), draw((1, 1, 3, 40), np.float32) > 0
    sink = draw(2, np.float16)
    attend(make_hip, "gfx1151", np.float16, 1, (2, 2), 3, 40, 64, causal=0, softcap=2.0, bias=bias, sink=sink)
    attend(make_hip, "gfx1151", np.float16, 1, (2, 2), 3, 40, 64, causal=0, bias=mask)
    attend(make_hip, "gfx1151", BF16, 1, (2, 1), 1, 9, 40, smooth=1, past=[8])


@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("architecture", ["gfx906", "gfx90a", "gfx942", "gfx1151", "gfx1201"])
def test_many_positions(make_hip: MakeHip, architecture: str, dtype: Any) -> None:
    attend(make_hip, architecture, dtype, 1, (3, 1), 37, 50, 64, past=[13], window=20, factor=2)


def test_many_positions_of_wide_heads(make_hip: MakeHip) -> None:
    bias = draw((1, 1, 1, 70), np.float16)
    attend(make_hip, "gfx1151", np.float16, 2, (2, 2), 67, 70, 128, causal=0, softcap=3.0, sink=draw(2, np.float16),
           bias=bias, factor=2)  # fmt: skip


def test_rows_without_keys_are_zero(make_hip: MakeHip) -> None:
    attend(make_hip, "gfx1151", np.float16, 2, (1, 1), 1, 8, 64, causal=0, lengths=[0, 5])
    attend(make_hip, "gfx1151", np.float16, 2, (1, 1), 20, 8, 64, causal=0, lengths=[0, 5])


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_rotary(make_hip: MakeHip, dtype: Any, interleaved: int) -> None:
    """Heads side by side behind other columns; some elements of a head are not turned."""
    batch, heads, length, size, half, rows = 2, 3, 4, 11, 4, 20
    x = draw((batch, length, 5 + heads * size), dtype)
    angle = np.random.default_rng(5).random((rows, half)) * 6
    cos, sin = np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)
    outputs = [((batch, length, heads * size), dtype)]
    for positions in (np.array([7], np.int64), np.random.default_rng(6).integers(0, rows, (batch, length))):
        inputs = [x, cos, sin, positions]
        check(make_hip, "gfx1151", CACHES, "hipc_rotary", inputs, outputs, heads, size, 5, interleaved)
    per_position = [x, *(np.resize(table, (batch, length, half)) for table in (cos, sin)), None]
    check(make_hip, "gfx942", CACHES, "hipc_rotary", per_position, outputs, heads, size, 5, interleaved)


def test_a_position_outside_the_tables_ends_the_run(make_hip: MakeHip) -> None:
    x, table = draw((1, 1, 2, 4), np.float32), draw((3, 2), np.float32)
    positions = np.array([[1, 3]], np.int64)
    with pytest.raises(RunError, match="position"):
        call(
            make_hip,
            "gfx1151",
            CACHES,
            "hipc_rotary",
            [x, table, table, positions],
            [(x.shape, np.float32)],
            1,
            4,
            0,
            0,
        )


@pytest.mark.parametrize(("dtype", "size"), [(np.uint8, 5), (np.float16, 8), (np.float32, 3), (np.float64, 6)])
def test_append_to_a_cache(make_hip: MakeHip, dtype: Any, size: int) -> None:
    rng = np.random.default_rng(6)
    past = rng.integers(1, 100, (2, 3, 7, size)).astype(dtype)
    update = rng.integers(1, 100, (2, 3, 2, size)).astype(dtype)
    outputs = [((2, 3, 9, size), dtype)]
    for lengths in (np.array([3, 5], np.int32), np.array([4], np.int32), None):
        check(make_hip, "gfx1151", CACHES, "hipc_kv_append", [update, past, lengths], outputs, 3, size, 0)
    check(make_hip, "gfx942", CACHES, "hipc_kv_append", [update, None, None], outputs, 3, size, 0)


def test_a_cache_without_room_ends_the_run(make_hip: MakeHip) -> None:
    past, update = draw((1, 1, 4, 8), np.float32), draw((1, 1, 2, 8), np.float32)
    with pytest.raises(RunError, match="position"):
        call(make_hip, "gfx1151", CACHES, "hipc_kv_append", [update, past, np.array([3], np.int32)],
             [((1, 1, 4, 8), np.float32)], 1, 8, 0)  # fmt: skip
