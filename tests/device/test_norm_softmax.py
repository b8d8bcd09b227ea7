"""Norms and softmax on emulated GPUs equal the host's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.device.machine import ARCHITECTURES
from tests.device.operators import FLOATS, MakeHip, check

SOURCES = ("norm", "softmax")


def draw(shape: Any, dtype: Any, offset: float = 0.0) -> Any:
    return (np.random.default_rng(3).standard_normal(shape) + offset).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("shape", [(3, 64), (2, 1000), (1, 1), (5, 37)])
def test_rms_norm(make_hip: MakeHip, architecture: str, shape: tuple[int, int], dtype: Any) -> None:
    x, scale = draw(shape, dtype), draw(shape[-1:], dtype)
    check(make_hip, architecture, SOURCES, "hipc_rms_norm", [x, scale], [(shape, dtype)], -1, 1e-5)


@pytest.mark.parametrize("dtype", [*FLOATS, np.float64])
def test_layer_norm_far_from_zero_with_statistics(make_hip: MakeHip, dtype: Any) -> None:
    x, scale, bias = draw((2, 3, 5, 7), dtype, 8.0), draw((5, 1), np.float32), draw((5, 7), dtype)
    statistics = np.float64 if dtype == np.float64 else np.float32
    outputs = [((2, 3, 5, 7), dtype), ((2, 3, 1, 1), statistics), ((2, 3, 1, 1), statistics)]
    check(make_hip, "gfx1151", SOURCES, "hipc_layer_norm_stats", [x, scale, bias], outputs, 2, 1e-5, factor=4)


def test_group_and_instance_norm(make_hip: MakeHip) -> None:
    for architecture, dtype in (("gfx1151", np.float32), ("gfx942", np.float16)):
        x, scale, bias = draw((2, 6, 3, 5), dtype), draw(6, dtype), draw(6, dtype)
        outputs = [((2, 6, 3, 5), dtype)]
        check(make_hip, architecture, SOURCES, "hipc_group_norm", [x, scale, bias], outputs, 3, 1e-5)
        check(make_hip, architecture, SOURCES, "hipc_group_norm", [x, scale[:3], bias[:3]], outputs, 3, 1e-5)
        check(make_hip, architecture, SOURCES, "hipc_instance_norm", [x, scale, bias], outputs, 1e-5)


@pytest.mark.parametrize("dtype", [*FLOATS, np.float64])
@pytest.mark.parametrize("log", [0, 1])
@pytest.mark.parametrize("axis", [-1, 1])
def test_softmax(make_hip: MakeHip, axis: int, log: int, dtype: Any) -> None:
    x = draw((2, 5, 133), dtype) * np.float32(6).astype(dtype)
    x[0, 0, 0] = np.inf
    check(make_hip, "gfx1151", SOURCES, "hipc_softmax", [x], [(x.shape, dtype)], axis, log, factor=2)
    check(make_hip, "gfx942", SOURCES, "hipc_softmax", [x], [(x.shape, dtype)], axis, log, factor=2)


def test_hardmax_and_empty(make_hip: MakeHip) -> None:
    x = np.array([[1, 3, 3], [np.nan, 5, 2]], np.float32)
    check(make_hip, "gfx1151", SOURCES, "hipc_hardmax", [x], [(x.shape, np.float32)], -1)
    check(make_hip, "gfx1151", SOURCES, "hipc_softmax", [x[:0]], [((0, 3), np.float32)], -1, 0)
