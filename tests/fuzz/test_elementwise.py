"""Elementwise operators under broadcasting that only the run decides, on special values, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hip_compiler.core.conversion.ops.elementwise import ROWS
from tests.conversion.test_elementwise import ORACLES
from tests.fuzz.drawing import budget, extents, floats, integers, same, session

# float32 arithmetic on special values; those with domains of their own are in tests/conversion.
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
UNARY = ("Neg", "Abs", "Floor", "Ceil", "Round", "Sqrt", "Exp", "Log", "Tanh", "Sigmoid", "Relu", "Sign", "IsNaN",
         "IsInf", "Erf", "Reciprocal", "Atan", "LeakyRelu", "HardSigmoid", "Softsign")  # fmt: skip
INTEGER = ("Add", "Sub", "Mul", "Max", "Min", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
TRICHOTOMY = {"Sign": lambda x: np.where(np.isnan(x), x, np.sign(x))}


def graph(ops: tuple[str, ...], dtype: str, operands: int) -> str:
    outputs = ", ".join(
        f"{'bool' if ROWS[op].boolean else dtype}[{'P,Q' if operands == 2 else 'A,B'}] {op}_" for op in ops
    )
    inputs = [f"{dtype}[A,B] x", f"{dtype}[C,D] y"][:operands]
    body = "\n".join(f"{op}_ = {op} ({', '.join('xy'[:operands])})" for op in ops)
    return f"g ({', '.join(inputs)}) => ({outputs}) {{\n{body}\n}}"


@st.composite
def broadcast(draw: st.DrawFn) -> tuple[tuple[int, int], tuple[int, int]]:
    """Two shapes of rank 2 that broadcast: each axis equal, or 1 on either side."""
    whole = draw(st.tuples(extents, extents))
    sides = [tuple(1 if draw(st.booleans()) else extent for extent in whole) for _ in range(2)]
    return (sides[0][0], sides[0][1]), (sides[1][0], sides[1][1])


def expected(op: str, *arrays: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        wide = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in arrays]
        result = np.asarray(TRICHOTOMY.get(op, ORACLES[op])(*wide))
        return result if result.dtype == np.bool_ else result.astype(arrays[0].dtype)


@budget(24)
@given(shapes=broadcast(), seed=st.integers(0, 2**31))
def test_two_operands(shapes: tuple[tuple[int, int], tuple[int, int]], seed: int) -> None:
    x, y = floats(shapes[0], seed), floats(shapes[1], seed + 1)
    found = session(graph(BINARY, "float", 2)).run({"x": x, "y": y})
    for op in BINARY:
        same(found[f"{op}_"], expected(op, x, y), op)


@budget(24)
@given(shape=st.tuples(extents, extents), seed=st.integers(0, 2**31))
def test_one_operand(shape: tuple[int, int], seed: int) -> None:
    x = floats(shape, seed)
    found = session(graph(UNARY, "float", 1)).run({"x": x})
    for op in UNARY:
        same(found[f"{op}_"], expected(op, x), op, rtol=2e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_integers_wrap_around(dtype: str) -> None:
    text = graph(INTEGER, dtype, 2)

    @budget(15)
    @given(shapes=broadcast(), seed=st.integers(0, 2**31))
    def holds(shapes: tuple[tuple[int, int], tuple[int, int]], seed: int) -> None:
        x, y = (integers(shape, seed + i, np.dtype(dtype)) for i, shape in enumerate(shapes))
        found = session(text).run({"x": x, "y": y})
        for op in INTEGER:
            same(found[f"{op}_"], expected(op, x, y), op)

    holds()


@budget(20)
@given(shape=st.tuples(extents, extents), seed=st.integers(0, 2**31))
def test_signs_of_zero_stay(shape: tuple[int, int], seed: int) -> None:
    x = floats(shape, seed)
    x[x > 1] = -0.0
    found = session(graph(("Neg", "Floor", "Ceil", "Round", "Tanh", "Erf", "Sqrt"), "float", 1)).run({"x": x})
    for name, values in found.items():
        wanted = expected(name.rstrip("_"), x)
        numbers = ~np.isnan(wanted)
        assert (np.signbit(values) == np.signbit(wanted))[numbers].all(), name
