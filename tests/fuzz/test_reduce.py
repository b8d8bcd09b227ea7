"""Reductions over drawn extents, nothing and one among them, against NumPy in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.drawing import budget, extents, floats, same, same_as_reference, session

ORACLES: dict[str, Callable[..., Any]] = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceProd": np.prod,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceL1": lambda x, **how: np.sum(np.abs(x), **how),
    "ReduceL2": lambda x, **how: np.sqrt(np.sum(x * x, **how)),
    "ReduceSumSquare": lambda x, **how: np.sum(x * x, **how),
    "ReduceLogSumExp": lambda x, **how: np.log(np.sum(np.exp(x), **how)),
}
AXES = ((0,), (-1,), (1, -1), (0, 1, 2), (-3, 2))
shapes = st.tuples(extents, extents, extents)


def graph(axes: tuple[int, ...], keep: bool) -> str:
    rank = 3 if keep else 3 - len(axes)
    kind = f"float[{','.join('PQR'[:rank])}]"
    outputs = ", ".join(f"{kind} {op}_" for op in ORACLES)
    body = "\n".join(f"{op}_ = {op} <keepdims = {int(keep)}> (x, axes)" for op in ORACLES)
    listed = ", ".join(map(str, axes))
    return f"g (float[A,B,C] x) => ({outputs}) {{\naxes = Constant <value_ints = [{listed}]> ()\n{body}\n}}"


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axes", AXES)
def test_axes(axes: tuple[int, ...], keep: bool) -> None:
    text = graph(axes, keep)

    @budget(12)
    @given(shape=shapes, seed=st.integers(0, 2**31))
    def holds(shape: tuple[int, int, int], seed: int) -> None:
        x = floats(shape, seed, special=False)
        found = session(text).run({"x": x})
        empty = any(shape[axis] == 0 for axis in axes)
        for op, oracle in ORACLES.items():
            if empty and op in ("ReduceMax", "ReduceMin", "ReduceMean"):
                continue  # NumPy has no maximum of nothing; shapes agree all the same
            with np.errstate(all="ignore"):
                wanted = np.asarray(oracle(x.astype(np.float64), axis=axes, keepdims=keep), np.float32)
            if op == "ReduceProd":
                # Parts of a product overflow or not by their order.
                size = np.abs(x.astype(np.float64))
                most, least = (np.prod(part, axis=axes, keepdims=keep) for part in (size.clip(min=1), size.clip(max=1)))
                far = (most > 1e38) | (least < 1e-37)
                wanted, found[f"{op}_"] = (np.where(far, 0, made) for made in (wanted, found[f"{op}_"]))
            terms = np.abs(x).sum(axis=axes, dtype=np.float64)
            # What was summed may cancel: the error is relative to the terms.
            same(found[f"{op}_"], wanted, op, rtol=2e-5, atol=1e-6 * max(1.0, terms.max(initial=0.0)))

    holds()


@budget(20)
@given(shape=shapes, seed=st.integers(0, 2**31))
def test_special_values_reach_the_result(shape: tuple[int, int, int], seed: int) -> None:
    x = floats(shape, seed)
    x[np.abs(x) > 1e30] = 1.0  # sums of the largest numbers overflow or not by their order
    found = session(graph((-1,), True)).run({"x": x})
    with np.errstate(all="ignore"):
        if shape[-1]:
            same(found["ReduceMax_"], x.max(-1, keepdims=True), "ReduceMax")
            same(found["ReduceMin_"], x.min(-1, keepdims=True), "ReduceMin")
        total = x.sum(-1, keepdims=True, dtype=np.float64).astype(np.float32)
        same(found["ReduceSum_"], total, "ReduceSum", 2e-5, atol=1e-5)


@budget(20)
@given(shape=st.tuples(extents, extents.filter(bool), extents), seed=st.integers(0, 2**31), last=st.booleans())
def test_positions_of_the_largest_and_the_smallest(shape: tuple[int, int, int], seed: int, last: bool) -> None:
    text = f"""g (float[A,B,C] x) => (int64[A,C] most, int64[A,1,C] least) {{
        most = ArgMax <axis = 1, keepdims = 0, select_last_index = {int(last)}> (x)
        least = ArgMin <axis = -2, select_last_index = {int(last)}> (x)
    }}"""
    x = np.round(floats(shape, seed, special=False))  # ties
    same_as_reference(text, {"x": x})


@budget(24)
@given(shape=st.tuples(extents, extents.filter(bool)), seed=st.integers(0, 2**31))
def test_softmax_of_special_values(shape: tuple[int, int], seed: int) -> None:
    x = floats(shape, seed)
    x[x > 1e30] = 80.0
    found = session(
        "g (float[A,B] x) => (float[A,B] y, float[A,B] z) { y = Softmax (x)\n z = LogSoftmax <axis = -1> (x) }"
    ).run({"x": x})
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        moved = wide - wide.max(-1, keepdims=True)
        total = np.exp(moved).sum(-1, keepdims=True)
        same(found["y"], (np.exp(moved) / total).astype(np.float32), "Softmax")
        same(found["z"], (moved - np.log(total)).astype(np.float32), "LogSoftmax")
