"""Products with quantised weights, on emulated GPUs, against float64."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from tests.device.machine import ARCHITECTURES, DTYPES, ONNX, assert_close, draw, module, wave
from tests.device.operators import BF16, MakeHip, call, compare
from tests.emulator import Memory, pack


def quantised(rng: np.random.Generator, n: int, k: int, bits: int, block: int) -> tuple[Any, Any]:
    """Packed weights [n, blocks, block * bits / 8] and the numbers in them [n, blocks * block]."""
    blocks = -(-k // block)
    numbers = rng.integers(0, 1 << bits, (n, blocks * block), dtype=np.uint8)
    fields = numbers.reshape(n, -1, 8 // bits)
    packed = (fields << (np.arange(8 // bits, dtype=np.uint8) * bits)).sum(axis=2).astype(np.uint8)
    return packed, numbers


def pack_zeros(zeros: Any, bits: int) -> Any:
    """[n, blocks] -> [n, ceil(blocks * bits / 8)]."""
    n, blocks = zeros.shape
    padded = np.zeros((n, -(-blocks * bits // 8) * 8 // bits), np.uint8)
    padded[:, :blocks] = zeros
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    return (padded.reshape(n, -1, 8 // bits) << shifts).sum(axis=2).astype(np.uint8)


def multiply(
    architecture: str, dtype: str, kernel: str, m: int, n: int, k: int, bits: int, block: int, zeros: str,
    grid: int, split: int | None = None,
) -> None:  # fmt: skip
    rng = np.random.default_rng(n * k + bits)
    blocks = -(-k // block)
    packed, numbers = quantised(rng, n, k, bits, block)
    scales = (rng.random((n, blocks)) * 0.1 + 0.05).astype(DTYPES[dtype])
    zero = np.full((n, blocks), 1 << (bits - 1), np.float64)
    stored = None
    if zeros == "packed":
        values = rng.integers(0, 1 << bits, (n, blocks), dtype=np.uint8)
        stored, zero = pack_zeros(values, bits), values.astype(np.float64)
    elif zeros == "numbers":
        stored = (rng.random((n, blocks)) * (1 << bits)).astype(DTYPES[dtype])
        zero = stored.astype(np.float64)
    a, bias = draw(rng, (m, k), dtype), draw(rng, n, dtype)
    y = np.zeros((m, n), DTYPES[dtype])
    memory = Memory()
    address = {name: memory.add(array.view(np.uint8)) for name, array in (("w", packed), ("s", scales))}
    zero_at = 0 if stored is None else memory.add(stored.view(np.uint8))
    zero_dtype = 2 if zeros == "packed" else ONNX[dtype]
    weights = struct.pack(
        "<QQQqqqqii", address["w"], address["s"], zero_at, n, k, block, blocks, ONNX[dtype], zero_dtype
    )
    arrays = [memory.add(array.view(np.uint8)) for array in (a, bias, y)]
    code = module(architecture, "matmul_nbits")
    name = f"matmul_nbits_b{bits}_{kernel}_{dtype}"
    arguments = pack(
        code.kernels[name], [arrays[0], weights, arrays[1], arrays[2], m, *([] if split is None else [split])]
    )
    code.launch(name, (grid, 1, 1), (256, 1, 1), arguments, memory)
    weight = (numbers.reshape(n, blocks, block) - zero[:, :, None]) * scales.astype(np.float64)[:, :, None]
    expected = a.astype(np.float64) @ weight.reshape(n, -1)[:, :k].T + bias.astype(np.float64)
    assert_close(y, expected, dtype)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_one_row(architecture: str, bits: int, dtype: str) -> None:
    rows = 256 // wave(architecture) * 2
    multiply(architecture, dtype, "m1", 1, 19, 256, bits, 64, "packed", -(-19 // rows), 1)


@pytest.mark.parametrize(("m", "split"), [(1, 2), (2, 1), (3, 4), (4, 8)])
@pytest.mark.parametrize("zeros", ["default", "packed"])
def test_a_few_rows_and_waves_that_share_them(m: int, split: int, zeros: str) -> None:
    groups = 8 // split * (2 if m == 1 else 1)
    multiply("gfx1151", "f16", "m1" if m == 1 else "m4", m, 21, 168, 4, 32, zeros, -(-21 // groups), split)


def test_any_block_and_type() -> None:
    multiply("gfx1151", "f32", "any", 2, 9, 37, 4, 16, "packed", 2)
    multiply("gfx942", "f16", "any", 1, 9, 37, 2, 16, "numbers", 3)
    multiply("gfx1151", "bf16", "any", 3, 5, 70, 8, 48, "default", 1)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_tiles(architecture: str, bits: int, dtype: str) -> None:
    multiply(architecture, dtype, "tiled", 18, 70, 48, bits, 16, "packed", 2)


def test_tiles_with_numbers_as_zero_points() -> None:
    multiply("gfx1151", "f16", "tiled", 3, 9, 37, 8, 16, "numbers", 1)


@pytest.mark.parametrize(("bits", "k", "dtype"), [(4, 96, np.float16), (8, 72, BF16), (2, 37, np.float32)])
def test_many_rows_by_way_of_unpacked_weights(make_hip: MakeHip, bits: int, k: int, dtype: Any) -> None:
    rng = np.random.default_rng(bits)
    m, n, block = 40, 21, 16
    blocks = -(-k // block)
    packed, levels = quantised(rng, n, k, bits, block)
    scales = rng.uniform(0.5, 1.5, n * blocks).astype(dtype)
    a, bias = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal(n).astype(dtype)
    matrix = (levels.astype(np.float64) - (1 << (bits - 1))) * np.repeat(
        scales.astype(np.float64).reshape(n, -1), block, 1
    )
    sources = ("matmul_nbits", "matmul", "epilogue")
    inputs = [a, packed.reshape(n, blocks, -1), scales, None, bias]
    attributes = (n, k, bits, block, 0, 0)
    [y] = call(make_hip, "gfx1151", sources, "hipc_matmul_nbits", inputs, [((m, n), dtype)], *attributes)
    rounded = matrix[:, :k].astype(dtype).astype(np.float64)
    compare(y, (a.astype(np.float64) @ rounded.T + bias.astype(np.float64)).astype(dtype), factor=2)
