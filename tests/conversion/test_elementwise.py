"""The elementwise table: every row, in every element type it is for, against NumPy; one model per element type."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, pi, sqrt
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import hip_compiler
from hip_compiler.core.conversion.ops.elementwise import ROWS, Row
from hip_compiler.dtypes import BY_NAME, DType

DTYPES = ("float", "float16", "bfloat16", "double", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
          "uint64", "bool")  # fmt: skip
SIZE = 67
"""More than one vector of any level, and no multiple of one."""

# Largest error, in units of the element type's spacing at the result (and at 1 where results vanish).
ULPS = {"float": 8, "float16": 1.01, "bfloat16": 1.01, "double": 16}
# Error of the arithmetic itself where it grows with the argument, or cancels: relative to the output's scale.
LOOSE = {"Pow", "Mish", "Gelu", "Selu", "Celu", "Elu", "Softplus", "Tan"}


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


def _elu(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    return np.where(x < 0, alpha * np.expm1(x), x)


def _truncated_division(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":
        return x / y
    return (np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))) if x.dtype.kind == "i" else x // y


ORACLES: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _truncated_division, "Mod": np.mod,
    "Pow": lambda x, y: np.abs(x) ** y, "Max": np.maximum, "Min": np.minimum, "Sum": np.add, "Neg": np.negative,
    "Abs": np.abs, "Sign": np.sign, "Reciprocal": np.reciprocal, "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint,
    "Sqrt": np.sqrt, "Exp": np.exp, "Log": np.log, "Erf": np.vectorize(erf, otypes=[np.float64]), "Sin": np.sin,
    "Cos": np.cos, "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan, "Sinh": np.sinh,
    "Cosh": np.cosh, "Tanh": np.tanh, "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh,
    "Relu": lambda x: np.maximum(x, 0), "LeakyRelu": lambda x: np.where(x < 0, 0.01 * x, x),
    "PRelu": lambda x, y: np.where(x < 0, x * y, x), "ThresholdedRelu": lambda x: np.where(x > 1, x, 0),
    "Elu": _elu, "Selu": lambda x: 1.05070102214813232421875 * _elu(x, 1.67326319217681884765625),
    "Celu": _elu, "Sigmoid": _sigmoid, "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "Softplus": _softplus,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Mish": lambda x: x * np.tanh(_softplus(x)), "Swish": lambda x: x * _sigmoid(x),
    "Gelu": lambda x: x / 2 * (1 + np.vectorize(erf, otypes=[np.float64])(x / sqrt(2))),
    "Shrink": lambda x: np.where(x < -0.5, x, np.where(x > 0.5, x, 0)),
    "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
    "Not": np.logical_not, "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
    "BitwiseNot": np.bitwise_not, "BitShift": np.left_shift, "IsNaN": np.isnan, "IsInf": np.isinf,
    "QuickGelu": lambda x: x * _sigmoid(1.702 * x),
}  # fmt: skip

# Operands in the domain of functions that have one; the rest take numbers of both signs.
DOMAINS: dict[str, tuple[float, float]] = {
    "Sqrt": (0, 9), "Log": (0.1, 9), "Asin": (-1, 1), "Acos": (-1, 1), "Atanh": (-0.9, 0.9), "Acosh": (1, 9),
    "Tan": (-pi / 2 + 0.3, pi / 2 - 0.3), "Reciprocal": (0.5, 4),
}  # fmt: skip
ATTRIBUTES: dict[str, dict[str, Any]] = {"BitShift": {"direction": "LEFT"}}


def test_every_row_has_an_oracle() -> None:
    assert set(ORACLES) == set(ROWS)


def _operands(name: str, row: Row, dtype: DType, rng: np.random.Generator) -> list[np.ndarray]:
    count = row.operands or 2
    if dtype.kind == "bool":
        return [rng.integers(0, 2, SIZE).astype(np.bool_) for _ in range(count)]
    if dtype.kind == "float":
        low, high = DOMAINS.get(name, (-4.0, 4.0))
        arrays = [rng.uniform(low, high, SIZE) for _ in range(count)]
        if name in ("Div", "Mod"):
            arrays[1] = np.sign(arrays[1]) * (np.abs(arrays[1]) + 0.5)
        if name == "Pow":
            arrays[0] = np.abs(arrays[0])
        if name in ("Equal", "LessOrEqual", "GreaterOrEqual"):
            arrays[1][::3] = arrays[0][::3]
        if name in ("IsNaN", "IsInf"):
            arrays[0][:3] = np.nan, np.inf, -np.inf
    else:
        signed = dtype.kind == "int"
        arrays = [rng.integers(-5 if signed else 0, 6, SIZE).astype(np.float64) for _ in range(count)]
        if name in ("Div", "Mod"):
            arrays[1] = np.where(arrays[1] == 0, 3, arrays[1])
        if name == "Pow":
            arrays = [np.abs(arrays[0]) % 3, np.abs(arrays[1]) % 4]
    assert dtype.numpy is not None
    return [array.astype(dtype.numpy) for array in arrays]


def _expected(name: str, operands: list[np.ndarray], dtype: DType) -> np.ndarray:
    wide = [operand.astype(np.float64) if dtype.kind == "float" else operand for operand in operands]
    with np.errstate(all="ignore"):
        return np.asarray(ORACLES[name](*wide))


@pytest.mark.parametrize("name", DTYPES)
def test_rows_agree_with_numpy(name: str) -> None:
    dtype, rng = BY_NAME[name], np.random.default_rng(7)
    rows = {op: row for op, row in ROWS.items() if name in row.dtypes and not (name == "bool" and op == "Mod")}
    nodes, inputs, outputs = [], [], []
    feeds: dict[str, np.ndarray] = {}
    for op, row in rows.items():
        operands = _operands(op, row, dtype, rng)
        names = [f"{op}_{i}" for i in range(len(operands))]
        feeds |= dict(zip(names, operands, strict=True))
        inputs += [helper.make_tensor_value_info(each, dtype.onnx, [SIZE]) for each in names]
        # Float remainders exist in ONNX only with the sign of the dividend.
        attributes = {"fmod": 1} if op == "Mod" and dtype.kind == "float" else ATTRIBUTES.get(op, {})
        nodes.append(helper.make_node(op, names, [op], op, domain=row.domain, **attributes))
        outputs.append(helper.make_empty_tensor_value_info(op))
    graph = helper.make_graph(nodes, name, inputs, outputs)
    imports = [helper.make_opsetid("", onnx.defs.onnx_opset_version()), helper.make_opsetid("com.microsoft", 1)]
    results = hip_compiler.compile(helper.make_model(graph, opset_imports=imports, ir_version=10)).run(feeds)
    wrong = []
    for op, row in rows.items():
        operands = [feeds[f"{op}_{i}"] for i in range(row.operands or 2)]
        expected = np.fmod(*[o.astype(np.float64) for o in operands]) if op == "Mod" and dtype.kind == "float" else (
            _expected(op, operands, dtype))  # fmt: skip
        problem = _difference(op, results[op], expected, dtype, boolean=row.boolean)
        if problem:
            wrong.append(f"{op}: {problem}")
        assert expected.any() or op in ("IsNaN", "IsInf", "And"), f"{op}: an oracle of zeros shows nothing"
    assert not wrong, "\n".join(wrong)


def _difference(op: str, got: np.ndarray, expected: np.ndarray, dtype: DType, *, boolean: bool) -> str:
    assert got.dtype == (np.bool_ if boolean else dtype.numpy)
    if boolean or dtype.kind != "float":
        same = got == expected.astype(got.dtype)
        return "" if same.all() else f"{got[~same][:3]} instead of {expected[~same][:3]}"
    spacing = np.spacing(np.maximum(np.abs(expected), 2.0**-3).astype(_spaced(dtype))).astype(np.float64)
    if dtype.name == "bfloat16":
        spacing = spacing * 2.0**16
    limit = ULPS[dtype.name] * spacing * (4 if op in LOOSE else 1)
    off = np.abs(got.astype(np.float64) - expected) > limit
    return "" if not off.any() else f"{got[off][:3]} instead of {expected[off][:3]}"


def _spaced(dtype: DType) -> Any:
    """A NumPy type whose spacing is known; bfloat16's is that of float32 times 2**16."""
    return np.float32 if dtype.name == "bfloat16" else dtype.numpy
