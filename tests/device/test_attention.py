"""Attention, rotary positions and caches on emulated GPUs, against float64."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.device.machine import ARCHITECTURES, DTYPES, ONNX, assert_close, draw, module
from tests.emulator import Memory, pack


def heads(shape: tuple[int, ...]) -> bytes:
    """`Heads` of [batch, head, position, size]."""
    _, count, positions, size = shape
    return struct.pack("<4q", 0, count * positions * size, positions * size, size)


@dataclass
class Case:
    """One call of attention; tensors are [batch, head, position, size]."""

    dtype: str
    batch: int
    q_heads: int
    kv_heads: int
    positions: int
    keys: int
    size: int
    causal: bool = True
    window: int = 0
    softcap: float = 0.0
    bias: Any = None
    sink: Any = None
    past: Any = None
    lengths: Any = None
    splits: int = 1
    scale: float = 0.1
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(11))

    def __post_init__(self) -> None:
        self.q = draw(self.rng, (self.batch, self.q_heads, self.positions, self.size), self.dtype)
        self.k, self.v = (draw(self.rng, (self.batch, self.kv_heads, self.keys, self.size), self.dtype) for _ in "kv")
        self.y = np.zeros_like(self.q)

    def expected(self) -> Any:
        group = self.q_heads // self.kv_heads
        result = np.zeros(self.q.shape)
        for b, head, position in np.ndindex(self.batch, self.q_heads, self.positions):
            valid = self.keys if self.lengths is None else int(self.lengths[b])
            last = (0 if self.past is None else int(self.past[b])) + position + 1
            end = min(valid, last) if self.causal else valid
            begin = max(0, last - self.window) if self.window else 0
            if end <= begin and self.sink is None:
                continue
            k, v = (x[b, head // group, begin:end].astype(np.float64) for x in (self.k, self.v))
            score = k @ self.q[b, head, position].astype(np.float64) * self.scale
            if self.softcap:
                score = np.tanh(score / self.softcap) * self.softcap
            if self.bias is not None:
                added = self.bias[0, head, position, begin:end]
                score = np.where(added, score, -np.inf) if added.dtype == bool else score + added.astype(np.float64)
            sink = [] if self.sink is None else [float(self.sink[head])]
            weight = np.exp(score - max([*score, *sink]))
            total = weight.sum() + sum(np.exp(s - max([*score, *sink])) for s in sink)
            result[b, head, position] = weight @ v / total
        return result

    def run(self, architecture: str, kernel: str, rows: int, threads: int) -> None:
        memory = Memory()
        address = [memory.add(x.view(np.uint8)) for x in (self.q, self.k, self.v)]
        optional = [self.bias, self.sink, self.past, self.lengths]
        address += [0 if x is None else memory.add(x.view(np.uint8)) for x in optional]
        count = self.batch * self.q_heads * self.positions
        parts = np.full(count * self.splits * (self.size + 2), np.nan, np.float32)
        y_at, parts_at = memory.add(self.y.view(np.uint8)), memory.add(parts.view(np.uint8)) if self.splits > 1 else 0
        strides = [0, 0, 0, 0] if self.bias is None else [0, *(s // self.bias.itemsize for s in self.bias.strides[1:])]
        bias_dtype = 1 if self.bias is None else 9 if self.bias.dtype == bool else ONNX[self.dtype]
        data = struct.pack("<7QQQ", *address, y_at, parts_at)
        data += heads(self.q.shape) + heads(self.k.shape) + heads(self.v.shape) + heads(self.q.shape)
        data += struct.pack("<4q", *strides)
        data += struct.pack("<6q", self.positions, self.keys, self.batch, self.q_heads, self.kv_heads, self.window)
        data += struct.pack("<6i", self.size, self.size, self.batch, self.batch, bias_dtype, ONNX[self.dtype])
        data += struct.pack("<3iff4x", self.causal, 0, self.splits, self.scale, self.softcap)
        code = module(architecture, "attention")

        def launch(name: str, grid: tuple[int, int, int], threads: int) -> None:
            code.launch(name, grid, (threads, 1, 1), pack(code.kernels[name], [data]), memory)

        per_head = -(-(self.q_heads // self.kv_heads * self.positions) // rows)
        launch(f"attention_{kernel}_{self.dtype}", (per_head * self.kv_heads * self.batch, self.splits, 1), threads)
        if self.splits > 1:
            launch(f"attention_merge_{self.dtype}", (count, 1, 1), 64)


def check(case: Case, architecture: str, kernel: str, rows: int, threads: int = 256, factor: float = 1.0) -> None:
    case.run(architecture, kernel, rows, threads)
    assert_close(case.y, case.expected(), case.dtype, factor)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_one_position_grouped_heads(architecture: str, dtype: str) -> None:
    lanes = 16 if dtype == "f32" else 8
    past = np.array([70, 12], np.int32)
    check(Case(dtype, 2, 6, 2, 1, 77, 64, past=past), architecture, f"decode_r4_l{lanes}", 4)


@pytest.mark.parametrize("splits", [1, 3])
def test_keys_in_parts(splits: int) -> None:
    lengths = np.array([50], np.int32)
    case = Case("f16", 1, 3, 1, 2, 64, 128, past=np.array([48], np.int32), lengths=lengths, window=37, splits=splits)
    check(case, "gfx1151", "decode_r1_l16", 1)
    check(case, "gfx942", "decode_r4_l16", 4)


@pytest.mark.parametrize("kernel", ["decode_r1_l8", "any"])
def test_softcap_bias_and_sinks(kernel: str) -> None:
    rng = np.random.default_rng(2)
    bias = draw(rng, (1, 2, 3, 40), "f16")
    sink = draw(rng, 2, "f16")
    case = Case("f16", 1, 2, 2, 3, 40, 64, causal=False, softcap=2.0, bias=bias, sink=sink, scale=0.3)
    check(case, "gfx1151", kernel, 1)
    mask = rng.random((1, 2, 3, 40)) < 0.5
    check(Case("f16", 1, 2, 2, 3, 40, 64, causal=False, bias=mask), "gfx1151", kernel, 1)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_any_size(dtype: str) -> None:
    check(Case(dtype, 2, 3, 1, 4, 9, 37, past=np.array([5, 3], np.int32)), "gfx1151", "any", 1)
    check(Case(dtype, 1, 2, 1, 3, 5, 100, past=np.array([2], np.int32)), "gfx942", "any", 1)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("architecture", ["gfx942", "gfx1151", "gfx1201"])
def test_many_positions(architecture: str, dtype: str) -> None:
    case = Case(dtype, 1, 3, 1, 37, 50, 64, past=np.array([13], np.int32), window=20)
    check(case, architecture, "prefill_s64", 64, 128, 2.0)


def test_many_positions_of_wide_heads() -> None:
    rng = np.random.default_rng(2)
    case = Case("f16", 1, 1, 1, 5, 70, 128, causal=False, softcap=3.0, sink=draw(rng, 1, "f16"))
    check(case, "gfx1151", "prefill_s128", 64, 128, 2.0)


def test_rows_without_keys_are_zero_and_lengths_beyond_the_cache_are_not_read() -> None:
    case = Case("f16", 2, 1, 1, 1, 8, 64, lengths=np.array([0, 5], np.int32), causal=False)
    check(case, "gfx1151", "decode_r1_l8", 1)
    beyond = Case("f16", 1, 1, 1, 1, 8, 64, lengths=np.array([9], np.int32), causal=False)
    beyond.run("gfx1151", "decode_r1_l8", 1, 256)
    assert np.isnan(beyond.y).all()


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_rotary(dtype: str, interleaved: bool) -> None:
    rng = np.random.default_rng(5)
    batch, count, length, size, half, rows = 2, 3, 4, 11, 4, 20
    x = draw(rng, (batch, count, length, size), dtype)
    angle = rng.random((rows, half)) * 6
    cos, sin = np.cos(angle).astype(DTYPES[dtype]), np.sin(angle).astype(DTYPES[dtype])
    positions = rng.integers(0, rows, (batch, length)).astype(np.int64)
    y = np.zeros_like(x)
    memory = Memory()
    at = [memory.add(array.view(np.uint8)) for array in (x, cos, sin, positions, y)]
    data = struct.pack("<5Q", *at) + heads(x.shape) * 2
    data += struct.pack("<3q6i", batch, length, rows, count, size, half, interleaved, batch * length, ONNX[dtype])
    code = module("gfx1151", "attention")
    code.launch(f"rotary_{dtype}", (1, 1, 1), (256, 1, 1), pack(code.kernels[f"rotary_{dtype}"], [data]), memory)
    expected = x.astype(np.float64)
    pairs = np.arange(half)
    first, second = (2 * pairs, 2 * pairs + 1) if interleaved else (pairs, pairs + half)
    c, s = (table.astype(np.float64)[positions][:, None] for table in (cos, sin))
    a, b = expected[..., first], expected[..., second]
    turned = expected.copy()
    turned[..., first], turned[..., second] = a * c - b * s, a * s + b * c
    assert_close(y, turned, dtype)


@pytest.mark.parametrize("in_place", [False, True])
def test_append_to_a_cache(in_place: bool) -> None:
    rng = np.random.default_rng(6)
    past = rng.integers(1, 100, (2, 3, 7, 5)).astype(np.uint16)
    update = rng.integers(1, 100, (2, 3, 2, 5)).astype(np.uint16)
    lengths = np.array([3, 5], np.int32)
    expected = past.copy() if in_place else np.zeros((2, 3, 9, 5), np.uint16)
    for b, valid in enumerate(lengths):
        expected[b, :, :valid] = past[b, :, :valid]
        expected[b, :, valid : valid + 2] = update[b]
    present = past.copy() if in_place else np.full((2, 3, 9, 5), 7, np.uint16)
    memory = Memory()
    at = [memory.add(array.view(np.uint8)) for array in (update, past, lengths, present)]
    at[1] = at[3] if in_place else at[1]
    data = struct.pack("<4Q", *at) + heads(update.shape) + heads(past.shape) + heads(present.shape)
    data += struct.pack("<6q2i", 2, 3, 5, 2, 7, present.shape[2], 2, in_place)
    code = module("gfx942", "attention")
    code.launch("kv_append_b2", (2, 1, 1), (256, 1, 1), pack(code.kernels["kv_append_b2"], [data]), memory)
    np.testing.assert_array_equal(present, expected)
