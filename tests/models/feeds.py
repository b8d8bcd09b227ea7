"""Inputs for the networks of the catalogue: plausible text, pictures, sound and files, drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Feeds: TypeAlias = dict[str, Array]
Extents: TypeAlias = Mapping[str, int]
MakeFeeds: TypeAlias = Callable[[np.random.Generator, Extents], Feeds]
Draw: TypeAlias = Callable[[np.random.Generator, int, int], Array]
Pixel: TypeAlias = tuple[float, float, float]

ROOT = Path(__file__).resolve().parents[2]

# Of magika's configuration: bytes taken from either end of a file, how far blanks are skipped, and the padding.
ENDS, BLOCK, PADDING = 1024, 4096, 256

# Of BERT's vocabulary.
CLS, SEP, FIRST_WORD, WORDS = 101, 102, 1996, 30522


def picture(rng: np.random.Generator, height: int, width: int, channels: int = 3) -> Array:
    """A smooth picture with edges: float32 [height, width, channels] in 0..255. White noise would be no picture."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    planes = []
    for _ in range(channels):
        waves = np.zeros((height, width))
        for _ in range(4):
            fy, fx, phase = (*rng.uniform(-0.12, 0.12, 2), rng.uniform(0, 6.3))
            waves += np.sin(fy * y + fx * x + phase)
        planes.append(waves)
    image = 128 + 28 * np.stack(planes, axis=-1) + rng.normal(0, 4, (height, width, channels))
    top, left = int(rng.integers(0, height // 2)), int(rng.integers(0, width // 2))
    image[top : top + height // 3, left : left + width // 3] *= 0.4
    return np.clip(image, 0, 255).astype(np.float32)


# Five by seven dots a letter, one number a row.
LETTERS = {
    "A": (14, 17, 17, 31, 17, 17, 17),
    "C": (14, 17, 16, 16, 16, 17, 14),
    "E": (31, 16, 16, 30, 16, 16, 31),
    "H": (17, 17, 17, 31, 17, 17, 17),
    "I": (14, 4, 4, 4, 4, 4, 14),
    "L": (16, 16, 16, 16, 16, 16, 31),
    "N": (17, 25, 21, 19, 17, 17, 17),
    "O": (14, 17, 17, 17, 17, 17, 14),
    "P": (30, 17, 17, 30, 16, 16, 16),
    "R": (30, 17, 17, 30, 20, 18, 17),
    "S": (15, 16, 16, 14, 1, 1, 30),
    "T": (31, 4, 4, 4, 4, 4, 4),
}


def page(rng: np.random.Generator, height: int, width: int) -> Array:
    """Dark letters on light paper, in lines about 40 pixels apart: float32 [height, width, 3] in 0..255."""
    dot = 4
    ink = np.zeros((height, width))
    for top in range(10, height - 7 * dot, 12 * dot):
        left = 8
        while left + 6 * dot < width:
            if rng.random() > 0.15:
                rows = LETTERS[str(rng.choice(sorted(LETTERS)))]
                bits = np.array([[row >> (4 - column) & 1 for column in range(5)] for row in rows])
                ink[top : top + 7 * dot, left : left + 5 * dot] = np.kron(bits, np.ones((dot, dot)))
            left += 6 * dot
    paper = 235 - 205 * ink[..., None] + rng.normal(0, 3, (height, width, 3))
    return np.clip(paper, 0, 255).astype(np.float32)


def sound(rng: np.random.Generator, samples: int, rate: int = 16000) -> Array:
    """A voiced tone with overtones and noise: float32 [samples] in -1..1."""
    time = np.arange(samples) / rate
    pitch = rng.uniform(90, 220)
    voice = sum(np.sin(2 * np.pi * pitch * k * time + rng.uniform(0, 6.3)) / k for k in range(1, 12))
    swell = 0.5 + 0.5 * np.sin(2 * np.pi * 3 * time)
    return (0.12 * voice * swell + rng.normal(0, 0.01, samples)).astype(np.float32)


def file_bytes(content: bytes) -> Array:
    """What magika looks at: int32 [2048], the first and last 1,024 bytes without outer blanks, padded with 256."""
    beginning = content[:BLOCK].lstrip()[:ENDS]
    end = content[-BLOCK:].rstrip()[-ENDS:]
    values = np.full(2 * ENDS, PADDING, dtype=np.int32)
    values[: len(beginning)] = np.frombuffer(beginning, dtype=np.uint8)
    if end:
        values[-len(end) :] = np.frombuffer(end, dtype=np.uint8)
    return values


def files(input_name: str) -> MakeFeeds:
    """`batch` files of this repository, as magika sees them."""

    def make(rng: np.random.Generator, extents: Extents) -> Feeds:
        paths = sorted(path for pattern in ("*.md", "*.toml", "hip_compiler/*.py") for path in ROOT.glob(pattern))
        chosen = rng.choice(len(paths), extents["batch"])
        return {input_name: np.stack([file_bytes(paths[i].read_bytes()) for i in chosen])}

    return make


def sentences(*names: str) -> MakeFeeds:
    """Token ids and masks, int64 [batch, sequence]; rows after the first are padded, as in a real batch."""

    def make(rng: np.random.Generator, extents: Extents) -> Feeds:
        batch, length = extents["batch"], extents["sequence"]
        ids = rng.integers(FIRST_WORD, WORDS, (batch, length), dtype=np.int64)
        mask = np.ones((batch, length), dtype=np.int64)
        ids[:, 0] = CLS
        for row in range(batch):
            used = length if row == 0 else int(rng.integers(3, length + 1))
            ids[row, used - 1] = SEP
            ids[row, used:] = 0
            mask[row, used:] = 0
        values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return {name: values[name] for name in names}

    return make


def pictures(name: str, mean: Pixel, std: Pixel, *, channels_first: bool = True, draw: Draw = picture) -> MakeFeeds:
    """Pictures, float32 [batch, 3, height, width] or [batch, height, width, 3]: `(pixel - mean) / std`."""

    def make(rng: np.random.Generator, extents: Extents) -> Feeds:
        batch = np.stack([draw(rng, extents["height"], extents["width"]) for _ in range(extents["batch"])])
        batch = (batch - np.asarray(mean)) / np.asarray(std)
        if channels_first:
            batch = batch.transpose(0, 3, 1, 2)
        return {name: np.ascontiguousarray(batch, dtype=np.float32)}

    return make


def voice_frames(rng: np.random.Generator, extents: Extents) -> Feeds:
    """Frames of silero's sequence model: float32 [frames, 576], each with the last 64 samples of the one before."""
    frames = extents["frames"]
    track = sound(rng, 64 + 512 * frames)
    windows = np.stack([track[512 * i : 512 * i + 576] for i in range(frames)])
    state = np.zeros((1, 1, 128), dtype=np.float32)
    return {"input": windows, "h": state, "c": state.copy()}


def voice_chunk(*, rate: bool) -> MakeFeeds:
    """One chunk for silero's streaming models: `input` [batch, samples], `state` [2, batch, 128], maybe `sr` []."""

    def make(rng: np.random.Generator, extents: Extents) -> Feeds:
        batch = extents["batch"]
        samples, hertz = (576, 16000) if extents.get("rate", 16000) == 16000 else (288, 8000)
        feeds: Feeds = {
            "input": np.stack([sound(rng, samples, hertz) for _ in range(batch)]),
            "state": rng.normal(0, 0.1, (2, batch, 128)).astype(np.float32),
        }
        if rate:
            feeds["sr"] = np.array(hertz, dtype=np.int64)
        return feeds

    return make


def recording(rng: np.random.Generator, extents: Extents) -> Feeds:
    """Sound as openwakeword's front-end takes it: float32 [1, samples] on the scale of int16."""
    return {"input": np.round(32767 * sound(rng, extents["samples"]))[None]}


def levels(name: str, *last: int) -> MakeFeeds:
    """Levels of sound over time and bands, `[batch, *last]` around 0, smooth as speech is."""

    def make(rng: np.random.Generator, extents: Extents) -> Feeds:
        frames, bands = last[:2]
        steps = rng.normal(0, 1, (extents["batch"], frames, bands)).cumsum(1) / np.sqrt(frames)
        values = steps + rng.normal(0, 1, (extents["batch"], 1, bands))
        return {name: values.astype(np.float32).reshape(extents["batch"], *last)}

    return make


def voice_stream(rng: np.random.Generator, extents: Extents) -> Feeds:
    """One chunk for silero's older model: `input` [batch, samples], `h` and `c` [2, batch, 64], `sr` []."""
    batch, hertz = extents["batch"], extents.get("rate", 16000)
    return {
        "input": np.stack([sound(rng, extents["samples"], hertz) for _ in range(batch)]),
        "sr": np.array(hertz, dtype=np.int64),
        **{name: rng.normal(0, 0.1, (2, batch, 64)).astype(np.float32) for name in "hc"},
    }


def table(name: str, *columns: tuple[int, int]) -> MakeFeeds:
    """Rows of whole numbers, float32 [batch, len(columns)], each column between its two bounds."""

    def make(rng: np.random.Generator, extents: Extents) -> Feeds:
        rows = [rng.integers(low, high + 1, extents["batch"]) for low, high in columns]
        return {name: np.stack(rows, 1).astype(np.float32)}

    return make
