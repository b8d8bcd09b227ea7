"""Families of operators that compute on more than one element, over drawn shapes, against NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from hip_compiler.dtypes import BY_NUMPY
from tests.fuzz.drawing import budget, floats, same, session
from tests.fuzz.nodes import node, shapes

seeds = st.integers(0, 2**31)
masks = st.integers(0, 2**16 - 1)
few = st.integers(1, 4)


def plain(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return floats(shape, seed, special=False)


@budget(10)
@given(rank=st.integers(1, 3), batch=st.integers(0, 2), channels=few, groups=st.integers(1, 2), seed=seeds, known=masks,
       data=st.data())  # fmt: skip
def test_convolutions_of_one_to_three_axes(
    rank: int, batch: int, channels: int, groups: int, seed: int, known: int, data: st.DataObject
) -> None:
    kernel = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    strides, dilations = (tuple(data.draw(st.integers(1, 2)) for _ in range(rank)) for _ in range(2))
    pads = [data.draw(st.integers(0, 2)) for _ in range(2 * rank)]
    spatial = tuple(data.draw(st.integers((k - 1) * d + 1, 7)) for k, d in zip(kernel, dilations, strict=True))
    x, w = plain((batch, channels * groups, *spatial), seed), plain((groups * 2, channels, *kernel), seed + 1)
    (found,) = node("Conv", {"x": x}, known | 2, constants={"w": w}, group=groups, strides=strides,
                    dilations=dilations, pads=pads)  # fmt: skip
    wide = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *((pads[i], pads[i + rank]) for i in range(rank))])
    out = [(wide.shape[2 + i] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(rank)]
    wanted = np.zeros((batch, groups * 2, *out))
    for g in range(groups):
        for taps in np.ndindex(*kernel):
            window = tuple(slice(t * d, t * d + (o - 1) * s + 1, s)
                           for t, d, o, s in zip(taps, dilations, out, strides, strict=True))  # fmt: skip
            part = wide[(slice(None), slice(g * channels, (g + 1) * channels), *window)]
            weights = w[(slice(2 * g, 2 * g + 2), slice(None), *taps)].astype(np.float64)
            wanted[:, 2 * g : 2 * g + 2] += np.moveaxis(np.tensordot(part, weights, ([1], [1])), -1, 1)
    same(found, wanted.astype(np.float32), "Conv", 1e-4, 1e-4)


@budget(8)
@given(op=st.sampled_from(("MaxPool", "AveragePool", "LpPool")), rank=st.integers(1, 3), batch=st.integers(0, 2),
       channels=few, seed=seeds, known=masks, data=st.data())  # fmt: skip
def test_pools_of_one_to_three_axes(
    op: str, rank: int, batch: int, channels: int, seed: int, known: int, data: st.DataObject
) -> None:
    kernel = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    strides = tuple(data.draw(st.integers(1, 2)) for _ in range(rank))
    spatial = tuple(data.draw(st.integers(k, 6)) for k in kernel)
    x = plain((batch, channels, *spatial), seed)
    (found,) = node(op, {"x": x}, known, kernel_shape=kernel, strides=strides)
    out = [(extent - k) // s + 1 for extent, k, s in zip(spatial, kernel, strides, strict=True)]
    wanted = np.zeros((batch, channels, *out))
    for at in np.ndindex(*out):
        window = tuple(slice(a * s, a * s + k) for a, s, k in zip(at, strides, kernel, strict=True))
        values = (
            x[(slice(None), slice(None), *window)].astype(np.float64).reshape(batch, channels, int(np.prod(kernel)))
        )
        made = {"MaxPool": lambda v: v.max(-1), "AveragePool": lambda v: v.mean(-1),
                "LpPool": lambda v: np.sqrt((v * v).sum(-1))}[op](values)  # fmt: skip
        wanted[(slice(None), slice(None), *at)] = made
    same(found, wanted.astype(np.float32), op, 1e-5, 1e-5)


@budget(12)
@given(op=st.sampled_from(("BatchNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization",
                           "MeanVarianceNormalization", "LRN")),
       batch=st.integers(0, 3), channels=few, spatial=shapes(1, 3), seed=seeds, known=masks)  # fmt: skip
def test_norms(op: str, batch: int, channels: int, spatial: tuple[int, ...], seed: int, known: int) -> None:
    assume(all(spatial) or op in ("BatchNormalization", "LRN"))
    if op in ("MeanVarianceNormalization", "LRN"):
        spatial = (*spatial, 2)[:2]
        assume(batch or op == "LRN")
    channels *= 2
    x = plain((batch, channels, *spatial), seed)
    wide = x.astype(np.float64)
    scale, bias = plain((channels,), seed + 1), plain((channels,), seed + 2)
    line = (channels, *[1] * len(spatial))
    if op == "BatchNormalization":
        mean, variance = plain((channels,), seed + 3), np.abs(plain((channels,), seed + 4)) + np.float32(0.1)
        (found,) = node(op, {"x": x}, known, constants={"s": scale, "b": bias, "m": mean, "v": variance})
        wanted = (wide - mean.reshape(line)) / np.sqrt(variance.reshape(line) + 1e-5) * scale.reshape(line)
        wanted += bias.reshape(line)
    elif op == "RMSNormalization":
        scale = plain(spatial[-1:], seed + 1)
        (found,) = node(op, {"x": x, "s": scale}, known, opset=23)
        wanted = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * scale
    elif op == "MeanVarianceNormalization":
        (found,) = node(op, {"x": x}, known)
        moved = wide - wide.mean((0, 2, 3), keepdims=True)
        wanted = moved / (np.sqrt((moved * moved).mean((0, 2, 3), keepdims=True)) + 1e-9)
        assume(np.abs(moved).max() > 0.1)
    elif op == "LRN":
        (found,) = node(op, {"x": x}, known, size=3, alpha=0.5)
        padded = np.pad(wide * wide, [(0, 0), (1, 1), (0, 0), (0, 0)])
        sums = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
        wanted = wide / (1 + 0.5 / 3 * sums) ** 0.75
    else:
        groups = channels if op == "InstanceNormalization" else 2
        attributes: dict[str, Any] = {} if op == "InstanceNormalization" else {"num_groups": 2}
        (found,) = node(op, {"x": x, "s": scale, "b": bias}, known, **attributes)
        grouped = wide.reshape(batch, groups, channels // groups * int(np.prod(spatial)))
        moved = grouped - grouped.mean(-1, keepdims=True)
        moved /= np.sqrt((moved * moved).mean(-1, keepdims=True) + 1e-5)
        wanted = moved.reshape(x.shape) * scale.reshape(line) + bias.reshape(line)
    same(found, wanted.astype(np.float32), op, 2e-4, 2e-4)


@budget(14)
@given(shape=shapes(1, 4), seed=seeds, known=masks, kind=st.sampled_from(("uint8", "int8", "uint16", "int16")),
       how=st.sampled_from(("tensor", "axis", "block")), data=st.data())  # fmt: skip
def test_quantisation(shape: tuple[int, ...], seed: int, known: int, kind: str, how: str, data: st.DataObject) -> None:
    axis, rng, limits = data.draw(st.integers(-len(shape), len(shape) - 1)), np.random.default_rng(seed), np.iinfo(kind)
    extent, attributes = shape[axis], dict[str, Any]()
    form: tuple[int, ...] = ()
    if how == "axis":
        form, attributes = (extent,), {"axis": axis}
    elif how == "block":
        size = data.draw(st.integers(1, 4))
        at = axis % len(shape)
        form = tuple(-(-e // size) if i == at else e for i, e in enumerate(shape))
        attributes = {"axis": axis, "block_size": size}
        known |= 2**16 - 1  # the blocks of an axis are counted by the compiler
    x = plain(shape, seed)
    scale = rng.uniform(0.01, 0.1, form).astype(np.float32)
    zero = rng.integers(max(limits.min, -100), min(limits.max, 100), form).astype(kind)
    if how == "axis":
        place = tuple(extent if i == axis % len(shape) else 1 for i in range(len(shape)))
        factors, offsets = scale.reshape(place), zero.reshape(place)
    elif how == "block":
        where = np.arange(extent) // attributes["block_size"]
        factors, offsets = np.take(scale, where, axis), np.take(zero, where, axis)
    else:
        factors, offsets = scale, zero
    (found,) = node("QuantizeLinear", {"x": x}, known, constants={"s": scale, "z": zero}, **attributes)
    wanted = np.clip(np.rint(x / factors) + offsets, limits.min, limits.max).astype(kind)
    same(found, wanted, "QuantizeLinear")
    (back,) = node("DequantizeLinear", {"q": wanted}, known, constants={"s": scale, "z": zero}, **attributes)
    same(
        back,
        ((wanted.astype(np.float32) - offsets.astype(np.float32)) * factors).astype(np.float32),
        "DequantizeLinear",
    )


@budget(10)
@given(m=st.integers(0, 4), k=st.integers(1, 40), n=st.integers(1, 20), seed=seeds, known=masks,
       left=st.sampled_from((np.uint8, np.int8)), right=st.sampled_from((np.uint8, np.int8)))  # fmt: skip
def test_products_of_bytes(m: int, k: int, n: int, seed: int, known: int, left: Any, right: Any) -> None:
    rng = np.random.default_rng(seed)
    a, b = (
        rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1, s).astype(t) for t, s in ((left, (m, k)), (right, (k, n)))
    )
    za, zb = left(3), rng.integers(0, 100, (n,)).astype(right)
    (found,) = node("MatMulInteger", {"a": a, "b": b}, known, constants={"za": np.array(za), "zb": zb})
    same(found, ((a.astype(np.int64) - int(za)) @ (b.astype(np.int64) - zb)).astype(np.int32), "MatMulInteger")
    per_column = rng.uniform(0.01, 0.1, n).astype(np.float32)
    feeds = {"a": a, "as": np.array(0.1, np.float32), "az": np.array(za), "b": b, "bs": per_column, "bz": zb}
    result = {"ys": np.array(0.7, np.float32), "yz": np.array(left(5))}
    (found,) = node("QLinearMatMul", {**feeds, **result}, known, sized=("b", "bs", "bz"))
    exact = (a.astype(np.int64) - int(za)) @ (b.astype(np.int64) - zb) * (0.1 * per_column.astype(np.float64)) / 0.7 + 5
    limits = np.iinfo(left)
    steps = found.astype(np.int64) - np.clip(np.rint(exact), limits.min, limits.max)
    assert np.abs(steps).max(initial=0) <= 1


CASTS = ("float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "uint32", "bool")


@budget(16)
@given(source=st.sampled_from(CASTS), target=st.sampled_from(CASTS), shape=shapes(), seed=seeds, known=masks)
def test_casts(source: str, target: str, shape: tuple[int, ...], seed: int, known: int) -> None:
    # Numbers that fit both: what a cast makes of others is not defined.
    x = np.clip(np.round(floats(shape, seed, special=False) * 8) / 4, 0 if "u" in source + target else -8, 8)
    x = x.astype(source)
    (found,) = node("Cast", {"x": x}, known, to=BY_NUMPY[np.dtype(target)].onnx)
    same(found, x.astype(target), "Cast")


@budget(10)
@given(target=st.sampled_from(("float64", "float16")), shape=shapes(), seed=seeds, known=masks)
def test_casts_of_special_values(target: str, shape: tuple[int, ...], seed: int, known: int) -> None:
    x = floats(shape, seed)
    (found,) = node("Cast", {"x": x}, known, to=BY_NUMPY[np.dtype(target)].onnx)
    with np.errstate(over="ignore"):
        wanted = x.astype(target)
    same(found, wanted, "Cast", 0, 0)
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


@budget(8)
@given(op=st.sampled_from(("RNN", "GRU", "LSTM")), steps=st.integers(0, 4), batch=st.integers(1, 3), width=few,
       hidden=few, both=st.booleans(), seed=seeds, known=masks, data=st.data())  # fmt: skip
def test_recurrent_layers(
    op: str, steps: int, batch: int, width: int, hidden: int, both: bool, seed: int, known: int, data: st.DataObject
) -> None:
    gates, directions = {"RNN": 1, "GRU": 3, "LSTM": 4}[op], 2 if both else 1
    x = plain((steps, batch, width), seed)
    w, r = (plain((directions, gates * hidden, size), seed + i) for i, size in enumerate((width, hidden)))
    lengths = np.array([data.draw(st.integers(0, steps)) for _ in range(batch)], np.int32)
    found = node(op, {"x": x, "w": w, "r": r, "_": np.zeros(0, np.float32), "lens": lengths}, known | 0b11111000, 2,
                 hidden_size=hidden, direction="bidirectional" if both else "forward", sized=("w", "r"))  # fmt: skip
    y, last = np.zeros((steps, directions, batch, hidden)), np.zeros((directions, batch, hidden))
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    for d in range(directions):
        for n in range(batch):
            h, c = np.zeros(hidden), np.zeros(hidden)
            order = range(lengths[n])
            for t in reversed(order) if d else order:
                wx, rh = w[d].astype(np.float64) @ x[t, n], r[d].astype(np.float64)
                if op == "RNN":
                    h = np.tanh(wx + rh @ h)
                elif op == "LSTM":
                    i, o, f, g = np.split(wx + rh @ h, 4)
                    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                    h = sigmoid(o) * np.tanh(c)
                else:
                    (wz, wr, wh), (rz, rr, rn) = np.split(wx, 3), np.split(rh, 3)
                    z = sigmoid(wz + rz @ h)
                    h = (1 - z) * np.tanh(wh + rn @ (sigmoid(wr + rr @ h) * h)) + z * h
                y[t, d, n] = h
            last[d, n] = h
    same(found[0], y.astype(np.float32), op, 1e-4, 1e-4)
    same(found[1], last.astype(np.float32), op, 1e-4, 1e-4)


@budget(12)
@given(
    op=st.sampled_from(("NonZero", "Compress", "Unique")), shape=shapes(1, 4), seed=seeds, known=masks, data=st.data()
)
def test_shapes_that_the_numbers_decide(
    op: str, shape: tuple[int, ...], seed: int, known: int, data: st.DataObject
) -> None:
    x = np.round(plain(shape, seed))
    if op == "NonZero":
        (found,) = node(op, {"x": x}, known)
        same(found, np.stack(np.nonzero(x)).astype(np.int64), op)
    elif op == "Compress":
        axis = data.draw(st.integers(-len(shape), len(shape) - 1))
        keep = np.random.default_rng(seed).random(data.draw(st.integers(0, shape[axis]))) < 0.5
        (found,) = node(op, {"x": x, "keep": keep}, known, axis=axis)
        same(found, np.compress(keep, x, axis), op)
    else:
        assume(x.size)
        x = x + np.float32(0)  # one zero
        found, first, back, count = node(op, {"x": x}, known, 4)
        values, at, inverse, counts = np.unique(x, True, True, True)
        for got, wanted in zip((found, first, back, count), (values, at, inverse.ravel(), counts), strict=True):
            same(got, wanted if wanted.dtype == np.float32 else wanted.astype(np.int64), op)


EQUATIONS = (
    "ij,jk->ik", "bij,bjk->bik", "ii->i", "ij->", "i,j->ij", "bhqd,bhkd->bhqk", "...ij,...jk->...ik", "ij,ij->j",
    "ijk->kji", "abc,cd,db->a",
)  # fmt: skip


@budget(12)
@given(equation=st.sampled_from(EQUATIONS), seed=seeds, known=masks, data=st.data())
def test_sums_of_products(equation: str, seed: int, known: int, data: st.DataObject) -> None:
    extents = {letter: data.draw(st.integers(0, 4)) for letter in "abcdhijkq"}
    terms = equation.split("->")[0].split(",")
    feeds = {
        f"x{n}": plain(tuple(extents[c] for c in term.replace("...", "a")), seed + n) for n, term in enumerate(terms)
    }
    (found,) = node("Einsum", feeds, known, equation=equation)
    wanted = np.einsum(equation, *(array.astype(np.float64) for array in feeds.values()))
    same(found, np.asarray(wanted, np.float32), equation, 1e-5, 1e-4)


@budget(10)
@given(batch=few, length=st.integers(1, 24), axis=st.sampled_from((1, -2)),
       sides=st.sampled_from(((0, 0), (1, 0), (0, 1))), cut=st.integers(0, 30), seed=seeds, known=masks)  # fmt: skip
def test_transforms(
    batch: int, length: int, axis: int, sides: tuple[int, int], cut: int, seed: int, known: int
) -> None:
    one_sided, inverse = sides
    x = plain((batch, length, 1 if one_sided else 2), seed)
    constants = {"n": np.array(cut or length, np.int64), "axis": np.array(axis, np.int64)}
    (found,) = node("DFT", {"x": x}, known | 4, constants=constants, onesided=one_sided, inverse=inverse)
    wide = x[..., 0] + 0j if one_sided else x[..., 0].astype(np.float64) + 1j * x[..., 1].astype(np.float64)
    wanted = (np.fft.ifft if inverse else np.fft.fft)(wide, cut or length, 1)
    if one_sided:
        wanted = wanted[:, : (cut or length) // 2 + 1]
    same(found, np.stack([wanted.real, wanted.imag], -1).astype(np.float32), "DFT", 1e-4, 1e-4)


@budget(8)
@given(batch=few, heads=few, size=few, queries=st.integers(1, 5), keys=st.integers(1, 6), causal=st.booleans(),
       group=st.integers(1, 2), masked=st.booleans(), seed=seeds, known=masks)  # fmt: skip
def test_attention(
    batch: int,
    heads: int,
    size: int,
    queries: int,
    keys: int,
    causal: bool,
    group: int,
    masked: bool,
    seed: int,
    known: int,
) -> None:
    q = plain((batch, heads * group, queries, size), seed)
    k, v = (plain((batch, heads, keys, size), seed + i) for i in (1, 2))
    bias = plain((queries, keys), seed + 3)
    feeds = {"q": q, "k": k, "v": v, **({"bias": bias} if masked else {})}
    (found,) = node(
        "Attention", feeds, known | 0b1010101010101010, sized=("q", "k", "v"), opset=23, is_causal=int(causal)
    )
    many = [np.repeat(a.astype(np.float64), group, 1) for a in (k, v)]
    scores = q.astype(np.float64) @ many[0].swapaxes(-1, -2) / np.sqrt(size) + (bias if masked else 0)
    if causal:
        scores = np.where(np.tril(np.ones((queries, keys))) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    same(found, (weights / weights.sum(-1, keepdims=True) @ many[1]).astype(np.float32), "Attention", 1e-4, 1e-4)


@budget(8)
@given(trips=st.integers(0, 5), shape=shapes(0, 3), seed=seeds, stop=st.integers(0, 6))
def test_loops(trips: int, shape: tuple[int, ...], seed: int, stop: int) -> None:
    names = "ABC"[: len(shape)]
    one, many = (f"float[{','.join(n)}]" if n else "float" for n in (names, f"N{names}"))
    text = f"""g (int64 trips, int64 stop, {one} x) => ({one} last, {many} all) {{
        going = Constant <value = bool {{1}}> ()
        last, all = Loop (trips, going, x) <body = b (int64 i, bool c, {one} s) => (bool on, {one} t, {one} u) {{
            one = Constant <value = int64 {{1}}> ()
            next = Add (i, one)
            on = Less (next, stop)
            t = Add (s, s)
            u = Identity (t)
        }}>
    }}"""
    x = plain(shape, seed)
    found = session(text).run({"trips": np.array(trips), "stop": np.array(stop), "x": x})
    states, value = [], x
    for i in range(trips):
        value = value + value
        states.append(value)
        if not i + 1 < stop:
            break
    same(found["last"], value, "last")
    same(found["all"], np.stack(states) if states else np.zeros((0, *shape), np.float32), "all")
