"""Operations with an extent that depends on data, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.core.dialects.hip.nms import OPS as NMS_OPS
from hip_compiler.core.dialects.hip.selection import OPS
from tests.kernels.compare import BF16, NUMBERS, SIZES, draw, is_float, widen
from tests.kernels.harness import KernelError, call_op
from tests.kernels.reference import reference

NONZERO_COUNT, NONZERO, COMPRESS_COUNT, COMPRESS, UNIQUE_COUNT, UNIQUE = OPS
NMS_COUNT, NMS = NMS_OPS
NUMBER = [((), np.int64)]


@pytest.mark.parametrize("dtype", [*NUMBERS, np.bool_])
@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (2, 3, 2, 3), (0, 3)])
def test_nonzero(shape: tuple[int, ...], dtype: Any) -> None:
    x = (draw(shape, np.int64, scale=1) % 3).astype(dtype)
    if is_float(dtype) and x.size > 4:
        x.reshape(-1)[:3] = -0.0, np.nan, 1e-7
    expected = np.array(np.nonzero(np.atleast_1d(widen(x) if is_float(dtype) else x)))
    if shape == ():
        expected = expected[:0]
    (count,) = call_op(NONZERO_COUNT, [x], NUMBER)
    assert count == np.count_nonzero(widen(x))
    result = (len(shape), int(count))
    (actual,) = call_op(NONZERO, [x], [(result, np.int64)])
    np.testing.assert_array_equal(actual, expected.reshape(result))


def test_nonzero_refuses_a_wrong_extent() -> None:
    with pytest.raises(KernelError, match="does not have 1 rows of 2"):
        call_op(NONZERO, [np.array([1, 0, 2])], [((1, 3), np.int64)])


@pytest.mark.parametrize("dtype", [*SIZES, BF16])
@pytest.mark.parametrize(("shape", "axis"), [((6,), 0), ((4, 3), 0), ((3, 5), 1), ((2, 4, 3), -2)])
@pytest.mark.parametrize("flatten", [False, True])
def test_compress(shape: tuple[int, ...], axis: int, flatten: bool, dtype: Any) -> None:
    x = draw(shape, dtype)
    length = x.size if flatten else shape[axis]
    condition = np.arange(length - 1) % 3 != 1
    expected = np.compress(condition, x, None if flatten else axis)
    (count,) = call_op(COMPRESS_COUNT, [condition], NUMBER)
    assert count == condition.sum()
    (actual,) = call_op(COMPRESS, [x, condition], [(expected.shape, dtype)], axis=axis, flatten=flatten)
    np.testing.assert_array_equal(actual, expected)


def test_compress_keeps_260_of_280_wide_rows() -> None:
    x, condition = draw((280, 3840)), np.arange(280) % 14 != 3
    expected = x[condition]
    assert expected.shape == (260, 3840)
    (actual,) = call_op(COMPRESS, [x, condition], [(expected.shape, np.float32)], axis=0, threads=2)
    np.testing.assert_array_equal(actual, expected)


def test_compress_refuses_true_beyond_the_axis() -> None:
    with pytest.raises(KernelError, match="index 3 is outside axis 0 of extent 3"):
        call_op(COMPRESS, [draw((3,)), np.array([True, False, False, True])], [((2,), np.float32)])


def unique(x: np.ndarray, **attributes: Any) -> list[np.ndarray]:
    chosen = {name: value for name, value in attributes.items() if name != "sorted"}
    (count,) = call_op(UNIQUE_COUNT, [x], NUMBER, **chosen)
    n = int(count)
    flat, axis = attributes.get("flatten", False), attributes.get("axis", 0)
    shape = (n,) if flat else tuple(n if i == axis else extent for i, extent in enumerate(x.shape))
    length = x.size if flat else x.shape[axis]
    return call_op(
        UNIQUE, [x], [(shape, x.dtype), ((n,), np.int64), ((length,), np.int64), ((n,), np.int64)], **attributes
    )


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize(("shape", "axis"), [((1,), None), ((60,), None), ((4, 5), None), ((40, 2), 0), ((2, 30), 1)])
def test_unique(shape: tuple[int, ...], axis: int | None, dtype: Any) -> None:
    x = (draw(shape, np.int64) % 4).astype(dtype)
    wide = widen(x) if is_float(dtype) else x
    values, first, inverse, counts = np.unique(wide, True, True, True, axis)
    actual = unique(x, flatten=True) if axis is None else unique(x, axis=axis)
    for ours, theirs in zip(actual, (values, first, inverse.reshape(-1), counts), strict=True):
        np.testing.assert_array_equal(widen(ours) if is_float(ours.dtype) else ours, theirs)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float32, np.int8])
def test_unique_of_many(dtype: Any) -> None:
    """Runs of 1,024, the last one short, of numbers at both ends of their type; the first of equal ones is kept."""
    x = (draw((2500,), np.int64) % 700).astype(dtype)
    x[[7, 1600]] = np.finfo(dtype).max if is_float(np.dtype(dtype)) else np.iinfo(dtype).max
    x[[9, 2400]] = np.finfo(dtype).min if is_float(np.dtype(dtype)) else np.iinfo(dtype).min
    for ours, theirs in zip(unique(x, flatten=True), np.unique(x, True, True, True), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_unique_in_order_of_appearance() -> None:
    x = np.array([2, 1, 1, 3, 4, 3], np.float32)
    values, first, inverse, counts = unique(x, flatten=True, sorted=False)
    assert values.tolist() == [2, 1, 3, 4]
    assert first.tolist() == [0, 1, 3, 4]
    assert inverse.tolist() == [0, 1, 1, 2, 3, 2]
    assert counts.tolist() == [1, 2, 2, 1]


def test_unique_special_values() -> None:
    x = np.array([np.nan, -0.0, np.inf, np.nan, 0.0], np.float32)
    values, first, inverse, counts = unique(x, flatten=True)
    np.testing.assert_array_equal(values, np.array([0, np.inf, np.nan]))
    assert (first.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 0], [2, 0, 1, 2, 0], [2, 1, 2])
    assert unique(np.array([-1, 1], np.int8), flatten=True, unsigned=True)[0].tolist() == [1, -1]
    assert unique(draw((0,)), flatten=True)[0].shape == (0,)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("limit", [None, 0, 2, 50])
@pytest.mark.parametrize("threshold", [None, 0.4])
@pytest.mark.parametrize(("batches", "classes", "count"), [(1, 1, 8), (2, 3, 30), (1, 2, 0)])
def test_nms(batches: int, classes: int, count: int, threshold: float | None, limit: int | None, center: bool) -> None:
    rng = np.random.default_rng(count)
    boxes = rng.random((batches, count, 4)).astype(np.float32)
    # Scores of one decimal: many are equal.
    scores = np.round(rng.random((batches, classes, count)), 1).astype(np.float32)
    inputs: list[np.ndarray | None] = [
        boxes,
        scores,
        None if limit is None else np.array([limit], np.int64),
        np.array([0.3], np.float32),
        None if threshold is None else np.array([threshold], np.float32),
    ]
    theirs = [*inputs[:2], np.array([limit or 0], np.int64), *inputs[3:]]
    (expected,) = reference("NonMaxSuppression", theirs, opset=11, center_point_box=int(center))
    (found,) = call_op(NMS_COUNT, inputs, NUMBER, center_point_box=center)
    assert found == len(expected)
    (actual,) = call_op(NMS, inputs, [(expected.shape, np.int64)], center_point_box=center, threads=2)
    np.testing.assert_array_equal(actual, expected)
