"""hip.matmul on GPUs: what the matrix library computes, what kernels add, and what they do alone."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hip_compiler.core.dialects.hip.matmul import ACTIVATIONS
from tests.fake_hip import FakeHip
from tests.gpu_runtime.harness import Context, RunError, context, tensor
from tests.gpu_runtime.stub import StubKernel, code_object, loader, ptx, view

TOLERANCE = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 4e-2, "float64": 1e-12}


def activate(name: str, x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """In float64."""
    if name == "gelu":
        return np.asarray(x * 0.5 * (1 + np.vectorize(__import__("math").erf)(x / np.sqrt(2))))
    return np.asarray(
        {
            "none": lambda: x,
            "relu": lambda: np.maximum(x, 0),
            "gelu_tanh": lambda: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
            "silu": lambda: x / (1 + np.exp(-x)),
            "sigmoid": lambda: 1 / (1 + np.exp(-x)),
            "leaky_relu": lambda: np.where(x < 0, alpha * x, x),
            "clip": lambda: np.clip(x, alpha, beta),
        }[name]()
    )


def _stored(values: np.ndarray, dtype: np.dtype[Any]) -> bytes:
    """Floats rounded, integers wrapped."""
    return (values.astype(np.int64) if dtype.kind == "i" else values).astype(dtype).tobytes()


def _product(
    memory: Any, dtype: np.dtype[Any], a: int, b: int, m: int, n: int, k: int, trans: tuple[int, int]
) -> np.ndarray:
    if not k:
        return np.zeros((m, n))
    left = view(memory, a, m * k, dtype).astype(np.float64).reshape((k, m) if trans[0] else (m, k))
    right = view(memory, b, n * k, dtype).astype(np.float64).reshape((n, k) if trans[1] else (k, n))
    return np.asarray((left.T if trans[0] else left) @ (right.T if trans[1] else right))


def _finish(memory: Any, dtype: np.dtype[Any], x: np.ndarray, end: bytes, at: int) -> np.ndarray:
    """`finish` of hipc_math.h; `at` is the number of the first element of y."""
    bias, residual, alpha, first, second, activation = struct.unpack("<QQfffi", end)
    x = alpha * x + (view(memory, bias, x.shape[1], dtype).astype(np.float64) if bias else 0)
    x = activate(ACTIVATIONS[activation], x, first, second)
    place = residual + at * dtype.itemsize
    return x + (view(memory, place, x.size, dtype).astype(np.float64).reshape(x.shape) if residual else 0)


def _stride(space: bytes, count: int) -> int:
    *numbers, rank, _ = struct.unpack("<16qii", space)
    assert (rank, numbers[0]) == (1, count)
    return int(numbers[8])


def _matmul(dtype: np.dtype[Any]) -> Callable[..., None]:
    def run(memory: Any, grid: Any, block: Any, a: int, b: int, y: int, m: int, n: int, k: int, *rest: Any) -> None:
        trans, strides, count, end = rest[:2], rest[2:4], rest[4], rest[5]
        assert tuple(block) == (256, 1, 1) and tuple(grid) == (-(-n // 64) * -(-m // 64), count, 1)
        for z in range(count):
            left, right = (
                place + z * _stride(s, count) * dtype.itemsize for place, s in zip((a, b), strides, strict=True)
            )
            x = _product(memory, dtype, left, right, m, n, k, trans)
            memory.write(y + z * m * n * dtype.itemsize, _stored(_finish(memory, dtype, x, end, z * m * n), dtype))

    return run


def _plain(dtype: np.dtype[Any]) -> Callable[..., None]:
    def run(memory: Any, grid: Any, block: Any, a: int, b: int, bias: int, residual: int, y: int, *rest: Any) -> None:
        m, n, k, trans, strides, count, alpha = *rest[:3], rest[3:5], rest[5:7], rest[7], rest[8]
        for z in range(count):
            left, right = (
                place + z * _stride(s, count) * dtype.itemsize for place, s in zip((a, b), strides, strict=True)
            )
            x = alpha * _product(memory, dtype, left, right, m, n, k, trans)
            x = x + (view(memory, bias, n, dtype).astype(np.float64) if bias else 0)
            at = z * m * n * dtype.itemsize
            x = x + (view(memory, residual + at, m * n, dtype).astype(np.float64).reshape(m, n) if residual else 0)
            memory.write(y + at, _stored(x, dtype))

    return run


def _epilogue(dtype: np.dtype[Any]) -> Callable[..., None]:
    def run(memory: Any, grid: Any, block: Any, y: int, count: int, n: int, end: bytes) -> None:
        x = view(memory, y, count, dtype).astype(np.float64).reshape(-1, n)
        memory.write(y, _stored(_finish(memory, dtype, x, end, 0), dtype))

    return run


FLOATS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
OTHERS = {"float64": "f64", "int32": "i32"}
SPACE, END = "136s", "32s"
KERNELS = {
    f"matmul_{word}": StubKernel((*"QQQqqqii", SPACE, SPACE, "q", END), _matmul(np.dtype(name)))
    for name, word in FLOATS.items()
}
KERNELS |= {f"epilogue_{word}": StubKernel((*"Qqq", END), _epilogue(np.dtype(name))) for name, word in FLOATS.items()}
KERNELS |= {
    f"matmul_plain_{word}": StubKernel((*"QQQQQqqqii", SPACE, SPACE, "q", "d"), _plain(np.dtype(name)))
    for name, word in OTHERS.items()
}
FILES = {"device/index": b"gfx1151\n", "device/gfx1151.library": code_object(KERNELS)}


@pytest.fixture
def hip(make_hip: Callable[..., FakeHip]) -> FakeHip:
    return make_hip(load=loader(KERNELS))


def multiply(
    state: Context,
    a: np.ndarray,
    b: np.ndarray,
    bias: np.ndarray | None = None,
    residual: np.ndarray | None = None,
    *,
    trans: tuple[bool, bool] = (False, False),
    alpha: float = 1.0,
    activation: str = "none",
    parameters: tuple[float, float] = (0.0, 0.0),
) -> np.ndarray:
    """hipc_matmul over operands of the host, checked against float64."""
    left = a.swapaxes(-1, -2) if trans[0] else a
    right = b.swapaxes(-1, -2) if trans[1] else b
    expected = alpha * (left.astype(np.float64) @ right.astype(np.float64))
    expected = activate(activation, expected + (0 if bias is None else bias.astype(np.float64)), *parameters)
    expected = expected + (0 if residual is None else residual.astype(np.float64))
    given = [value for value in (a, b, bias, residual) if value is not None]
    places = iter(state.begin(given))
    operands = [
        None if value is None else ctypes.byref(tensor(next(places), value.shape, value.dtype))
        for value in (a, b, bias, residual)
    ]
    y = ctypes.byref(tensor(state.output(0, expected.shape, a.dtype), expected.shape, a.dtype))
    numbers = (int(trans[0]), int(trans[1]), ctypes.c_double(alpha), ACTIVATIONS.index(activation), 0, 0)
    state.call("hipc_matmul", *operands, y, *numbers, *(ctypes.c_double(value) for value in parameters))
    state.end()
    found = state.outputs[0]
    if a.dtype.kind == "i":
        np.testing.assert_array_equal(found, expected.astype(np.int64).astype(a.dtype))
    else:
        tolerance = TOLERANCE[a.dtype.name]
        np.testing.assert_allclose(found.astype(np.float64), expected, rtol=tolerance, atol=4 * tolerance)
    assert expected.size == 0 or np.abs(expected).max() > 0
    return found


def draw(shape: Sequence[int], dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return (10 * values).astype(dtype) if np.dtype(dtype).kind == "i" else values.astype(dtype)


@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_library_computes_floats(hip: FakeHip, dtype: Any, trans: tuple[bool, bool]) -> None:
    with context(FILES) as state:
        a = draw((5, 7) if not trans[0] else (7, 5), dtype)
        b = draw((7, 3) if not trans[1] else (3, 7), dtype, 1)
        multiply(state, a, b, trans=trans, alpha=0.5)
    assert hip.blaslt.products == [(5, 3, 7, 1)] and hip.launched() == []


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_kernels_compute_the_rest(hip: FakeHip, dtype: Any) -> None:
    with context(FILES) as state:
        a, b = draw((2, 65, 7), dtype), draw((7, 130), dtype, 1)
        multiply(state, a, b, draw((130,), dtype, 2), draw((2, 65, 130), dtype, 3))
        with pytest.raises(RunError, match=r"matmul of (double|int32) with an activation"):
            multiply(state, a, b, activation="relu")
        state.function("hipc_end")(state.handle, 1)
    assert hip.blaslt.asked == 0 and len(hip.launches) == 1


FUSED = [
    ("none", False, False, 1, 0),
    ("none", True, False, 5, 0),
    ("none", True, True, 5, 0),
    ("relu", True, False, 7, 0),
    ("gelu_tanh", False, False, 32, 0),
    ("gelu_tanh", True, False, 37, 0),
    ("relu", True, True, 1, 1),
    ("gelu", True, False, 1, 1),
    ("silu", False, True, 1, 1),
    ("clip", False, False, 1, 1),
]


@pytest.mark.parametrize(("activation", "has_bias", "has_residual", "epilogue", "kernels"), FUSED)
@pytest.mark.parametrize("finds", ["all", "no epilogue", "nothing"])
def test_epilogues(
    hip: FakeHip, activation: str, has_bias: bool, has_residual: bool, epilogue: int, kernels: int, finds: str
) -> None:
    hip.blaslt.finds = finds != "nothing"
    if finds == "no epilogue":
        hip.blaslt.epilogues = {1}
    bias = draw((6,), seed=2) if has_bias else None
    residual = draw((5, 6), seed=3) if has_residual else None
    with context(FILES) as state:
        a, b = draw((5, 7)), draw((6, 7), seed=1)
        options: dict[str, Any] = {"trans": (False, True), "alpha": 0.75, "parameters": (-0.5, 0.5)}
        multiply(state, a, b, bias, residual, activation=activation, **options)
        names = hip.launched()
        if finds == "nothing":
            assert names == ["matmul_f32"] and hip.blaslt.products == []
        elif finds == "all":
            assert names == ["epilogue_f32"] * kernels and hip.blaslt.products == [(5, 6, 7, 1)]
        else:
            plain = activation == "none" and not has_bias
            assert names == ["epilogue_f32"] * (not plain) and hip.blaslt.products == [(5, 6, 7, 1)]


SHAPES = [
    ((2, 3, 4, 5), (2, 3, 5, 6), [(4, 6, 5, 6)]),
    ((3, 4, 5), (5, 6), [(12, 6, 5, 1)]),
    ((4, 5), (3, 5, 6), [(4, 6, 5, 3)]),
    ((2, 1, 4, 5), (3, 5, 6), [(4, 6, 5, 3)] * 2),
    ((2, 3, 4, 5), (3, 5, 6), [(4, 6, 5, 3)] * 2),
    ((2, 3, 4, 5), (2, 1, 5, 6), [(4, 6, 5, 3)] * 2),
    ((7, 1, 2, 4, 5), (3, 1, 5, 6), [(4, 6, 5, 2)] * 21),
    ((1, 1, 4, 5), (1, 5, 6), [(4, 6, 5, 1)]),
]


@pytest.mark.parametrize(("a", "b", "products"), SHAPES)
@pytest.mark.parametrize("finds", [True, False])
def test_leading_dimensions_broadcast(
    hip: FakeHip, a: tuple[int, ...], b: tuple[int, ...], products: list[tuple[int, ...]], finds: bool
) -> None:
    hip.blaslt.finds = finds
    with context(FILES) as state:
        y = multiply(state, draw(a), draw(b, seed=1))
        # An addend that differs between matrices, and a bias in a batch.
        multiply(state, draw(a), draw(b, seed=1), draw((6,), seed=2), draw(y.shape, seed=3), activation="relu")
    assert hip.blaslt.products == (products * 2 if finds else [])


def test_products_of_nothing(hip: FakeHip) -> None:
    with context(FILES) as state:
        multiply(state, draw((0, 4)), draw((4, 3)))
        found = multiply(state, draw((2, 0)), draw((0, 3)), draw((3,)))
        np.testing.assert_array_equal(found, np.broadcast_to(draw((3,)), (2, 3)))


def test_plans_are_kept_and_replayed(hip: FakeHip) -> None:
    with context(FILES, capture=True) as state:
        for number in range(4):
            multiply(state, draw((5, 7), seed=number), draw((7, 3), seed=9 + number), draw((3,), seed=number))
        assert hip.blaslt.asked == 1
        assert hip.calls.count("hipGraphLaunch") == 3
        for number in range(2):
            multiply(state, draw((6, 7), seed=number), draw((7, 3), seed=9 + number), draw((3,), seed=number))
        assert hip.blaslt.asked == 2


def test_the_nvidia_platform(make_hip: Callable[..., FakeHip]) -> None:
    hip = make_hip("sm_90", load=loader(KERNELS))
    files = {"device/index": b"sm_90\n", "device/sm_90.library": ptx(KERNELS)}
    with context(files, platform="nvidia") as state:
        bias = draw((3,), np.float16, 2)
        multiply(state, draw((2, 5, 7), np.float16), draw((2, 3, 7), np.float16, 1), trans=(False, True))
        multiply(state, draw((5, 7), np.float16), draw((7, 3), np.float16, 1), bias, activation="gelu_tanh")
        multiply(state, draw((5, 7), np.float16), draw((7, 3), np.float16, 1), bias, activation="silu")
    assert hip.blaslt.products == [(5, 3, 7, 2), (5, 3, 7, 1), (5, 3, 7, 1)]
    assert hip.launched() == ["epilogue_f16"]


def test_refusals(hip: FakeHip, monkeypatch: pytest.MonkeyPatch) -> None:
    a = ctypes.byref(tensor(0, (2, 3), np.float32))
    b = ctypes.byref(tensor(0, (4, 5), np.float32))
    y = ctypes.byref(tensor(0, (2, 5), np.float32))
    zero = ctypes.c_double(0)
    with context(FILES) as state:
        state.begin([])
        with pytest.raises(RunError, match="matmul: the inner extent of b is 4, expected 3"):
            state.call("hipc_matmul", a, b, None, None, y, 0, 0, ctypes.c_double(1), 0, 0, 0, zero, zero)
        with pytest.raises(RunError, match="packed matrix"):
            state.call("hipc_matmul", a, b, None, None, y, 0, 0, ctypes.c_double(1), 0, 1, 5, zero, zero)
        monkeypatch.setenv("HIPC_HIPBLASLT_LIBRARY", "/nowhere/libhipblaslt.so")
        b = ctypes.byref(tensor(0, (3, 5), np.float32))
        with pytest.raises(RunError, match=r"hipBLASLt cannot be loaded from /nowhere/libhipblaslt\.so"):
            state.call("hipc_matmul", a, b, None, None, y, 0, 0, ctypes.c_double(1), 0, 0, 0, zero, zero)
        state.function("hipc_end")(state.handle, 2)
