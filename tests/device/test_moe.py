"""Mixtures of experts on emulated GPUs equal the host's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.core.passes.pack_quantized import pack_cells, pack_words
from hip_compiler.core.passes.pack_weights import pack
from tests.device.machine import ARCHITECTURES
from tests.device.operators import FLOATS, MakeHip, check

MOE = ("moe",)
EXPERTS, HIDDEN, INNER, TOKENS = 5, 32, 48, 3
RELU, GELU, SILU, SWIGLU, IDENTITY = range(5)
APART, INTERLEAVED, CONCATENATED = range(3)


def draw(shape: Any, seed: int, scale: float = 1.0) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def layer(rows: int, columns: int, bits: int, seed: int, zeros: bool = False) -> list[Any]:
    """Weights, scales, zero points and bias of one product of all experts."""
    bias = draw((EXPERTS, rows), seed + 1, 0.1)
    if bits == 0:
        return [np.stack([pack(draw((columns, rows), seed + e, 0.2)) for e in range(EXPERTS)]), None, None, bias]
    rng = np.random.default_rng(seed)
    blocks = columns // 16
    words = rng.integers(0, 256, (EXPERTS, rows, blocks, 16 * bits // 8)).astype(np.uint8)
    scales = rng.random((EXPERTS, rows, blocks)).astype(np.float32) * 0.2 / (1 << (bits - 1))
    offsets = rng.integers(0, 1 << bits, (EXPERTS, rows, blocks)).astype(np.float32)
    packed = [np.stack([pack_words(matrix, bits) for matrix in words]), np.stack([pack_cells(m) for m in scales])]
    return [*packed, np.stack([pack_cells(m) for m in offsets]) if zeros else None, bias]


def run(
    make_hip: MakeHip,
    architecture: str,
    dtype: Any,
    activation: int,
    fusion: int,
    bits: int,
    *,
    third: bool = False,
    **o: Any,
) -> None:
    x, router = draw((TOKENS, HIDDEN), 1).astype(dtype), draw((TOKENS, EXPERTS), 2).astype(dtype)
    block = 16 if bits else 0
    fc1 = layer(INNER * (1 if fusion == APART else 2), HIDDEN, bits, 10, zeros=o.get("zeros", False))
    fc2 = layer(HIDDEN, INNER, bits, 20)
    fc3 = layer(INNER, HIDDEN, bits, 30) if third else [None] * 4
    weights = np.abs(draw((TOKENS, EXPERTS), 3)).astype(dtype) if o.get("weighted") else None
    check(make_hip, architecture, MOE, "hipc_moe", [x, router, weights, *fc1, *fc2, *fc3], [(x.shape, dtype)],
          EXPERTS, INNER, o.get("k", 2), activation, fusion, 1.7, 1.0, 2.0, int(o.get("normalize", True)),
          bits, block, bits, block, bits if third else 0, block if third else 0, 0, factor=8)  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_experts_of_floats(make_hip: MakeHip, architecture: str, dtype: Any) -> None:
    run(make_hip, architecture, dtype, SWIGLU, INTERLEAVED, 0)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_experts_of_few_bits(make_hip: MakeHip, bits: int) -> None:
    run(make_hip, "gfx1151", np.float16, SWIGLU, CONCATENATED, bits, zeros=True)


@pytest.mark.parametrize("activation", [RELU, GELU, SILU, IDENTITY])
def test_activations_and_shares(make_hip: MakeHip, activation: int) -> None:
    """Shares from the router's scores or given; one expert, and all of them."""
    run(make_hip, "gfx1151", np.float32, activation, APART, 0, k=EXPERTS if activation == GELU else 1, normalize=False,
        weighted=activation == SILU)  # fmt: skip


def test_a_gate_apart(make_hip: MakeHip) -> None:
    run(make_hip, "gfx1151", np.float32, SWIGLU, APART, 4, third=True)
