"""Products, convolutions, norms and spectra over drawn extents, against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hip_compiler
from tests.fuzz.drawing import budget, extents, floats, same, same_as_reference, session

Pair = tuple[int, int]
Sides = tuple[int, int, int, int]
seeds = st.integers(0, 2**31)
some = extents.filter(bool)


@budget(30)
@given(batch=extents, m=extents, n=extents, k=extents, seed=seeds, left=st.booleans(), right=st.booleans())
def test_products_broadcast_their_batches(
    batch: int, m: int, n: int, k: int, seed: int, left: bool, right: bool
) -> None:
    text = """g (float[X,M,K] a, float[Y,K,N] b, float[K,N] c, float[K] v) => (
            float[Z,M,N] y, float[X,M,N] z, float[X,M] w) {
        y = MatMul (a, b)
        z = MatMul (a, c)
        w = MatMul (a, v)
    }"""
    a = floats((1 if left else batch, m, k), seed, special=False)
    b = floats((1 if right else batch, k, n), seed + 1, special=False)
    c, v = floats((k, n), seed + 2, special=False), floats((k,), seed + 3, special=False)
    found = session(text).run({"a": a, "b": b, "c": c, "v": v})
    for name, other in (("y", b), ("z", c), ("w", v)):
        wanted = np.matmul(a.astype(np.float64), other.astype(np.float64)).astype(np.float32)
        same(found[name], wanted, name, atol=4e-5)


@budget(24)
@given(m=some, n=extents, k=extents, seed=seeds, flip=st.tuples(st.booleans(), st.booleans()))
def test_gemm(m: int, n: int, k: int, seed: int, flip: tuple[bool, bool]) -> None:
    shapes = ("K,M" if flip[0] else "M,K", "N,K" if flip[1] else "K,N")
    text = f"""g (float[{shapes[0]}] a, float[{shapes[1]}] b, float[N] c) => (float[M,N] y) {{
        y = Gemm <transA = {int(flip[0])}, transB = {int(flip[1])}, alpha = 0.5, beta = 2.0> (a, b, c)
    }}"""
    a = floats((k, m) if flip[0] else (m, k), seed, special=False)
    b, c = floats((n, k) if flip[1] else (k, n), seed + 1, special=False), floats((n,), seed + 2, special=False)
    left, right = (a.T if flip[0] else a).astype(np.float64), (b.T if flip[1] else b).astype(np.float64)
    wanted = (0.5 * (left @ right) + 2.0 * c).astype(np.float32)
    same(session(text).run({"a": a, "b": b, "c": c})["y"], wanted, "Gemm", atol=4e-5)


WINDOWS = (
    "strides = [1, 1]",
    "strides = [2, 1], pads = [1, 2, 0, 1]",
    "dilations = [2, 1], pads = [2, 0, 2, 0]",
    'auto_pad = "SAME_UPPER", strides = [2, 3]',
)
images = {"batch": st.integers(1, 3), "h": st.integers(5, 9), "w": st.integers(5, 20), "seed": seeds}


@pytest.mark.parametrize("window", WINDOWS)
def test_convolutions(window: str) -> None:
    text = f"""g (float[N,2,H,W] x, float[4,1,3,2] w, float[4] b) => (float[N,4,P,Q] y) {{
        y = Conv <group = 2, {window}> (x, w, b)
    }}"""

    @budget(10)
    @given(**images)
    def holds(batch: int, h: int, w: int, seed: int) -> None:
        shapes = {"x": (batch, 2, h, w), "w": (4, 1, 3, 2), "b": (4,)}
        same_as_reference(text, {name: floats(shape, seed, special=False) for name, shape in shapes.items()})

    holds()


TRANSPOSED = (
    ("strides = [1, 1]", (1, 1), (1, 1), (0, 0, 0, 0), (0, 0)),
    ("strides = [2, 3], pads = [1, 0, 0, 1]", (2, 3), (1, 1), (1, 0, 0, 1), (0, 0)),
    ("dilations = [2, 1], pads = [2, 0, 2, 0]", (1, 1), (2, 1), (2, 0, 2, 0), (0, 0)),
    ("strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]", (2, 2), (1, 1), (1, 1, 1, 1), (1, 1)),
)


@pytest.mark.parametrize(("window", "strides", "dilations", "pads", "more"), TRANSPOSED)
@pytest.mark.parametrize("group", [1, 2])
def test_transposed_convolutions(
    window: str, strides: Pair, dilations: Pair, pads: Sides, more: Pair, group: int
) -> None:
    text = f"""g (float[N,4,H,W] x, float[4,3,3,2] w, float[{3 * group}] b) => (float[N,M,P,Q] y) {{
        y = ConvTranspose <group = {group}, {window}> (x, w, b)
    }}"""

    @budget(10)
    @given(**images)
    def holds(batch: int, h: int, w: int, seed: int) -> None:
        shapes = {"x": (batch, 4, h, w), "w": (4, 3, 3, 2), "b": (3 * group,)}
        feeds = {name: floats(shape, seed + len(shape), special=False) for name, shape in shapes.items()}
        wanted = transposed(feeds["x"], feeds["w"], strides, dilations, pads, more, group)
        wanted += feeds["b"].reshape(-1, 1, 1)
        same(session(text).run(feeds)["y"], wanted.astype(np.float32), "ConvTranspose", 1e-5, 4e-5)

    holds()


def transposed(
    x: np.ndarray, w: np.ndarray, strides: Pair, dilations: Pair, pads: Sides, more: Pair, group: int
) -> np.ndarray:
    """Every element of x spreads over the kernel's taps; pads cut the ends, `more` adds what no tap reaches."""
    kernel, spatial = w.shape[2:], x.shape[2:]
    reach = [(spatial[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 + more[i] for i in range(2)]
    result = np.zeros((x.shape[0], w.shape[1] * group, *reach))
    rows, columns = x.shape[1] // group, w.shape[1]
    for g in range(group):
        part, taps = x[:, g * rows : (g + 1) * rows].astype(np.float64), w[g * rows : (g + 1) * rows].astype(np.float64)
        for i, j in np.ndindex(*kernel):
            y, z = i * dilations[0], j * dilations[1]
            spread = np.einsum("nchw,cm->nmhw", part, taps[:, :, i, j])
            result[
                :,
                g * columns : (g + 1) * columns,
                y : y + (spatial[0] - 1) * strides[0] + 1 : strides[0],
                z : z + (spatial[1] - 1) * strides[1] + 1 : strides[1],
            ] += spread
    return result[:, :, pads[0] : reach[0] - pads[2], pads[1] : reach[1] - pads[3]]


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("window", [*WINDOWS[:2], "strides = [2, 2], ceil_mode = 1"])
def test_pools(op: str, window: str) -> None:
    text = f"""g (float[N,C,H,W] x) => (float[N,C,P,Q] y) {{ y = {op} <kernel_shape = [3, 2], {window}> (x) }}"""
    if "pads" in window:
        text = text.replace("1, 2, 0, 1", "1, 1, 0, 1")  # pads stay below the kernel

    @budget(12)
    @given(batch=some, channels=some, h=st.integers(3, 9), w=st.integers(3, 19), seed=seeds)
    def holds(batch: int, channels: int, h: int, w: int, seed: int) -> None:
        same_as_reference(text, {"x": floats((batch, channels, h, w), seed, special=False)})

    holds()


@budget(24)
@given(rows=extents, columns=some, seed=seeds)
def test_norms(rows: int, columns: int, seed: int) -> None:
    text = """g (float[A,B] x, float[B] s, float[B] b) => (float[A,B] y, float[A,B] z) {
        y = LayerNormalization <axis = -1> (x, s, b)
        z = LpNormalization <axis = -1, p = 2> (x)
    }"""
    x, s, b = (
        floats(shape, seed + i, special=False) for i, shape in enumerate([(rows, columns), (columns,), (columns,)])
    )
    found = session(text).run({"x": x, "s": s, "b": b})
    wide = x.astype(np.float64)
    mean = wide.mean(-1, keepdims=True)
    deviation = np.sqrt(((wide - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
    same(found["y"], ((wide - mean) / deviation * s + b).astype(np.float32), "LayerNormalization", 1e-4, 1e-4)
    size = np.sqrt((wide * wide).sum(-1, keepdims=True))
    same(found["z"], (wide / size).astype(np.float32), "LpNormalization")


@budget(20)
@given(
    batch=some,
    length=st.integers(8, 40),
    step=st.integers(1, 7),
    size=st.integers(2, 8),
    seed=seeds,
    half=st.booleans(),
)
def test_frames_of_a_signal(batch: int, length: int, step: int, size: int, seed: int, half: bool) -> None:
    text = f"""g (float[N,L,1] x, int64 step, float[W] window) => (float[N,F,B,2] y) {{
        y = STFT <onesided = {int(half)}> (x, step, window)
    }}"""
    x, window = floats((batch, length, 1), seed, special=False), floats((size,), seed + 1, special=False)
    found = session(text).run({"x": x, "step": np.array(step, np.int64), "window": window})["y"]
    starts = range(0, length - size + 1, step)
    frames = np.stack([x[:, start : start + size, 0].astype(np.float64) * window for start in starts], 1)
    spectrum = np.fft.rfft(frames) if half else np.fft.fft(frames)
    same(found, np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32), "STFT", 1e-4, 1e-4)


@budget(20)
@given(batch=some, channels=some, height=st.integers(2, 9), width=st.integers(2, 9), seed=seeds)
def test_what_was_pooled_goes_back(batch: int, channels: int, height: int, width: int, seed: int) -> None:
    text = """g (float[N,C,H,W] x, int64[4] shape) => (float[N,C,P,Q] small, float[N,C,R,S] y) {
        small, at = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
        y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (small, at)
    }"""
    height, width = height // 2 * 2, width // 2 * 2  # positions count elements of what is put back
    x = floats((batch, channels, height, width), seed, special=False)
    found = session(text).run({"x": x, "shape": np.array(x.shape, np.int64)})
    kept = x.reshape(batch, channels, height // 2, 2, width // 2, 2).max((3, 5))
    same(found["small"], kept, "MaxPool")
    assert found["y"].shape == x.shape
    assert ((found["y"] == x) | (found["y"] == 0)).all()
    assert np.count_nonzero(found["y"]) == np.count_nonzero(kept)


@pytest.mark.parametrize("shape", [(1, 1, 5, 5), (1, 1, 6, 4)])
def test_unpooling_into_a_larger_shape(shape: tuple[int, ...]) -> None:
    text = """g (float[1,1,2,2] x, int64[1,1,2,2] at, int64[4] shape) => (float[A,B,C,D] y) {
        y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (x, at, shape)
    }"""
    x, at = floats((1, 1, 2, 2), 5, special=False), np.array([[[[5, 7], [13, 15]]]], np.int64)
    same_as_reference(text, {"x": x, "at": at, "shape": np.array(shape, np.int64)})
    with pytest.raises(hip_compiler.HipCompilerError, match="smaller than what is put back"):
        session(text).run({"x": x, "at": at, "shape": np.array((1, 1, 3, 5), np.int64)})


def test_frames_longer_than_the_signal_are_an_error() -> None:
    text = "g (float[N,L,1] x, int64 step, float[W] window) => (float[N,F,B,2] y) { y = STFT (x, step, window) }"
    feeds = {"x": floats((1, 4, 1), 0, special=False), "window": np.ones(5, np.float32)}
    with pytest.raises(hip_compiler.HipCompilerError, match="a frame longer than the signal"):
        session(text).run({**feeds, "step": np.array(1, np.int64)})


@budget(16)
@given(
    mels=st.integers(1, 12),
    length=st.sampled_from((16, 64, 100, 256)),
    low=st.integers(0, 500),
    span=st.integers(500, 3000),
)
def test_mel_weights(mels: int, length: int, low: int, span: int) -> None:
    text = """g (int64 mels, int64 length, int64 rate, float low, float high) => (float[A,B] y) {
        y = MelWeightMatrix (mels, length, rate, low, high)
    }"""
    feeds = {"mels": np.int64(mels), "length": np.int64(length), "rate": np.int64(8192)}
    feeds |= {"low": np.float32(low), "high": np.float32(low + span)}  # type: ignore[dict-item]
    found = session(text).run({name: np.asarray(value) for name, value in feeds.items()})["y"]
    same(found, mel_weights(mels, length, 8192, low, low + span), "MelWeightMatrix")


def mel_weights(mels: int, length: int, rate: int, low: float, high: float) -> np.ndarray:
    """[length // 2 + 1, mels]: triangles between neighbouring points that are even on the mel scale."""
    scale = 2595 / np.log(10)
    ends = scale * np.log1p(np.array([low, high], np.float64) / 700)
    points = ends[0] + np.arange(mels + 2) * (ends[1] - ends[0]) / (mels + 2)
    lines = np.floor((length + 1) * 700 * np.expm1(points / scale) / rate).astype(int)
    result = np.zeros((length // 2 + 1, mels), np.float32)
    for column, (left, center, right) in enumerate(zip(lines, lines[1:], lines[2:], strict=False)):
        for line in range(length // 2 + 1):
            if line == center:
                result[line, column] = 1
            elif left <= line < center:
                result[line, column] = (line - left) / (center - left)
            elif center < line < right:
                result[line, column] = (right - line) / (right - center)
    return result
