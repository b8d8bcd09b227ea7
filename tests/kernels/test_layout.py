"""hip.pad, hip.reverse_sequence and hip.one_hot against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.core.dialects.hip.layout import OPS
from tests.kernels.compare import BF16, SIZES, draw
from tests.kernels.harness import KernelError, call_op

PAD, REVERSE_SEQUENCE, ONE_HOT = OPS


def pad(x: np.ndarray, pads: list[int], value: np.ndarray | None, shape: tuple[int, ...], mode: str) -> np.ndarray:
    return call_op(PAD, [x, np.array(pads, np.int64), value], [(shape, x.dtype)], mode=mode, threads=2)[0]


@pytest.mark.parametrize("dtype", [*SIZES, np.bool_, BF16])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize(
    ("shape", "pads"),
    [
        ((5,), [2, 3]),
        ((3, 4), [1, 0, 2, 3]),
        ((2, 3, 4), [0, 5, 7, 1, 9, 11]),
        ((4, 3), [0, 0, 0, 0]),
        ((1, 6), [2, 2, 0, 1]),
    ],
)
def test_pad(shape: tuple[int, ...], pads: list[int], mode: str, dtype: Any) -> None:
    x = draw(shape, dtype)
    width = list(zip(pads[: len(shape)], pads[len(shape) :], strict=True))
    value = draw((), dtype, 7)
    expected = np.pad(x, width, constant_values=value[()]) if mode == "constant" else np.pad(x, width, mode=mode)  # type: ignore[call-overload]
    np.testing.assert_array_equal(pad(x, pads, value, expected.shape, mode), expected)


def test_pad_with_negative_amounts_crops() -> None:
    x = draw((5, 6))
    np.testing.assert_array_equal(pad(x, [-1, -2, -1, 0], None, (3, 4), "constant"), x[1:4, 2:])
    mixed = np.pad(x[1:], [(0, 2), (0, 0)])[:, :5]
    np.testing.assert_array_equal(pad(x, [-1, 0, 2, -1], None, (6, 5), "constant"), mixed)
    edge = np.pad(x, [(0, 0), (0, 3)], mode="edge")[:, 2:]
    np.testing.assert_array_equal(pad(x, [0, -2, 0, 3], None, edge.shape, "edge"), edge)
    np.testing.assert_array_equal(pad(x, [0, -9, 0, 5], None, (5, 2), "constant"), np.zeros((5, 2)))


def test_pad_empty_and_scalar() -> None:
    seven = np.array(7, np.float32)
    np.testing.assert_array_equal(pad(draw((0, 3)), [1, 0, 1, 0], seven, (2, 3), "constant"), np.full((2, 3), 7))
    np.testing.assert_array_equal(pad(seven, [], None, (), "constant"), seven)
    with pytest.raises(KernelError, match="axis 0 is empty"):
        pad(draw((0, 3)), [1, 0, 1, 0], None, (2, 3), "edge")
    with pytest.raises(KernelError, match="output axis 0 has extent 4, input and pads make 5"):
        pad(draw((3,)), [1, 1], None, (4,), "constant")


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("time_axis", [0, 1])
@pytest.mark.parametrize("tail", [(), (3,)])
def test_reverse_sequence(tail: tuple[int, ...], time_axis: int, dtype: Any) -> None:
    x, lengths = draw((4, 4, *tail), dtype), np.array([4, 0, 1, 3])
    expected = x.copy()
    for b, length in enumerate(lengths):
        rows = np.moveaxis(expected, time_axis, 0)[:, b]
        rows[:length] = rows[:length][::-1].copy()
    actual = call_op(REVERSE_SEQUENCE, [x, lengths], [(x.shape, dtype)], batch_axis=1 - time_axis, time_axis=time_axis)[
        0
    ]
    np.testing.assert_array_equal(actual, expected)


def test_reverse_sequence_refuses_long_lengths() -> None:
    with pytest.raises(KernelError, match=r"length 5 is outside \[0, 4\]"):
        call_op(REVERSE_SEQUENCE, [draw((4, 2)), np.array([5, 1])], [((4, 2), np.float32)])


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.float16])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis: int, dtype: Any) -> None:
    indices, depth = np.array([[0, 3, -1], [-4, 4, -5]], np.int32), 4
    values = np.array([2, 5], dtype)
    wrapped = np.where((indices >= -depth) & (indices < depth), indices % depth, -1)
    hot = np.expand_dims(wrapped, axis) == np.expand_dims(np.arange(depth), [i for i in range(3) if i != axis % 3])
    expected = np.where(hot, values[1], values[0])
    actual = call_op(ONE_HOT, [indices, values], [(expected.shape, dtype)], axis=axis)[0]
    np.testing.assert_array_equal(actual, expected)
