"""Einsum against NumPy: one model of many equations, in several element types."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

import hip_compiler
from hip_compiler.dtypes import BY_NAME
from hip_compiler.runtime import Session
from tests.conversion.models import compiled

SHAPES: dict[str, tuple[int, ...]] = {
    "v": (3,), "u": (4,), "m": (3, 4), "s": (3, 3), "t": (2, 3, 4), "w": (2, 4, 5), "q": (2, 3, 3), "o": (1, 4),
    "c": (),
}  # fmt: skip
EQUATIONS: tuple[tuple[str, str], ...] = (
    ("ij->ji", "m"), ("ij->", "m"), ("ij->j", "m"), ("ii->i", "s"), ("ii", "s"), ("bii->bi", "q"), ("...ii->...", "q"),
    ("ij,jk->ik", "sm"), ("ij,jk", "sm"), ("bij,bjk->bik", "tw"), ("bij,bjk->kbi", "tw"), ("i,i->", "vv"),
    ("i,i->i", "vv"), ("i,j->ij", "vu"), ("i,j->ji", "vu"), ("ji,jk->ik", "ms"), ("ij,kj->ik", "mm"),
    ("...ij,jk->...ik", "qm"),
    ("...j,...j->...", "tm"), ("bij,ij->b", "tm"), ("ij,ij->ij", "mo"), (" i j , j -> i ", "mu"), ("i...->...i", "t"),
    ("bij,ij,j->bi", "tmu"), ("ij,jk,ki->", "sss"), ("ij,", "mc"), ("ba,cb->ca", "ss"), ("iij,jk->ik", "Sm"),
)  # fmt: skip
SHAPES["S"] = (3, 3, 3)
DTYPES = ("float", "double", "bfloat16", "int32", "int64")


@cache
def session(dtype: str) -> Session:
    nodes = [helper.make_node("Einsum", list(names), [f"y{i}"], equation=e) for i, (e, names) in enumerate(EQUATIONS)]
    inputs = {name: (dtype, shape) for name, shape in SHAPES.items()}
    return compiled(nodes, inputs, [f"y{i}" for i in range(len(EQUATIONS))])


@pytest.mark.parametrize("dtype", DTYPES)
def test_equations(dtype: str) -> None:
    draw = np.random.default_rng(11)
    kind = BY_NAME[dtype].numpy
    # Small whole numbers: every sum is exact in every element type.
    feeds = {name: np.asarray(draw.integers(-3, 4, shape)).astype(kind) for name, shape in SHAPES.items()}
    feeds["c"] = np.asarray(2).astype(kind)
    results = session(dtype).run(feeds)
    for i, (equation, names) in enumerate(EQUATIONS):
        expected = np.einsum(equation.replace(" ", ""), *(feeds[name].astype(np.float64) for name in names))
        assert np.any(expected), equation
        assert results[f"y{i}"].dtype == kind
        rounded = expected.astype(ml_dtypes.bfloat16) if dtype == "bfloat16" else expected
        np.testing.assert_array_equal(results[f"y{i}"].astype(np.float64), rounded.astype(np.float64), equation)


def test_extents_that_are_not_known() -> None:
    node = helper.make_node("Einsum", ["a", "b"], ["y"], equation="bhid,bhjd->bhij")
    sizes = {"a": ("float", ["b", 2, "i", 4]), "b": ("float", ["b", 2, "j", "d"])}
    model = compiled([node], sizes, ["y"])
    draw = np.random.default_rng(5)
    a, b = (draw.standard_normal(shape).astype(np.float32) for shape in ((2, 2, 3, 4), (2, 2, 5, 4)))
    np.testing.assert_allclose(
        model.run({"a": a, "b": b})["y"], np.einsum("bhid,bhjd->bhij", a, b), rtol=1e-5, atol=1e-5
    )
    with pytest.raises(hip_compiler.HipCompilerError, match="labelled d"):
        model.run({"a": a, "b": b[..., :3].copy()})


@pytest.mark.parametrize("equation", ["ij,jk", "ijk->i", "ij->k", "ij->ii", "i1->i", "...j->j"])
def test_equations_that_do_not_fit(equation: str) -> None:
    node = helper.make_node("Einsum", ["m"], ["y"], equation=equation)
    with pytest.raises(hip_compiler.HipCompilerError, match=r"equation|Einsum"):
        compiled([node], {"m": ("float", [3, 4])}, ["y"])
