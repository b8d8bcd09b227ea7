"""Gathers and scatters against NumPy, negative and wrong indices included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hip_compiler.core.dialects.hip.gather import OPS as GATHERS
from hip_compiler.core.dialects.hip.scatter import OPS as SCATTERS
from tests.kernels.compare import BF16, INTEGERS, SIZES, assert_close, draw, is_float, widen
from tests.kernels.harness import KernelError, call_op
from tests.kernels.reference import reference

GATHER, GATHER_ELEMENTS, GATHER_ND = GATHERS
SCATTER_ELEMENTS, SCATTER_ND, TENSOR_SCATTER = SCATTERS


def indices_into(extent: int, shape: tuple[int, ...], dtype: Any = np.int64) -> np.ndarray:
    return np.random.default_rng(extent).integers(-extent, extent, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [*SIZES, np.bool_, BF16])
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("shape", "axis", "index_shape"),
    [((5,), 0, (7,)), ((4, 3), 0, (2, 3)), ((4, 6), -1, ()), ((2, 5, 3), 1, (4,)), ((3, 2, 2), 2, (1, 2))],
)
def test_gather(shape: tuple[int, ...], axis: int, index_shape: tuple[int, ...], index_dtype: Any, dtype: Any) -> None:
    x, indices = draw(shape, dtype), indices_into(shape[axis], index_shape, index_dtype)
    expected = np.take(x, indices, axis)
    np.testing.assert_array_equal(
        call_op(GATHER, [x, indices], [(expected.shape, dtype)], axis=axis, threads=2)[0], expected
    )


@pytest.mark.parametrize("value", [5, -6, 2**40])
def test_gather_refuses_an_index_outside_the_axis(value: int) -> None:
    indices = np.array([0, value, 9 if value == 5 else 0])
    with pytest.raises(KernelError, match=f"gather: index {value} is outside axis 1 of extent 5") as caught:
        call_op(GATHER, [draw((2, 5)), indices], [((2, 3), np.float32)], axis=1)
    assert caught.value.status == 3


@pytest.mark.parametrize(("shape", "index_shape"), [((0, 3), (0,)), ((4, 0), (2,)), ((4, 3), (0,))])
def test_gather_empty(shape: tuple[int, ...], index_shape: tuple[int, ...]) -> None:
    expected = (*index_shape, *shape[1:])
    result = call_op(GATHER, [draw(shape), np.zeros(index_shape, np.int64)], [(expected, np.float32)])[0]
    assert result.shape == expected
    with pytest.raises(KernelError, match="index 0 is outside axis 0 of extent 0"):
        call_op(GATHER, [draw((0, 3)), np.zeros(1, np.int64)], [((1, 3), np.float32)])


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize(
    ("shape", "axis", "index_shape"),
    [((6,), 0, (9,)), ((4, 5), 0, (7, 5)), ((4, 5), 1, (3, 8)), ((3, 4, 5), 1, (2, 6, 3)), ((3, 4, 5), -1, (3, 4, 2))],
)
def test_gather_elements(shape: tuple[int, ...], axis: int, index_shape: tuple[int, ...], dtype: Any) -> None:
    x, indices = draw(shape, dtype), indices_into(shape[axis], index_shape)
    cut = x[tuple(slice(None) if i == axis % x.ndim else slice(n) for i, n in enumerate(index_shape))]
    expected = np.take_along_axis(cut, indices, axis)
    actual = call_op(GATHER_ELEMENTS, [x, indices], [(index_shape, dtype)], axis=axis, threads=2)[0]
    np.testing.assert_array_equal(actual, expected)


def test_gather_elements_refuses() -> None:
    with pytest.raises(KernelError, match="index -4 is outside axis 0 of extent 3"):
        call_op(GATHER_ELEMENTS, [draw((3, 2)), np.full((1, 2), -4)], [((1, 2), np.float32)])
    with pytest.raises(KernelError, match="axis 1 of indices is longer"):
        call_op(GATHER_ELEMENTS, [draw((3, 2)), np.zeros((1, 3), np.int64)], [((1, 3), np.float32)])


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize(
    ("shape", "batch_dims", "index_shape"),
    [
        ((4, 5), 0, (3, 2)),
        ((4, 5, 6), 0, (2, 3, 1)),
        ((2, 4, 5), 1, (2, 3, 1)),
        ((2, 4, 5), 1, (2, 2)),
        ((4,), 0, (1,)),
    ],
)
def test_gather_nd(shape: tuple[int, ...], batch_dims: int, index_shape: tuple[int, ...], dtype: Any) -> None:
    x, depth = draw(shape, dtype), index_shape[-1]
    columns = [indices_into(shape[batch_dims + k], index_shape[:-1]) for k in range(depth)]
    indices = np.stack(columns, -1)
    batch = index_shape[:batch_dims]
    rows = [
        np.stack([x[b][tuple(t)] for t in indices[b].reshape(-1, depth)]).reshape(
            (*index_shape[batch_dims:-1], *shape[batch_dims + depth :])
        )
        for b in np.ndindex(*batch)
    ]
    expected = np.stack(rows).reshape((*index_shape[:-1], *shape[batch_dims + depth :]))
    actual = call_op(GATHER_ND, [x, indices], [(expected.shape, dtype)], batch_dims=batch_dims)[0]
    np.testing.assert_array_equal(actual, expected)


def test_gather_nd_refuses() -> None:
    with pytest.raises(KernelError, match="gather_nd: index 5 is outside axis 1 of extent 5"):
        call_op(GATHER_ND, [draw((4, 5)), np.array([[3, 5]])], [((1,), np.float32)])


REDUCE: dict[str, Any] = {"none": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scattered(x: np.ndarray, places: list[tuple[int, ...]], updates: np.ndarray, reduction: str) -> np.ndarray:
    result = widen(x) if is_float(x.dtype) else x.copy()
    for place, update in zip(places, updates.reshape(-1), strict=True):
        value = update.astype(result.dtype)
        result[place] = value if reduction == "none" else REDUCE[reduction](result[place], value)
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.float64, BF16, *INTEGERS])
@pytest.mark.parametrize("reduction", list(REDUCE))
@pytest.mark.parametrize(
    ("shape", "axis", "index_shape"), [((9,), 0, (5,)), ((3, 4, 5), 1, (2, 3, 5)), ((4, 6), -1, (4, 3))]
)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_scatter_elements(
    shape: tuple[int, ...], axis: int, index_shape: tuple[int, ...], reduction: str, dtype: Any
) -> None:
    x, updates = draw(shape, dtype), draw(index_shape, dtype, 1)
    indices = indices_into(shape[axis], index_shape)
    if dtype == BF16 or reduction == "none":
        # Once per place: every bfloat16 update rounds.
        line = np.arange(index_shape[axis]) - 1
        indices = np.broadcast_to(line.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]), index_shape)
    places = [
        tuple(int(indices[at]) if i == axis % x.ndim else n for i, n in enumerate(at))
        for at in np.ndindex(*index_shape)
    ]
    expected = scattered(x, places, updates, reduction)
    actual = call_op(SCATTER_ELEMENTS, [x, indices, updates], [(shape, dtype)], axis=axis, reduction=reduction)[0]
    assert_close(actual, expected)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_signless_storage_read_as_unsigned(dtype: Any) -> None:
    x = np.array([1, -1, 5], dtype)
    updates = np.array([-2, 3, 4], dtype)
    indices = np.array([0, 1, 2])
    for unsigned, expected in ((False, [1, 3, 5]), (True, [-2, -1, 5])):
        actual = call_op(SCATTER_ELEMENTS, [x, indices, updates], [((3,), dtype)], reduction="max", unsigned=unsigned)[
            0
        ]
        np.testing.assert_array_equal(actual, np.array(expected, dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8])
@pytest.mark.parametrize("reduction", list(REDUCE))
@pytest.mark.parametrize(
    ("shape", "index_shape"), [((6,), (4, 1)), ((4, 5), (2, 3, 1)), ((4, 5, 2), (3, 2)), ((3, 2), (2, 2))]
)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_scatter_nd(shape: tuple[int, ...], index_shape: tuple[int, ...], reduction: str, dtype: Any) -> None:
    depth = index_shape[-1]
    x, updates = draw(shape, dtype), draw((*index_shape[:-1], *shape[depth:]), dtype, 1)
    indices = np.stack([indices_into(shape[k], index_shape[:-1]) for k in range(depth)], -1)
    places = [
        (*(int(v) for v in row), *rest) for row in indices.reshape(-1, depth) for rest in np.ndindex(*shape[depth:])
    ]
    expected = scattered(x, places, updates, reduction)
    actual = call_op(SCATTER_ND, [x, indices, updates], [(shape, dtype)], reduction=reduction)[0]
    assert_close(actual, expected)


@pytest.mark.parametrize("dtype", SIZES)
def test_scatter_moves_any_size(dtype: Any) -> None:
    x, updates = draw((4, 3), dtype), draw((2, 3), dtype, 1)
    expected = x.copy()
    expected[[-1, 0]] = updates
    actual = call_op(SCATTER_ND, [x, np.array([[-1], [0]], np.int32), updates], [((4, 3), dtype)])[0]
    np.testing.assert_array_equal(actual, expected)


def test_nan_is_the_extreme() -> None:
    x, updates = np.array([1, np.nan, 3], np.float32), np.array([np.nan, 2, 4], np.float32)
    for reduction in ("max", "min"):
        actual = call_op(SCATTER_ELEMENTS, [x, np.arange(3), updates], [((3,), np.float32)], reduction=reduction)[0]
        np.testing.assert_array_equal(actual, REDUCE[reduction](x, updates))


def test_scatter_refuses_and_copies() -> None:
    with pytest.raises(KernelError, match="scatter_elements: index 3 is outside axis 0 of extent 3"):
        call_op(SCATTER_ELEMENTS, [draw((3,)), np.array([3]), draw((1,))], [((3,), np.float32)])
    with pytest.raises(KernelError, match="scatter_nd: index -3 is outside axis 1 of extent 2"):
        call_op(SCATTER_ND, [draw((3, 2)), np.array([[0, -3]]), draw((1,))], [((3, 2), np.float32)])
    x = draw((3, 2))
    (same,) = call_op(SCATTER_ND, [x, np.zeros((0, 1), np.int64), draw((0, 2))], [((3, 2), np.float32)])
    np.testing.assert_array_equal(same, x)


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 5, 4), -2), ((2, 5), 1), ((2, 5, 1, 3), 1)])
@pytest.mark.parametrize("given", [True, False])
def test_tensor_scatter(given: bool, shape: tuple[int, ...], axis: int, mode: str, dtype: Any) -> None:
    past = draw(shape, dtype)
    update = draw(tuple(2 if i == axis % len(shape) else n for i, n in enumerate(shape)), dtype, 1)
    positions = np.array([3, 4 if mode == "circular" else 0]) if given else None
    (expected,) = reference("TensorScatter", [past, update, positions], opset=24, mode=mode, axis=axis)
    actual = call_op(TENSOR_SCATTER, [past, update, positions], [(shape, dtype)], mode=mode, axis=axis, threads=2)[0]
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(("first", "mode", "index"), [(4, "linear", 5), (5, "circular", 5), (-1, "linear", -1)])
def test_tensor_scatter_refuses(first: int, mode: str, index: int) -> None:
    with pytest.raises(KernelError, match=f"index {index} is outside axis 1 of extent 5"):
        call_op(
            TENSOR_SCATTER, [draw((1, 5)), draw((1, 2)), np.array([first])], [((1, 5), np.float32)], axis=1, mode=mode
        )
