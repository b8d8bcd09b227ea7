"""Integer products and convolutions against sums in int64, and quantised operators against float64 and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import hip_compiler

onnxruntime = pytest.importorskip("onnxruntime", reason="the second opinion on operators that only it defines")

Arrays = Mapping[str, np.ndarray]


def bytes_of(rng: np.random.Generator, kind: str, *shape: int) -> np.ndarray:
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max + 1, shape).astype(kind)


def build(op: str, feeds: Arrays, constants: Arrays, order: str, *, domain: str = "", version: int = 21,
          **attributes: Any) -> onnx.ModelProto:  # fmt: skip
    """A model of one node; order: names of its inputs, "-" for an absent one."""
    names = ["" if name == "-" else name for name in order.split()]
    node = helper.make_node(op, names, ["y"], op, domain=domain, **attributes)
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for n, a in feeds.items()]  # fmt: skip
    held = [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph([node], "net", infos, [helper.make_empty_tensor_value_info("y")], held)
    imports = [helper.make_opsetid("", version), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def run(op: str, feeds: Arrays, constants: Arrays, order: str, **rest: Any) -> np.ndarray:
    return hip_compiler.compile(build(op, feeds, constants, order, **rest)).run(feeds)["y"]


def by_runtime(op: str, feeds: Arrays, constants: Arrays, order: str, **rest: Any) -> np.ndarray:
    model = build(op, feeds, constants, order, **rest)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, dict(feeds))[0])


def requantized(total: np.ndarray, factor: Any, zero: np.ndarray) -> np.ndarray:
    info = np.iinfo(zero.dtype)
    level = np.rint(total.astype(np.float32) * factor) + zero.astype(np.float32)
    return np.clip(level, info.min, info.max).astype(zero.dtype)


@pytest.mark.parametrize("kinds", [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"), ("int8", "uint8")])
@pytest.mark.parametrize("inner", [7, 300])
@pytest.mark.parametrize("fixed", [False, True])
def test_products_are_exact(kinds: tuple[str, str], inner: int, fixed: bool) -> None:
    """300 products of full range do not fit the exact range of float32: sums take the other way."""
    rng = np.random.default_rng(inner)
    a, b = bytes_of(rng, kinds[0], 2, 3, inner), bytes_of(rng, kinds[1], inner, 5)
    a[0, 0], b[:, 0] = np.iinfo(kinds[0]).max, np.iinfo(kinds[1]).max
    za, zb = bytes_of(rng, kinds[0], 3), bytes_of(rng, kinds[1], 5)
    za[0], zb[0] = np.iinfo(kinds[0]).min, np.iinfo(kinds[1]).min
    feeds = {"a": a} | ({} if fixed else {"b": b})
    constants = {"za": za, "zb": zb} | ({"b": b} if fixed else {})
    wide = (a.astype(np.int64) - za.astype(np.int64)[:, None]) @ (b.astype(np.int64) - zb.astype(np.int64))
    got = run("MatMulInteger", feeds, constants, "a b za zb")
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, wide)


def test_products_without_zero_points_and_of_vectors() -> None:
    rng = np.random.default_rng(2)
    a, b = bytes_of(rng, "uint8", 9), bytes_of(rng, "int8", 9, 4)
    wide = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(run("MatMulInteger", {"a": a}, {"b": b}, "a b"), wide)


@pytest.mark.parametrize("scales", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("kinds", [("uint8", "uint8"), ("int8", "int8"), ("uint8", "int8")])
def test_quantised_products(kinds: tuple[str, str], scales: Any) -> None:
    rng = np.random.default_rng(4)
    a, b = bytes_of(rng, kinds[0], 4, 16), bytes_of(rng, kinds[1], 16, 6)
    parameters = {
        "sa": np.array([0.02, 0.03, 0.01, 0.05], scales), "za": bytes_of(rng, kinds[0], 4),
        "sb": np.linspace(0.01, 0.04, 6).astype(scales), "zb": bytes_of(rng, kinds[1], 6),
        "sy": np.array(0.6, scales), "zy": np.array(3, kinds[0]),
    }  # fmt: skip
    got = run("QLinearMatMul", {"a": a}, {"b": b, **parameters}, "a sa za b sb zb sy zy")
    sa, sb, sy = (parameters[name].astype(np.float32) for name in ("sa", "sb", "sy"))
    total = (a.astype(np.int64) - parameters["za"].astype(np.int64)[:, None]) @ (
        b.astype(np.int64) - parameters["zb"].astype(np.int64)
    )
    expected = requantized(total, sa[:, None] * sb / sy, parameters["zy"])
    assert len(np.unique(expected)) > 8
    np.testing.assert_array_equal(got, expected)


def convolve(x: np.ndarray, w: np.ndarray, pad: int, stride: int, group: int) -> np.ndarray:
    """Convolution of integers over two spatial axes."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    parts = []
    for xs, ws in zip(np.split(windows, group, 1), np.split(w, group), strict=True):
        parts.append(np.einsum("ncijhw,mchw->nmij", xs, ws))
    return np.concatenate(parts, 1)


@pytest.mark.parametrize("kinds", [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")])
@pytest.mark.parametrize(("channels", "group", "fixed"), [(4, 1, True), (4, 4, False), (40, 1, True), (40, 1, False)])
def test_convolutions_are_exact(kinds: tuple[str, str], channels: int, group: int, fixed: bool) -> None:
    rng = np.random.default_rng(channels)
    x, w = bytes_of(rng, kinds[0], 2, channels, 6, 5), bytes_of(rng, kinds[1], 4, channels // group, 3, 3)
    w[0] = np.iinfo(kinds[1]).max
    zx, zw = bytes_of(rng, kinds[0], 1)[0], bytes_of(rng, kinds[1], 4)
    zw[0] = np.iinfo(kinds[1]).min
    total = convolve(
        x.astype(np.int64) - int(zx), w.astype(np.int64) - zw.astype(np.int64)[:, None, None, None], 1, 2, group
    )
    feeds = {"x": x} | ({} if fixed else {"w": w})
    constants: dict[str, np.ndarray] = {"zx": np.array(zx), "zw": zw} | ({"w": w} if fixed else {})
    attributes: dict[str, Any] = {"pads": [1, 1, 1, 1], "strides": [2, 2], "group": group}
    got = run("ConvInteger", feeds, constants, "x w zx zw", **attributes)
    np.testing.assert_array_equal(got, total)

    bias = rng.integers(-3000, 3000, 4).astype(np.int32)
    scales = {"sx": np.array(0.02, np.float32), "sw": np.linspace(0.001, 0.004, 4).astype(np.float32)}
    scales |= {"sy": np.array(0.3, np.float32)}
    constants = constants | scales | {"zy": np.array(7, kinds[0]), "b": bias}
    got = run("QLinearConv", feeds, constants, "x sx zx w sw zw sy zy b", **attributes)
    total = total + bias[:, None, None]
    factor = scales["sx"] * scales["sw"][:, None, None] / scales["sy"]
    expected = requantized(total, factor, constants["zy"])
    assert len(np.unique(expected)) > 8
    np.testing.assert_array_equal(got, expected)


PARAMETERS: dict[str, np.ndarray] = {
    "sa": np.array(0.03, np.float32), "za": np.array(120, np.uint8), "sb": np.array(0.05, np.float32),
    "zb": np.array(131, np.uint8), "sy": np.array(0.07, np.float32), "zy": np.array(100, np.uint8),
}  # fmt: skip
MICROSOFT: dict[str, tuple[str, dict[str, Any]]] = {
    "QLinearAdd": ("a sa za b sb zb sy zy", {}),
    "QLinearMul": ("a sa za b sb zb sy zy", {}),
    "QLinearSigmoid": ("a sa za sb zy", {}),
    "QLinearLeakyRelu": ("a sa za sy zy", {"alpha": 0.2}),
    "QLinearAveragePool": ("a sa za sy zy", {"kernel_shape": [2, 3], "pads": [1, 1, 1, 1], "strides": [2, 1]}),
    "QLinearGlobalAveragePool": ("a sa za sy zy", {}),
    "QLinearConcat": ("sy zy a sa za b sb zb", {"axis": 1}),
}


@pytest.mark.parametrize("op", MICROSOFT)
def test_quantised_operators_agree_with_onnx_runtime(op: str) -> None:
    rng = np.random.default_rng(8)
    order, attributes = MICROSOFT[op]
    used = order.split()
    shape = (2, 3, 5, 6)
    feeds: dict[str, np.ndarray] = {name: bytes_of(rng, "uint8", *shape) for name in ("a", "b") if name in used}
    constants = {name: array for name, array in PARAMETERS.items() if name in used}
    got = run(op, feeds, constants, order, domain="com.microsoft", **attributes)
    expected = by_runtime(op, feeds, constants, order, domain="com.microsoft", **attributes)
    assert got.dtype == expected.dtype and got.shape == expected.shape and len(np.unique(expected)) > 4
    difference = np.abs(got.astype(np.int64) - expected.astype(np.int64))
    # Its kernels use fixed-point tables and reciprocals: a level apart where a result lies between two.
    assert difference.max() <= 1 and (difference == 0).mean() > 0.9


@pytest.mark.parametrize("last", ["QLinearAveragePool", "QLinearGlobalAveragePool"])
def test_quantised_pools_with_channels_last(last: str) -> None:
    rng = np.random.default_rng(9)
    order, attributes = MICROSOFT[last]
    x = bytes_of(rng, "uint8", 2, 3, 5, 6)
    constants = {name: array for name, array in PARAMETERS.items() if name in order.split()}
    first = run(last, {"a": x}, constants, order, domain="com.microsoft", **attributes)
    moved = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    got = run(last, {"a": moved}, constants, order, domain="com.microsoft", channels_last=1, **attributes)
    np.testing.assert_array_equal(got.transpose(0, 3, 1, 2), first)


def test_products_to_floats() -> None:
    rng = np.random.default_rng(10)
    a, b = bytes_of(rng, "uint8", 3, 16), bytes_of(rng, "int8", 16, 4)
    constants = {"b": b, "sa": np.array(0.02, np.float32), "sb": np.array([0.01, 0.02, 0.03, 0.04], np.float32),
                 "za": np.array(120, np.uint8), "zb": np.array([3, -5, 0, 7], np.int8),
                 "c": rng.normal(size=4).astype(np.float32)}  # fmt: skip
    got = run("MatMulIntegerToFloat", {"a": a}, constants, "a b sa sb za zb c", domain="com.microsoft")
    total = (a.astype(np.int64) - 120) @ (b.astype(np.int64) - constants["zb"].astype(np.int64))
    expected = total * (np.float64(0.02) * constants["sb"]) + constants["c"]
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)

    x = rng.normal(size=(3, 16)).astype(np.float32)
    order = "x b sb zb c"
    held = {name: constants[name] for name in order.split() if name != "x"}
    got = run("DynamicQuantizeMatMul", {"x": x}, held, order, domain="com.microsoft")
    runtime = by_runtime("DynamicQuantizeMatMul", {"x": x}, held, order, domain="com.microsoft")
    np.testing.assert_allclose(got, runtime, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("trans", [0, 1])
def test_quantised_gemm(trans: int) -> None:
    rng = np.random.default_rng(12)
    a, b = bytes_of(rng, "uint8", 3, 10), bytes_of(rng, "uint8", *((4, 10) if trans else (10, 4)))
    bias = rng.integers(-2000, 2000, 4).astype(np.int32)
    held: dict[str, np.ndarray] = {"b": b, "c": bias, **PARAMETERS}
    order = "a sa za b sb zb c sy zy"
    attributes: dict[str, Any] = {"domain": "com.microsoft", "transB": trans, "alpha": 0.5}
    matrix = b.T if trans else b
    total = (a.astype(np.int64) - 120) @ (matrix.astype(np.int64) - 131) + bias
    factor = PARAMETERS["sa"] * PARAMETERS["sb"] * np.float32(0.5)
    got = run("QGemm", {"a": a}, held, order, **attributes)
    np.testing.assert_array_equal(got, requantized(total, factor / PARAMETERS["sy"], PARAMETERS["zy"]))
    floats = {name: array for name, array in held.items() if name not in ("sy", "zy")}
    got = run("QGemm", {"a": a}, floats, "a sa za b sb zb c", **attributes)
    np.testing.assert_allclose(got, total * factor, rtol=1e-6)


@pytest.mark.parametrize("name", ["float8e4m3fn", "float8e5m2", "float4e2m1"])
def test_linear_quantisation_to_narrow_floats(name: str) -> None:
    rng = np.random.default_rng(13)
    kind: Any = {
        "float8e4m3fn": ml_dtypes.float8_e4m3fn, "float8e5m2": ml_dtypes.float8_e5m2,
        "float4e2m1": ml_dtypes.float4_e2m1fn,
    }[name]  # fmt: skip
    x = np.concatenate([rng.normal(size=61) * 40, [1e6, -1e6, 0.0]]).astype(np.float32)
    scale = np.array(0.5, np.float32)
    to = onnx.TensorProto.DataType.Value(name.upper())
    got = run("QuantizeLinear", {"x": x}, {"s": scale}, "x s", version=23, output_dtype=to)
    limit = float(ml_dtypes.finfo(kind).max)
    expected = np.clip(x / scale, -limit, limit).astype(kind)
    np.testing.assert_array_equal(got.view(np.uint8), expected.view(np.uint8))
    back = run("DequantizeLinear", {"q": got}, {"s": scale}, "q s", version=23)
    np.testing.assert_array_equal(back, expected.astype(np.float32) * scale)
    if name == "float8e4m3fn":
        loose = run("QuantizeLinear", {"x": x}, {"s": scale}, "x s", version=23, output_dtype=to, saturate=0)
        assert np.isnan(loose[-3:-1].astype(np.float32)).all()


def test_the_scale_type_decides_the_precision_of_the_division() -> None:
    x = np.array([2049.0, 1001.7, 0.3, -7.77], np.float32)
    scale = np.array(0.7, np.float16)
    got = run("QuantizeLinear", {"x": x}, {"s": scale, "z": np.array(0, np.int16)}, "x s z", version=23)
    expected = np.rint((x.astype(np.float16) / scale).astype(np.float32)).astype(np.int16)
    np.testing.assert_array_equal(got, expected)
    wide = run("QuantizeLinear", {"x": x}, {"s": scale, "z": np.array(0, np.int16)}, "x s z", version=23, precision=1)
    np.testing.assert_array_equal(wide, np.rint(x / scale.astype(np.float32)).astype(np.int16))
    assert (wide != got).any()
