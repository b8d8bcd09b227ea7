"""Cast between all element types: every code of the narrow ones, every float16, and random bits of the wide ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import hip_compiler
from hip_compiler.dtypes import BY_NAME

FLOATS_8 = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")
NARROW_FLOATS = (*FLOATS_8, "float4e2m1")
NARROW_INTEGERS = ("int4", "uint4", "int2", "uint2")
WIDE = ("float", "float16", "bfloat16", "double", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
        "uint64", "bool")  # fmt: skip


def cast(x: np.ndarray, source: str, targets: Mapping[str, Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """One run of a model that casts an array in several ways; targets: output name -> attributes of Cast."""
    nodes = [helper.make_node("Cast", ["x"], [name], name, **attributes) for name, attributes in targets.items()]
    info = helper.make_tensor_value_info("x", BY_NAME[source].onnx, ["n"])
    outputs = [helper.make_empty_tensor_value_info(name) for name in targets]
    graph = helper.make_graph(nodes, "casts", [info], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)
    return hip_compiler.compile(model).run({"x": x})


def codes(name: str) -> np.ndarray:
    """Every value of a narrow element type, in the order of its codes."""
    dtype = BY_NAME[name]
    bits = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4e2m1": 4}.get(name, 8)
    patterns = np.arange(1 << bits, dtype=np.uint8)
    assert dtype.numpy is not None
    if dtype.kind == "float":
        return patterns.view(dtype.numpy)
    signed = patterns.astype(np.int64)
    return (np.where(signed >> (bits - 1), signed - (1 << bits), signed) if dtype.kind == "int" else signed).astype(
        dtype.numpy
    )


@np.errstate(all="ignore")
def same(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where two arrays of one type hold the same bits, or NaN both."""
    assert got.dtype == expected.dtype
    if got.dtype.kind in "iub" or "int" in got.dtype.name:
        return np.asarray(got == expected)
    wide = got.dtype if got.dtype.itemsize > 2 else np.dtype(np.float32)
    a, b = got.astype(wide), expected.astype(wide)
    return (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))


@np.errstate(all="ignore")
def check(got: np.ndarray, expected: np.ndarray, x: np.ndarray, what: str) -> None:
    wrong = ~same(got, expected)
    assert not wrong.any(), f"{what}: {x[wrong][:4]} gave {got[wrong][:4]} instead of {expected[wrong][:4]}"
    wide = expected.astype(np.float64)
    assert wide[~np.isnan(wide)].any(), f"{what}: an oracle of zeros and NaNs shows nothing"


@np.errstate(all="ignore")
def to_float(x: np.ndarray, name: str, *, saturate: bool) -> np.ndarray:
    """Oracle of Cast to a narrow float: the nearest of all its numbers, of two the one with the even code.

    ml_dtypes rounds float64 twice, by way of float32; from narrower types it must agree.
    """
    kind = BY_NAME[name].numpy
    assert kind is not None
    info: Any = ml_dtypes.finfo(kind)
    largest, wide = float(info.max), x.astype(np.float64)
    table = np.array(sorted({abs(v) for v in codes(name).astype(np.float64) if np.isfinite(v)}))
    table = np.append(table, 2 * table[-1] - table[-2])  # what would come next decides what is too large
    size = np.where(np.isfinite(wide), np.abs(wide), np.inf)
    above = np.clip(np.searchsorted(table, size), 1, len(table) - 1)
    low, high = table[above - 1], table[above]
    up = (size - low > high - size) | ((size - low == high - size) & (above % 2 == 0))
    rounded = np.where(up, high, low)
    if saturate or not np.isinf(kind.type(np.inf)):
        beyond = largest if saturate or name == "float4e2m1" else np.nan
    else:
        beyond = np.inf
    rounded = np.where(rounded > largest, beyond, rounded)
    result = np.copysign(np.where(np.isnan(wide), np.nan, rounded), wide).astype(kind)
    if x.dtype != np.float64 and x.dtype.itemsize < 8:
        cut = np.clip(x.astype(np.float32), -largest, largest) if saturate else x.astype(np.float32)
        agrees = same(result, cut.astype(kind)) | (np.isnan(wide) if name == "float4e2m1" else False)
        assert agrees.all(), "the oracles disagree"
    return result


def random_bits(name: str) -> np.ndarray:
    """Numbers of all magnitudes, ties of narrower formats among them, and what is special."""
    rng = np.random.default_rng(3)
    dtype = BY_NAME[name].numpy
    assert dtype is not None
    if name in ("float16", "bfloat16"):
        return np.arange(1 << 16, dtype=np.uint16).view(dtype)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 464.0, 464.00003, 61440.0, 248.0, 1e-45, 3e38]
    near = rng.normal(size=4096) * 2.0 ** rng.integers(-20, 20, 4096)
    ties = np.round(rng.normal(size=4096) * 64) / 64 * 2.0 ** rng.integers(-16, 16, 4096)
    with np.errstate(all="ignore"):
        nudged = np.nextafter(ties.astype(dtype), np.asarray(1e9, dtype))
        return np.concatenate([np.array(special), near, ties, nudged]).astype(dtype)


@pytest.mark.parametrize("source", [*NARROW_FLOATS, "float8e8m0", *NARROW_INTEGERS])
def test_every_code_to_every_type(source: str) -> None:
    x = codes(source)
    targets = {name: {"to": BY_NAME[name].onnx} for name in (*WIDE, *NARROW_FLOATS, *NARROW_INTEGERS) if name != source}
    results = cast(x, source, targets)
    wide = x.astype(np.float64)
    for name, got in results.items():
        dtype = BY_NAME[name]
        inside = np.ones(x.shape, bool)
        if dtype.kind == "float" and dtype.size == 1:
            expected = to_float(x, name, saturate=name in FLOATS_8)
            inside = ~np.isnan(wide) if name == "float4e2m1" else inside
        elif dtype.kind in ("int", "uint"):
            # Floats beyond the range of an integer type have no defined result; integers keep their low bits.
            info: Any = ml_dtypes.iinfo(dtype.numpy)
            if BY_NAME[source].kind == "float":
                beyond = np.greater_equal if dtype.size == 8 else np.greater  # 2**64 - 1 is no float64
                inside = (np.trunc(wide) >= float(info.min)) & ~beyond(np.trunc(wide), float(info.max)) & (wide == wide)
            low, count = int(info.min), int(info.max) - int(info.min) + 1
            whole = [(int(v) - low) % count + low for v in np.where(inside, wide, 0)]
            expected = np.array(whole, object).astype(np.uint64 if dtype.kind == "uint" else np.int64)
            expected = expected.astype(dtype.numpy)
        elif dtype.kind == "bool":
            expected = wide != 0
        else:
            with np.errstate(all="ignore"):
                expected = wide.astype(dtype.numpy)
        check(got[inside], expected[inside], x[inside], f"{source} to {name}")


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float", "double"])
def test_floats_to_narrow_floats(source: str) -> None:
    x = random_bits(source)
    ways = [(name, saturate) for name in NARROW_FLOATS for saturate in (False, True)]
    targets = {f"{name}_{int(s)}": {"to": BY_NAME[name].onnx, "saturate": int(s)} for name, s in ways}
    results = cast(x, source, targets)
    for name, saturate in ways:
        expected = to_float(x, name, saturate=saturate)
        if name == "float4e2m1":
            got, number = (
                results[f"{name}_{int(saturate)}"],
                np.isfinite(to_float(x, "float8e5m2", saturate=True).astype(np.float32)),
            )
            check(got[number], expected[number], x[number], f"{source} to {name}")
            continue
        check(results[f"{name}_{int(saturate)}"], expected, x, f"{source} to {name}, saturate {saturate}")


def power_of_two(x: np.ndarray, mode: str, *, saturate: bool) -> np.ndarray:
    """Oracle of Cast to float8e8m0: the exponent of 2, rounded; codes."""
    out = np.empty(x.size, np.uint8)
    for i, number in enumerate(x.astype(np.float64)):
        if np.isnan(number) or number < 0:
            out[i] = 255
        elif np.isinf(number):
            out[i] = 254 if saturate else 255
        elif number < 2.0**-127:
            out[i] = 0 if saturate else 255
        else:
            mantissa, exponent = np.frexp(number)  # mantissa in [1/2, 1)
            up = {"up": mantissa > 0.5, "down": False, "nearest": mantissa >= 0.75}[mode]
            code = int(exponent) - 1 + 127 + int(up)
            out[i] = code if code < 255 else 254 if saturate else 255
    return out


@pytest.mark.parametrize("source", ["float16", "float", "double", "int64", "uint64"])
def test_numbers_to_powers_of_two(source: str) -> None:
    if BY_NAME[source].kind == "float":
        x = random_bits(source)[::7]
        x = x[~(np.signbit(x.astype(np.float64)) & (x == 0))]  # what -0 becomes is not specified
        extremes = np.array([1.5, 1.0, 0.75, 5e-39, 6e-39, 1.2e-38, 2.5e38])
        with np.errstate(over="ignore"):
            x = np.concatenate([x, extremes.astype(x.dtype)])
    else:
        x = np.array([0, 1, 2, 3, 5, 2**53 + 1, 2**62, 2**62 + 1, 2**61 + 2**60 - 1, 2**63 - 1], BY_NAME[source].numpy)
    ways = [(mode, saturate) for mode in ("up", "down", "nearest") for saturate in (False, True)]
    to = BY_NAME["float8e8m0"].onnx
    targets = {f"{mode}_{int(s)}": {"to": to, "round_mode": mode, "saturate": int(s)} for mode, s in ways}
    results = cast(x, source, targets)
    for mode, saturate in ways:
        got = results[f"{mode}_{int(saturate)}"].view(np.uint8)
        if BY_NAME[source].kind == "float":
            expected = power_of_two(x, mode, saturate=saturate)
        else:
            expected = np.array([_code(int(v), mode, saturate=saturate) for v in x], np.uint8)
        wrong = got != expected
        assert not wrong.any(), f"{mode}, {saturate}: {x[wrong][:4]} gave {got[wrong][:4]}, not {expected[wrong][:4]}"


def _code(number: int, mode: str, *, saturate: bool) -> int:
    if number == 0:
        return 0 if saturate else 255
    exponent = number.bit_length() - 1
    up = {"up": number > 1 << exponent, "down": False, "nearest": 2 * number >= 3 << exponent}[mode]
    return exponent + int(up) + 127


@pytest.mark.parametrize("source", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"])
def test_integers_to_narrow_types(source: str) -> None:
    rng = np.random.default_rng(5)
    dtype = BY_NAME[source].numpy
    assert dtype is not None
    if source == "bool":
        x = np.array([False, True])
    else:
        info = np.iinfo(dtype)
        x = np.concatenate(
            [rng.integers(info.min, info.max, 512, dtype=dtype), np.arange(-20 if info.min else 0, 100).astype(dtype)]
        )
    targets = {name: {"to": BY_NAME[name].onnx} for name in (*NARROW_FLOATS, *NARROW_INTEGERS)}
    results = cast(x, source, targets)
    for name in NARROW_FLOATS:
        check(results[name], to_float(x, name, saturate=True), x, f"{source} to {name}")
    for name in NARROW_INTEGERS:
        bits, wide = 2 if "2" in name else 4, x.astype(np.uint8)
        low = (wide & ((1 << bits) - 1)).astype(np.int64)
        if name.startswith("int"):
            low = np.where(low >> (bits - 1), low - (1 << bits), low)
        check(results[name], low.astype(BY_NAME[name].numpy), x, f"{source} to {name}")


@pytest.mark.parametrize(("source", "target"), [("double", "float16"), ("double", "bfloat16"), ("int32", "bfloat16")])
def test_numbers_are_rounded_once(source: str, target: str) -> None:
    if source == "double":
        x = random_bits("double")
        tie = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8 + 2.0**-40, 65520 - 2.0**-20, 2.0**-25 + 2.0**-60])
        x = np.concatenate([x, tie, -tie])
    else:
        x = np.array([2**30 + 2**22 + 1, -(2**30) - 2**22 - 1, 7, 2**30 + 2**22, 2**31 - 1], np.int32)
    got = cast(x, source, {"y": {"to": BY_NAME[target].onnx}})["y"]
    if target == "float16":
        with np.errstate(over="ignore"):
            expected = x.astype(np.float16)
    else:
        expected = _nearest_bfloat16(x.astype(np.float64))
    check(got, expected, x, f"{source} to {target}")


def _nearest_bfloat16(x: np.ndarray) -> np.ndarray:
    """float64 rounded to 8 bits of mantissa, ties to even, within bfloat16's normal range."""
    mantissa, exponent = np.frexp(x)
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = np.ldexp(np.rint(mantissa * 256) / 256, exponent)
        tiny = np.abs(x) < 2.0**-126
        return np.where(tiny, np.rint(x * 2.0**133) * 2.0**-133, rounded).astype(ml_dtypes.bfloat16)


def test_cast_like_and_constants_of_narrow_types() -> None:
    scale = np.array([0.5, 448, -3], ml_dtypes.float8_e4m3fn)
    nodes = [
        helper.make_node("CastLike", ["x", "like"], ["narrow"]),
        helper.make_node("Where", ["c", "narrow", "like"], ["chosen"]),
        helper.make_node("Cast", ["chosen"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    inputs = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3]),
        helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [3]),
    ]
    like = onnx.numpy_helper.from_array(scale, "like")
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("y", "chosen")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [like])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)
    feeds = {"x": np.array([1e6, 1.06, 0], np.float32), "c": np.array([True, True, False])}
    results = hip_compiler.compile(model).run(feeds)
    np.testing.assert_array_equal(results["y"], [448, 1, -3])
    assert results["chosen"].dtype == scale.dtype


@pytest.mark.parametrize("name", [*NARROW_INTEGERS, "float8e4m3fn", "float4e2m1"])
@pytest.mark.parametrize("rows", [2, 60])
def test_contents_of_narrow_types_are_computed_with(name: str, rows: int) -> None:
    """Inline and in constants.bin: rows that data picks, so that nothing is known at compile time."""
    table = np.resize(codes(name), (rows, 5))
    if BY_NAME[name].kind == "float":
        table = np.where(np.isfinite(table.astype(np.float32)), table, np.ones((), table.dtype))
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["rows"]),
        helper.make_node("Cast", ["rows"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    info = helper.make_tensor_value_info("i", onnx.TensorProto.INT64, ["k"])
    outputs = [helper.make_empty_tensor_value_info(each) for each in ("y", "rows")]
    held = [onnx.numpy_helper.from_array(table, "table")]
    graph = helper.make_graph(nodes, "g", [info], outputs, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    picked = np.arange(rows)[::-1].copy()
    results = hip_compiler.compile(model).run({"i": picked})
    np.testing.assert_array_equal(results["y"], table.astype(np.float32)[::-1])
    np.testing.assert_array_equal(results["rows"].astype(np.float32), table.astype(np.float32)[::-1])


@pytest.mark.parametrize(
    ("source", "target", "bits"),
    [
        ("float", "int32", 32), ("float", "uint32", 32), ("uint32", "float", 32), ("double", "int64", 64),
        ("uint64", "double", 64), ("float16", "uint16", 16), ("int16", "bfloat16", 16), ("bfloat16", "float16", 16),
        ("int8", "uint8", 8), ("uint8", "float8e5m2", 8), ("float8e4m3fn", "int8", 8), ("int4", "uint4", 4),
        ("uint4", "int4", 4), ("uint4", "float4e2m1", 4), ("float4e2m1", "int4", 4), ("int2", "uint2", 2),
    ],
)  # fmt: skip
def test_bit_cast_keeps_the_bits(source: str, target: str, bits: int) -> None:
    rng = np.random.default_rng(1)
    a, b = BY_NAME[source].numpy, BY_NAME[target].numpy
    assert a is not None and b is not None
    if bits < 8:
        x = codes(source)
        expected = codes(target)
    else:
        x = rng.integers(0, 256, 24 * bits // 8, dtype=np.uint8).view(a)
        expected = x.view(b)
    node = helper.make_node("BitCast", ["x"], ["y"], to=BY_NAME[target].onnx)
    info = helper.make_tensor_value_info("x", BY_NAME[source].onnx, [x.size])
    graph = helper.make_graph([node], "g", [info], [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=11)
    got = hip_compiler.compile(model).run({"x": x})["y"]
    assert got.dtype == b
    raw = np.dtype(f"u{a.itemsize}")
    mask = raw.type((1 << bits) - 1)
    np.testing.assert_array_equal(got.view(raw) & mask, expected.view(raw) & mask)


@pytest.mark.parametrize(
    ("op", "attributes"), [("TopK", {}), ("Neg", {}), ("ReduceMax", {}), ("ArgMax", {}), ("Add", {}), ("Softmax", {})]
)
def test_arithmetic_on_narrow_floats_is_refused(op: str, attributes: dict[str, Any]) -> None:
    """Their storage is that of bytes, which must not be taken for numbers."""
    inputs = {"TopK": ["x", "k"], "Add": ["x", "x"]}.get(op, ["x"])
    outputs = ["y", "i"] if op == "TopK" else ["y"]
    node = helper.make_node(op, inputs, outputs, **attributes)
    info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT8E4M3FN, [4])
    k = onnx.numpy_helper.from_array(np.array([2]), "k")
    graph = helper.make_graph([node], "g", [info], [helper.make_empty_tensor_value_info("y")], [k])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    with pytest.raises(hip_compiler.UnsupportedError, match="float8e4m3fn"):
        hip_compiler.compile(model)


def test_bit_cast_to_another_width_is_refused() -> None:
    node = helper.make_node("BitCast", ["x"], ["y"], to=onnx.TensorProto.INT64)
    info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    graph = helper.make_graph([node], "g", [info], [helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=11)
    with pytest.raises(hip_compiler.UnsupportedError, match="width"):
        hip_compiler.compile(model)


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_signed_shifts(name: str, direction: str) -> None:
    dtype = BY_NAME[name].numpy
    assert dtype is not None
    info = np.iinfo(dtype)
    x = np.repeat(np.array([-1, 1, -37, 100, info.min, info.max], dtype), 6)
    counts = np.tile(np.array([0, 1, 3, info.bits - 1, info.bits, -1], dtype), 6)
    node = helper.make_node("BitShift", ["x", "n"], ["y"], direction=direction)
    infos = [helper.make_tensor_value_info(each, BY_NAME[name].onnx, [x.size]) for each in ("x", "n")]
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=11)
    got = hip_compiler.compile(model).run({"x": x, "n": counts})["y"]
    expected = [_shifted(int(v), int(n), info.bits, direction) for v, n in zip(x, counts, strict=True)]
    np.testing.assert_array_equal(got, np.array(expected, dtype))


def _shifted(number: int, count: int, bits: int, direction: str) -> int:
    """The table of BitShift 28: a count out of range leaves the sign of a right shift, else 0."""
    if not 0 <= count < bits:
        return -1 if direction == "RIGHT" and number < 0 else 0
    if direction == "RIGHT":
        return number >> count
    wrapped = (number << count) & ((1 << bits) - 1)
    return wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped
