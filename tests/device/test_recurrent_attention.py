"""Linear attention, causal convolutions and windows of caches on emulated GPUs equal the host's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.device.machine import ARCHITECTURES
from tests.device.operators import FLOATS, MakeHip, call, check
from tests.gpu_runtime.harness import RunError

RECURRENT, CACHE = ("recurrent_attention",), ("kv_cache",)


def draw(shape: Any, dtype: Any, seed: int = 1, scale: float = 1.0) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_linear_attention(make_hip: MakeHip, architecture: str, dtype: Any) -> None:
    """Two query heads a key head; a decay per row or per head, a rate per head or one, with or without a past."""
    batch, length, kv_heads, size, v_size = 2, 3, 2, 7, 5
    q, k = draw((batch, length, 4 * size), dtype), draw((batch, length, kv_heads * size), dtype, 2, 0.5)
    v = draw((batch, length, kv_heads * v_size), dtype, 3)
    past = draw((batch, kv_heads, size, v_size), np.float32, 4)
    outputs = [((batch, length, 4 * v_size), dtype), ((batch, kv_heads, size, v_size), np.float32)]
    for decays, rates, state in ((kv_heads * size, kv_heads, past), (kv_heads, 1, None), (0, 0, past)):
        decay = -np.abs(draw((batch, length, decays), dtype, 5)) if decays else None
        rate = np.abs(draw((batch, length, rates), dtype, 6, 0.3)) if rates else None
        check(make_hip, architecture, RECURRENT, "hipc_linear_attention", [q, k, v, state, decay, rate], outputs,
              4, kv_heads, size, v_size, 0.37, factor=4)  # fmt: skip


def test_linear_attention_of_large_heads(make_hip: MakeHip) -> None:
    size, v_size = 161, 3
    q, k = draw((1, 2, size), np.float32), draw((1, 2, size), np.float32, 2, 0.1)
    outputs = [((1, 2, v_size), np.float32), ((1, 1, size, v_size), np.float32)]
    v = draw((1, 2, v_size), np.float32, 3)
    for architecture in ARCHITECTURES:
        check(make_hip, architecture, RECURRENT, "hipc_linear_attention", [q, k, v, None, None, None], outputs,
              1, 1, size, v_size, 1.0, factor=4)  # fmt: skip
    wide = draw((1, 1, 513), np.float32)
    with pytest.raises(RunError, match="heads of 513; GPUs have kernels for at most 512"):
        call(make_hip, "gfx1151", RECURRENT, "hipc_linear_attention", [wide, wide, wide[..., :1], None, None, None],
             [((1, 1, 1), np.float32), ((1, 1, 513, 1), np.float32)], 1, 1, 513, 1, 1.0)  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("dilation", "silu"), [(1, 1), (2, 0)])
def test_causal_conv(make_hip: MakeHip, dtype: Any, dilation: int, silu: int) -> None:
    """Runs shorter and longer than what is carried, and none at all."""
    channels, taps = 5, 3
    carried = (taps - 1) * dilation
    w, bias = draw((channels, 1, taps), dtype, 2), draw((channels,), dtype, 3)
    past = draw((2, channels, carried), dtype, 4)
    for length in (1, 7, 0):
        x = draw((2, channels, length), dtype)
        outputs = [(x.shape, dtype), (past.shape, dtype)]
        for inputs in ([x, w, bias, past], [x, w, None, None]):
            check(make_hip, "gfx1151", RECURRENT, "hipc_causal_conv", inputs, outputs, dilation, silu)


@pytest.mark.parametrize("size", [3, 16])
@pytest.mark.parametrize("dtype", FLOATS)
def test_kv_window(make_hip: MakeHip, dtype: Any, size: int) -> None:
    """Rows of 16 bytes move as such, others element by element."""
    staged = draw((2, 3, 9, size), dtype)
    outputs = [((2, 3, 5, size), dtype)]
    for filled, kept in (([9, 3], [5, 2]), ([0, 7], [0, 4])):
        inputs = [staged, np.array(filled, np.int32), np.array(kept, np.int32)]
        check(make_hip, "gfx1151", CACHE, "hipc_kv_window", inputs, outputs, 4)
    with pytest.raises(RunError, match="position of a cache"):
        inputs = [staged, np.array([9, 3], np.int32), np.array([5, 4], np.int32)]
        call(make_hip, "gfx1151", CACHE, "hipc_kv_window", inputs, outputs, 4)
