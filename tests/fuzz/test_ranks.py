"""Operators at every rank from 0 to 6, over drawn extents known and unknown to the compiler, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.fuzz.drawing import budget, floats, integers, part, same
from tests.fuzz.nodes import node, shapes

seeds = st.integers(0, 2**31)
masks = st.integers(0, 2**16 - 1)
BINARY: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Max": np.maximum, "Min": np.minimum,
    "Less": np.less, "Equal": np.equal, "PRelu": lambda x, s: np.where(x < 0, x * s, x),
}  # fmt: skip
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": np.sum, "ReduceProd": np.prod, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min,
    "ReduceL1": lambda x, **how: np.abs(x).sum(**how), "ReduceL2": lambda x, **how: np.sqrt((x * x).sum(**how)),
    "ReduceSumSquare": lambda x, **how: (x * x).sum(**how),
    "ReduceLogSumExp": lambda x, **how: np.log(np.exp(x).sum(**how)),
}  # fmt: skip


@st.composite
def broadcast(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of ranks 0 to 6 that broadcast."""
    whole = draw(shapes())
    sides = []
    for _ in range(2):
        cut = draw(st.integers(0, len(whole)))
        sides.append(tuple(1 if draw(st.booleans()) else extent for extent in whole[cut:]))
    return sides[0], sides[1]


@budget(8)
@given(op=st.sampled_from(tuple(BINARY)), sides=broadcast(), seed=seeds, known=masks)
def test_broadcasting(op: str, sides: tuple[tuple[int, ...], tuple[int, ...]], seed: int, known: int) -> None:
    if op == "PRelu":  # the slope broadcasts to the input, not the other way round
        whole = np.broadcast_shapes(*sides)
        sides = (whole, sides[1])
    x, y = floats(sides[0], seed), floats(sides[1], seed + 1)
    (found,) = node(op, {"x": x, "y": y}, known)
    with np.errstate(all="ignore"):
        wanted = np.asarray(BINARY[op](x.astype(np.float64), y.astype(np.float64)))
        same(found, wanted if wanted.dtype == bool else wanted.astype(np.float32), op)


@budget(14)
@given(sides=broadcast(), seed=seeds, known=masks)
def test_choice(sides: tuple[tuple[int, ...], tuple[int, ...]], seed: int, known: int) -> None:
    condition = np.random.default_rng(seed).random(sides[0]) < 0.5
    x, y = floats(sides[1], seed), floats((), seed + 1)
    (found,) = node("Where", {"c": condition, "x": x, "y": y}, known)
    same(found, np.where(condition, x, y), "Where")


@budget(8)
@given(
    op=st.sampled_from(tuple(REDUCTIONS)), shape=shapes(), seed=seeds, known=masks, keep=st.booleans(), data=st.data()
)
def test_reductions(op: str, shape: tuple[int, ...], seed: int, known: int, keep: bool, data: st.DataObject) -> None:
    rank = len(shape)
    axes = data.draw(st.lists(st.integers(0, rank - 1), unique=True, max_size=rank)) if rank else []
    none = not axes
    empty = any(extent == 0 for axis, extent in enumerate(shape) if none or axis in axes)
    assume(not (empty and op in ("ReduceMax", "ReduceMin", "ReduceMean")))
    x = floats(shape, seed, special=False)
    signed = [axis - rank if seed >> i & 1 else axis for i, axis in enumerate(axes)]
    (found,) = node(op, {"x": x}, known, constants={"axes": np.array(signed, np.int64)}, keepdims=int(keep))
    how: dict[str, Any] = {"axis": None if none else tuple(axes), "keepdims": keep}
    with np.errstate(all="ignore"):
        wanted = np.asarray(REDUCTIONS[op](x.astype(np.float64), **how), np.float32)
    same(found, wanted, op, rtol=2e-5, atol=2e-5)


ALONG = ("Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin", "CumSum", "TopK", "LpNormalization")


@budget(12)
@given(op=st.sampled_from(ALONG), shape=shapes(1), seed=seeds, known=masks, data=st.data())
def test_along_an_axis(op: str, shape: tuple[int, ...], seed: int, known: int, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    assume(shape[axis] or op in ("Softmax", "LogSoftmax", "CumSum", "TopK"))
    x = floats(shape, seed, special=False)
    wide = x.astype(np.float64)
    if op in ("ArgMax", "ArgMin"):
        (found,) = node(op, {"x": x}, known, axis=axis)
        wanted = np.expand_dims((np.argmax if op == "ArgMax" else np.argmin)(x, axis), axis)
    elif op == "CumSum":
        (found,) = node(op, {"x": x}, known, constants={"axis": np.array(axis, np.int64)})
        wanted = wide.cumsum(axis).astype(np.float32)
    elif op == "TopK":
        count = data.draw(st.integers(0, shape[axis]))
        found, at = node(op, {"x": x}, known, 2, constants={"k": np.array([count], np.int64)}, axis=axis)
        order = np.take(np.argsort(-x, axis, kind="stable"), np.arange(count), axis)
        same(at, order.astype(np.int64), "TopK positions")
        wanted = np.take_along_axis(x, order, axis)
    else:
        (found,) = node(op, {"x": x}, known, axis=axis)
        if op == "Hardmax":
            wanted = np.zeros_like(x)
            np.put_along_axis(wanted, np.expand_dims(np.argmax(x, axis), axis), 1, axis)
        elif op == "LpNormalization":
            wanted = (wide / np.sqrt((wide * wide).sum(axis, keepdims=True))).astype(np.float32)
        else:
            e = np.exp(wide)
            parts = e / e.sum(axis, keepdims=True)
            with np.errstate(all="ignore"):
                wanted = (np.log(parts) if op == "LogSoftmax" else parts).astype(np.float32)
    same(found, wanted, op, rtol=2e-5, atol=2e-5)


@budget(10)
@given(shape=shapes(), seed=seeds, known=masks, data=st.data())
def test_transposes(shape: tuple[int, ...], seed: int, known: int, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    x = floats(shape, seed)
    attributes: dict[str, Any] = {"perm": order} if order else {}
    (found,) = node("Transpose", {"x": x}, known, **attributes)
    same(found, np.transpose(x, order), "Transpose")


@budget(14)
@given(shape=shapes(1), seed=seeds, known=masks, fixed=st.booleans(), data=st.data())
def test_slices(shape: tuple[int, ...], seed: int, known: int, fixed: bool, data: st.DataObject) -> None:
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    bound = st.one_of(st.integers(-6, 6), st.sampled_from((-(2**63), 2**63 - 1, -(2**31), 2**31 - 1)))
    starts, ends = ([data.draw(bound) for _ in axes] for _ in range(2))
    steps = [data.draw(st.sampled_from((-3, -2, -1, 1, 1, 2, 3, 2**31 - 1, -(2**63) + 1))) for _ in axes]
    x = floats(shape, seed)
    parameters = {
        "starts": np.array(starts, np.int64), "ends": np.array(ends, np.int64),
        "axes": np.array([axis - len(shape) if seed & 1 else axis for axis in axes], np.int64),
        "steps": np.array(steps, np.int64),
    }  # fmt: skip
    if fixed:
        (found,) = node("Slice", {"x": x}, known, constants=parameters)
    else:
        (found,) = node("Slice", {"x": x, **parameters}, known, sized=tuple(parameters))
    where = [slice(None)] * len(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        where[axis] = part(shape[axis], start, end, step)
    same(found, x[tuple(where)], "Slice")


@budget(14)
@given(shape=shapes(1), seed=seeds, known=masks, data=st.data())
def test_concatenation_and_its_parts(shape: tuple[int, ...], seed: int, known: int, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    counts = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    parts = {}
    for i, count in enumerate(counts):
        extents = list(shape)
        extents[axis] = count
        parts[f"x{i}"] = floats(extents, seed + i)
    (whole,) = node("Concat", parts, known, axis=axis)
    same(whole, np.concatenate(list(parts.values()), axis), "Concat")
    found = node("Split", {"x": whole}, known, len(counts), constants={"parts": np.array(counts, np.int64)}, axis=axis)
    for piece, wanted in zip(found, parts.values(), strict=True):
        same(piece, wanted, "Split")


@budget(10)
@given(shape=shapes(1, 5), index=shapes(0, 3), seed=seeds, known=masks, narrow=st.booleans(), data=st.data())
def test_gathers(
    shape: tuple[int, ...], index: tuple[int, ...], seed: int, known: int, narrow: bool, data: st.DataObject
) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    assume(shape[axis] or 0 in index)
    x, rng = floats(shape, seed), np.random.default_rng(seed)
    extent = max(shape[axis], 1)
    at: Any = rng.integers(-extent, extent, index).astype(np.int32 if narrow else np.int64)
    (found,) = node("Gather", {"x": x, "at": at}, known, axis=axis)
    at_axis = axis % len(shape)
    empty = np.zeros(shape[:at_axis] + index + shape[at_axis + 1 :], np.float32)
    same(found, np.take(x, at % extent, axis) if shape[axis] else empty, "Gather")


@budget(10)
@given(shape=shapes(0, 4), seed=seeds, known=masks, fixed=st.booleans(), data=st.data())
def test_tiles_pads_and_expansions(
    shape: tuple[int, ...], seed: int, known: int, fixed: bool, data: st.DataObject
) -> None:
    x, rank = floats(shape, seed), len(shape)
    repeats = np.array([data.draw(st.integers(0, 3)) for _ in shape], np.int64)
    extra = data.draw(st.integers(0, 2))
    wide = np.array([2] * extra + [data.draw(st.integers(0, 3)) if extent == 1 else 1 for extent in shape], np.int64)
    pads = np.array([data.draw(st.integers(-1, 2)) for _ in range(2 * rank)], np.int64)
    for axis, extent in enumerate(shape):
        if extent + pads[axis] + pads[axis + rank] < 0 or extent == 0:
            pads[axis], pads[axis + rank] = max(pads[axis], 0), max(pads[axis + rank], 0)
    cut = x[tuple(slice(max(-pads[a], 0), extent - max(-pads[a + rank], 0)) for a, extent in enumerate(shape))]
    grown = np.pad(cut, [(int(max(pads[a], 0)), int(max(pads[a + rank], 0))) for a in range(rank)]) if rank else cut
    for op, numbers, wanted in (
        ("Tile", repeats, np.tile(x, repeats)),
        ("Expand", wide, np.broadcast_to(x, np.broadcast_shapes(shape, tuple(wide)))),
        ("Pad", pads, grown),
    ):
        feeds, constants = ({"x": x}, {"n": numbers}) if fixed else ({"x": x, "n": numbers}, {})
        (found,) = node(op, feeds, known, constants=constants, sized=("n",))
        same(found, np.ascontiguousarray(wanted).reshape(wanted.shape), op)


@budget(10)
@given(shape=shapes(), seed=seeds, known=masks, data=st.data())
def test_views(shape: tuple[int, ...], seed: int, known: int, data: st.DataObject) -> None:
    x, rank = floats(shape, seed), len(shape)
    axis = data.draw(st.integers(-rank, rank))
    flat = (int(np.prod(shape[: axis % (rank + 1) if axis < 0 else axis])) if axis >= 0 else
            int(np.prod(shape[: rank + axis])))  # fmt: skip
    (found,) = node("Flatten", {"x": x}, known, axis=axis)
    assert found.shape[0] == flat
    same(found.reshape(shape), x, "Flatten")
    new = sorted(data.draw(st.lists(st.integers(0, rank), unique=True, max_size=2)))
    (found,) = node("Unsqueeze", {"x": x}, known, constants={"axes": np.array(new, np.int64)})
    same(found, np.expand_dims(x, tuple(new)), "Unsqueeze")
    ones = [i for i, extent in enumerate(shape) if extent == 1]
    gone = [i - rank for i in ones if data.draw(st.booleans())]
    if gone:
        (found,) = node("Squeeze", {"x": x}, known, constants={"axes": np.array(gone, np.int64)})
        same(found, np.squeeze(x, tuple(gone)), "Squeeze")
    target = [0 if data.draw(st.booleans()) else extent for extent in shape] + [1]
    if x.size and rank:
        target[data.draw(st.integers(0, rank - 1))] = -1
        (found,) = node("Reshape", {"x": x}, known, constants={"s": np.array(target, np.int64)})
        same(found, x.reshape((*shape, 1)), "Reshape")


@budget(14)
@given(shape=shapes(2), seed=seeds, known=masks, upper=st.booleans(), k=st.integers(-5, 5))
def test_triangles(shape: tuple[int, ...], seed: int, known: int, upper: bool, k: int) -> None:
    x = floats(shape, seed)
    (found,) = node("Trilu", {"x": x}, known, constants={"k": np.array(k, np.int64)}, upper=int(upper))
    same(found, (np.triu if upper else np.tril)(x, k), "Trilu")


@budget(8)
@given(shape=shapes(1, 4), seed=seeds, known=masks, data=st.data())
def test_layers_normalised_from_an_axis(shape: tuple[int, ...], seed: int, known: int, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    assume(all(shape[axis % len(shape) :]))
    x, scale = floats(shape, seed, special=False), floats(shape[axis % len(shape) :], seed + 1, special=False)
    (found,) = node("LayerNormalization", {"x": x, "s": scale}, known, axis=axis)
    over = tuple(range(axis % len(shape), len(shape)))
    wide = x.astype(np.float64)
    moved = wide - wide.mean(over, keepdims=True)
    wanted = moved / np.sqrt((moved * moved).mean(over, keepdims=True) + 1e-5) * scale
    same(found, wanted.astype(np.float32), "LayerNormalization", 1e-4, 1e-4)


WHOLE = ("int8", "uint8", "int16", "int32", "int64", "uint64")


@budget(12)
@given(
    op=st.sampled_from(("Add", "Mul", "Sub", "Max", "Div", "Mod", "BitShift", "Pow")),
    dtype=st.sampled_from(WHOLE), sides=broadcast(), seed=seeds, known=masks,
)  # fmt: skip
def test_integers(op: str, dtype: str, sides: tuple[tuple[int, ...], tuple[int, ...]], seed: int, known: int) -> None:
    kind = np.dtype(dtype)
    assume(op != "BitShift" or kind.kind == "u")
    assume(op != "Pow" or dtype in ("int32", "int64"))
    x, y = integers(sides[0], seed, kind), integers(sides[1], seed + 1, kind)
    if op in ("Div", "Mod"):
        y = np.where(y == 0, kind.type(1), y)
    elif op in ("BitShift", "Pow"):
        y = (y % (8 * kind.itemsize if op == "BitShift" else 5)).astype(kind)
    attributes: dict[str, Any] = {"direction": "LEFT"} if op == "BitShift" else {}
    (found,) = node(op, {"x": x, "y": y}, known, **attributes)
    with np.errstate(all="ignore"):
        same(found, np.asarray(WHOLE_ORACLES[op](x, y), kind), op)


def divided(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Quotients towards zero; the one that overflows wraps around."""
    rest = np.fmod(x, y)
    return np.asarray(np.where(y == -1, -x, (x - rest) // y) if x.dtype.kind == "i" else x // y)


WHOLE_ORACLES: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Mul": np.multiply, "Sub": np.subtract, "Max": np.maximum, "Div": divided, "Mod": np.mod,
    "BitShift": np.left_shift, "Pow": np.power,
}  # fmt: skip
