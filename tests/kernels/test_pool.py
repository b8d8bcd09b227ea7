"""hip.pool, hip.max_pool_indices and hip.global_pool against plain Python over windows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hip_compiler.core.dialects.hip.pool import OPS, pool_extent
from hip_compiler.shapes import dim, symbol
from hip_compiler.toolchain import runnable_levels
from tests.kernels.harness import KernelError, call_op
from tests.kernels.oracles import close

POOL, INDICES, GLOBAL = OPS
LEVELS = [level.name for level in runnable_levels()]

# x, kernel, strides, pads, dilations, ceil_mode
CASES = {
    "3x3 stride 2": ((2, 3, 9, 40), [3, 3], [2, 2], [1, 1, 1, 1], [1, 1], False),
    "2x2": ((1, 2, 8, 7), [2, 2], [2, 2], [0, 0, 0, 0], [1, 1], False),
    "stride 1": ((1, 2, 6, 35), [3, 2], [1, 1], [1, 0, 0, 1], [1, 1], False),
    "ceil": ((1, 2, 8, 11), [3, 3], [2, 2], [0, 1, 0, 1], [1, 1], True),
    "ceil drops a window": ((1, 1, 4, 5), [1, 2], [3, 3], [0, 1, 2, 1], [1, 1], True),
    "dilation": ((1, 2, 9, 12), [3, 2], [1, 2], [1, 1, 2, 0], [2, 3], False),
    "1d": ((3, 2, 21), [4], [3], [2, 1], [1], True),
    "3d": ((1, 2, 4, 5, 6), [2, 3, 2], [1, 2, 2], [0, 1, 1, 1, 1, 0], [1, 1, 1], False),
    "window in padding": ((1, 1, 2, 2), [2, 2], [2, 2], [2, 2, 2, 2], [1, 1], False),
}


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return generator.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return generator.standard_normal(shape).astype(dtype)


def extents(case: str) -> tuple[int, ...]:
    """Shape of the output, counted: windows are added while they start and end where they may."""
    x, kernel, strides, pads, dilations, ceil_mode = CASES[case]
    spatial = len(x) - 2
    found = []
    for i in range(spatial):
        reach, end = (kernel[i] - 1) * dilations[i] + 1, x[2 + i] + pads[i] + pads[spatial + i]
        count = sum(1 for start in range(0, end, strides[i]) if start + reach <= end)
        if ceil_mode and count * strides[i] < x[2 + i] + pads[i] and (count - 1) * strides[i] + reach < end:
            count += 1
        found.append(count)
    return (*x[:2], *found)


def windows(case: str) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]], int]]:
    """Output position, input positions inside, and the number of positions inside or in the padding."""
    x, kernel, strides, pads, dilations, _ = CASES[case]
    spatial = len(x) - 2
    for out in itertools.product(*(range(extent) for extent in extents(case)[2:])):
        inside, padded = [], 0
        for tap in itertools.product(*(range(extent) for extent in kernel)):
            at = tuple(out[i] * strides[i] + tap[i] * dilations[i] - pads[i] for i in range(spatial))
            if all(0 <= at[i] < x[2 + i] for i in range(spatial)):
                inside.append(at)
            padded += all(-pads[i] <= at[i] < x[2 + i] + pads[spatial + i] for i in range(spatial))
        yield out, inside, padded


def planes(position: tuple[int, ...]) -> tuple[Any, ...]:
    """Index of one spatial position in every plane."""
    return (..., *position)


def attributes(case: str) -> dict[str, Any]:
    _, kernel, strides, pads, dilations, ceil_mode = CASES[case]
    return {"kernel": kernel, "strides": strides, "pads": pads, "dilations": dilations, "ceil_mode": ceil_mode}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", CASES)
def test_max(case: str, level: str) -> None:
    x = values(CASES[case][0], np.float32)
    expected = np.full(extents(case), -np.inf)
    for out, inside, _ in windows(case):
        for at in inside:
            expected[planes(out)] = np.maximum(expected[planes(out)], x[planes(at)])
    for threads in (1, 2):
        (y,) = call_op(
            POOL, [x], [(expected.shape, np.float32)], mode="max", threads=threads, level=level, **attributes(case)
        )
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("case", CASES)
def test_average(case: str, dtype: Any, include: bool) -> None:
    x = values(CASES[case][0], dtype)
    expected = np.zeros(extents(case))
    for out, inside, padded in windows(case):
        total = sum((x[planes(at)].astype(np.float64) for at in inside), np.zeros(x.shape[:2]))
        count = padded if include else len(inside)
        expected[planes(out)] = total / count if count else 0
    (y,) = call_op(POOL, [x], [(expected.shape, dtype)], mode="average", count_include_pad=include, **attributes(case))
    close(y, expected, depth=9)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lp(dtype: Any, p: int) -> None:
    case = "3x3 stride 2"
    x = values(CASES[case][0], dtype)
    expected = np.zeros(extents(case))
    for out, inside, _ in windows(case):
        total = sum((np.abs(x[planes(at)].astype(np.float64)) ** p for at in inside), np.zeros(x.shape[:2]))
        expected[planes(out)] = total ** (1 / p)
    (y,) = call_op(POOL, [x], [(expected.shape, dtype)], mode="lp", p=p, **attributes(case))
    close(y, expected, depth=9)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_max_of_integers(dtype: Any) -> None:
    case = "3x3 stride 2"
    x = values(CASES[case][0], dtype)
    expected = np.zeros(extents(case), dtype)
    for out, inside, _ in windows(case):
        expected[planes(out)] = np.max([x[planes(at)] for at in inside], axis=0)
    # Compiled code passes unsigned integers as signed ones of their size, and says so.
    signed = np.dtype(f"i{np.dtype(dtype).itemsize}")
    (y,) = call_op(
        POOL,
        [x.view(signed)],
        [(expected.shape, signed)],
        mode="max",
        unsigned=np.dtype(dtype).kind == "u",
        **attributes(case),
    )
    np.testing.assert_array_equal(y.view(dtype), expected)


@pytest.mark.parametrize("storage_order", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("case", [name for name in CASES if name != "window in padding"])
def test_indices(case: str, dtype: Any, storage_order: int) -> None:
    x = values(CASES[case][0], dtype)
    x.reshape(-1)[::3] = x.reshape(-1)[0]  # ties: the first wins
    shape = extents(case)
    expected, positions = np.zeros(shape, dtype), np.zeros(shape, np.int64)
    number = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2])
    for out, inside, _ in windows(case):
        for n, c in np.ndindex(*x.shape[:2]):
            best = max(inside, key=lambda at: x[(n, c, *at)])
            expected[(n, c, *out)] = x[(n, c, *best)]
            flat = int(np.ravel_multi_index(best, x.shape[2:], order="F" if storage_order else "C"))
            positions[(n, c, *out)] = number[n, c] * int(np.prod(x.shape[2:])) + flat
    y, indices = call_op(
        INDICES, [x], [(shape, dtype), (shape, np.int64)], storage_order=storage_order, threads=2, **attributes(case)
    )
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(indices, positions)


@pytest.mark.parametrize("mode", ["max", "average", "lp"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(2, 3, 7, 7), (1, 2, 33), (2, 1, 3, 5, 7), (3, 70, 16, 16), (2, 2, 1, 1)])
def test_global(shape: tuple[int, ...], dtype: Any, mode: str) -> None:
    x = values(shape, dtype)
    flat = x.astype(np.float64).reshape(*shape[:2], -1)
    expected = {"max": flat.max(-1), "average": flat.mean(-1), "lp": np.sqrt((flat**2).sum(-1))}[mode]
    expected = expected.reshape(*shape[:2], *[1] * (len(shape) - 2))
    (y,) = call_op(GLOBAL, [x], [(expected.shape, dtype)], mode=mode, threads=2)
    close(y, expected, depth=flat.shape[-1])


def test_not_a_number_stays() -> None:
    x = np.array([[[1, np.nan, 5, 2, 3, 9]]], np.float32)
    (y,) = call_op(
        POOL, [x], [((1, 1, 3), np.float32)], mode="max", kernel=[2], strides=[2], pads=[0, 0], dilations=[1]
    )
    np.testing.assert_array_equal(y, [[[np.nan, 5, 9]]])
    (y,) = call_op(GLOBAL, [x], [((1, 1, 1), np.float32)], mode="max")
    assert np.isnan(y).all()


def test_empty() -> None:
    (y,) = call_op(
        POOL,
        [np.zeros((0, 2, 4), np.float32)],
        [((0, 2, 2), np.float32)],
        mode="max",
        kernel=[2],
        strides=[2],
        pads=[0, 0],
        dilations=[1],
    )
    assert y.size == 0


def test_errors_say_what_differs() -> None:
    window: dict[str, Any] = {"kernel": [2], "strides": [2], "pads": [0, 0], "dilations": [1]}
    x = np.ones((1, 2, 4), np.float32)
    with pytest.raises(KernelError, match="pool: a spatial extent of y is 3, expected 2"):
        call_op(POOL, [x], [((1, 2, 3), np.float32)], mode="max", **window)
    with pytest.raises(KernelError, match="average pool does not support element type int32"):
        call_op(POOL, [x.astype(np.int32)], [((1, 2, 2), np.int32)], mode="average", **window)
    with pytest.raises(KernelError, match="p is 0; it must be positive"):
        call_op(POOL, [x], [((1, 2, 2), np.float32)], mode="lp", p=0, **window)


@pytest.mark.parametrize("case", CASES)
def test_symbolic_extents_agree(case: str) -> None:
    x, kernel, strides, pads, dilations, ceil_mode = CASES[case]
    spatial = len(x) - 2
    for i in range(spatial):
        window = (kernel[i], strides[i], dilations[i], pads[i], pads[spatial + i])
        assert pool_extent(dim(x[2 + i]), *window, ceil_mode=ceil_mode).value == extents(case)[2 + i]
    assert pool_extent(symbol("n"), 3, 1, 1, 1, 1, ceil_mode=False) == symbol("n")
