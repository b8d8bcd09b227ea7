"""hip.matmul against float64 NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hip_compiler.core.dialects.hip.matmul import ACTIVATIONS, OPS, PANEL
from hip_compiler.toolchain import runnable_levels
from tests.kernels.harness import KernelError, call_op
from tests.kernels.oracles import activate, close

MATMUL = OPS[0]
LEVELS = [level.name for level in runnable_levels()]


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind in "iu":
        return generator.integers(0 if np.dtype(dtype).kind == "u" else -9, 9, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def pack(b: np.ndarray) -> np.ndarray:
    """`[K, N]` to `[ceil(N / 32), K, 32]`, zero-padded."""
    depth, columns = b.shape
    panels = -(-columns // PANEL)
    padded = np.zeros((depth, panels * PANEL), b.dtype)
    padded[:, :columns] = b
    return np.ascontiguousarray(padded.reshape(depth, panels, PANEL).transpose(1, 0, 2))


SIZES = [1, 2, 7, 14, 15, 31, 32, 33, 64, 97]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("form", ["plain", "packed", "trans_a", "trans_b", "trans_both"])
def test_extents(form: str, level: str) -> None:
    generator = np.random.default_rng(7)
    cases = [tuple(int(v) for v in generator.choice(SIZES, 3)) for _ in range(12)]
    cases += [(1, 1, 1), (1, 97, 33), (1, 64, 64), (2, 1, 32), (29, 32, 1), (1, 1, 97), (3, 96, 70)]
    for m, n, k in cases:
        a, b = values((m, k), np.float32), values((k, n), np.float32, 1)
        left = np.ascontiguousarray(a.T) if form in ("trans_a", "trans_both") else a
        right = np.ascontiguousarray(b.T) if form in ("trans_b", "trans_both") else b
        attributes: dict[str, Any] = {
            "trans_a": form in ("trans_a", "trans_both"),
            "trans_b": form in ("trans_b", "trans_both"),
        }
        if form == "packed":
            right, attributes = pack(b), {"packed": True, "n": n}
        for threads in (1, 2):
            (y,) = call_op(
                MATMUL, [left, right, None, None], [((m, n), np.float32)], threads=threads, level=level, **attributes
            )
            close(y, a.astype(np.float64) @ b.astype(np.float64), depth=k, what=f"{m}x{n}x{k} {threads} threads")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_depth_and_row_blocks(packed: bool, threads: int) -> None:
    # More than one block of the depth and of the rows, a ragged last panel, a row length that collides in the cache.
    for m, n, k in [(200, 70, 1300), (30, 300, 1024), (1, 300, 2000)]:
        a, b = values((m, k), np.float32), values((k, n), np.float32, 1)
        residual = values((m, n), np.float32, 2)
        attributes: dict[str, Any] = {"packed": True, "n": n} if packed else {}
        (y,) = call_op(
            MATMUL,
            [a, pack(b) if packed else b, None, residual],
            [((m, n), np.float32)],
            threads=threads,
            activation="relu",
            **attributes,
        )
        expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0) + residual
        close(y, expected, depth=k, what=f"{m}x{n}x{k}")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_epilogues(activation: str, dtype: Any) -> None:
    m, n, k = 17, 45, 9
    a, b = values((m, k), dtype), values((k, n), dtype, 1)
    bias, residual = values((n,), dtype, 2), values((m, n), dtype, 3)
    parameters = {"leaky_relu": (0.2, 0.0), "hard_sigmoid": (0.3, 0.4), "clip": (-0.5, 0.75)}.get(
        activation, (0.0, 0.0)
    )
    product = 0.5 * (a.astype(np.float64) @ b.astype(np.float64)) + bias.astype(np.float64)
    expected = activate(activation, product, *parameters) + residual.astype(np.float64)
    (y,) = call_op(
        MATMUL,
        [a, b, bias, residual],
        [((m, n), dtype)],
        alpha=0.5,
        activation=activation,
        activation_alpha=parameters[0],
        activation_beta=parameters[1],
    )
    close(y, expected, depth=k)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64, np.float32])
@pytest.mark.parametrize("level", LEVELS)
def test_packed_types(dtype: Any, level: str) -> None:
    m, n, k = 5, 70, 40
    a, b = values((m, k), dtype), values((k, n), dtype, 1)
    (y,) = call_op(MATMUL, [a, pack(b), None, None], [((m, n), dtype)], packed=True, n=n, level=level)
    close(y, a.astype(np.float64) @ b.astype(np.float64), depth=k)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_transposed_types(dtype: Any, trans: bool) -> None:
    m, n, k = 13, 37, 21
    a, b = values((m, k), dtype), values((k, n), dtype, 1)
    left, right = (np.ascontiguousarray(a.T), b) if trans else (a, np.ascontiguousarray(b.T))
    (y,) = call_op(MATMUL, [left, right, None, None], [((m, n), dtype)], trans_a=trans, trans_b=not trans)
    close(y, a.astype(np.float64) @ b.astype(np.float64), depth=k)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint32, np.uint64])
def test_integers_wrap(dtype: Any) -> None:
    a, b = values((6, 50), dtype), values((50, 130), dtype, 1)
    bias, residual = values((130,), dtype, 2), values((6, 130), dtype, 3)
    (y,) = call_op(MATMUL, [a, b, bias, residual], [((6, 130), dtype)], threads=2)
    with np.errstate(over="ignore"):
        expected = (a @ b + bias + residual).astype(dtype)
    assert expected.any()
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("a_batch", "b_batch"),
    [((3,), ()), ((), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((5, 4), (5, 4)), ((1,), ()), ((), (1, 1))],
)
@pytest.mark.parametrize("form", ["plain", "trans_a", "trans_b"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batches(a_batch: tuple[int, ...], b_batch: tuple[int, ...], form: str, dtype: Any, threads: int) -> None:
    for m, n, k in [(5, 40, 12), (33, 33, 33)]:
        a, b = values((*a_batch, m, k), dtype), values((*b_batch, k, n), dtype, 1)
        expected = 2.0 * (a.astype(np.float64) @ b.astype(np.float64))
        left = np.ascontiguousarray(np.swapaxes(a, -1, -2)) if form == "trans_a" else a
        right = np.ascontiguousarray(np.swapaxes(b, -1, -2)) if form == "trans_b" else b
        (y,) = call_op(
            MATMUL,
            [left, right, None, None],
            [(expected.shape, dtype)],
            alpha=2.0,
            trans_a=form == "trans_a",
            trans_b=form == "trans_b",
            threads=threads,
        )
        close(y, expected, depth=k, what=f"{a.shape} {b.shape}")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.float16])
def test_empty(dtype: Any) -> None:
    bias = values((4,), dtype, 2)
    (y,) = call_op(MATMUL, [values((3, 0), dtype), values((0, 4), dtype), bias, None], [((3, 4), dtype)])
    np.testing.assert_array_equal(y, np.broadcast_to(bias, (3, 4)))
    for m, n in [(0, 4), (3, 0), (0, 0)]:
        (y,) = call_op(MATMUL, [values((m, 5), dtype), values((5, n), dtype), None, None], [((m, n), dtype)])
        assert y.shape == (m, n)
    (y,) = call_op(MATMUL, [values((0, 2, 5), dtype), values((5, 3), dtype), None, None], [((0, 2, 3), dtype)])
    assert y.size == 0


def test_not_a_number_and_infinity_pass_through() -> None:
    a = np.array([[np.nan, 1.0], [np.inf, 1.0], [-np.inf, 0.0]], np.float32)
    b = np.ones((2, 3), np.float32)
    for activation in ("none", "relu", "tanh", "sigmoid", "gelu", "silu", "clip"):
        (y,) = call_op(
            MATMUL,
            [a, b, None, None],
            [((3, 3), np.float32)],
            activation=activation,
            activation_alpha=-1.0,
            activation_beta=1.0,
        )
        assert np.isnan(y[0]).all(), activation
        expected = activate(activation, np.array([np.inf]), -1.0, 1.0)[0]
        assert (y[1] == expected).all(), activation


def test_errors_say_what_differs() -> None:
    a, b = values((2, 3), np.float32), values((4, 5), np.float32)
    with pytest.raises(KernelError, match="the inner extent of b is 4, expected 3"):
        call_op(MATMUL, [a, b, None, None], [((2, 5), np.float32)])
    with pytest.raises(KernelError, match="the number of columns of y is 6, expected 5"):
        call_op(MATMUL, [a, values((3, 5), np.float32), None, None], [((2, 6), np.float32)])
    with pytest.raises(KernelError, match="a batch extent is 2, expected 3"):
        call_op(
            MATMUL,
            [values((3, 2, 3), np.float32), values((2, 3, 5), np.float32), None, None],
            [((3, 2, 5), np.float32)],
        )
    with pytest.raises(KernelError, match="matmul of float by double to float"):
        call_op(MATMUL, [a, values((3, 5), np.float64), None, None], [((2, 5), np.float32)])
    with pytest.raises(KernelError, match="matmul does not support element type bool"):
        call_op(MATMUL, [np.ones((1, 1), bool), np.ones((1, 1), bool), None, None], [((1, 1), bool)])
