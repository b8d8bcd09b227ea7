"""Networks that listen for words, and small models of tables, one row each."""

from __future__ import annotations

from tests.models import packages
from tests.models.feeds import levels, recording, table, voice_stream
from tests.models.model import Model, row


def _wake(key: str, file: str, name: str, frames: int, word: str, *batches: int) -> Model:
    make, extents = levels(name, frames, 96), [{"batch": batch} for batch in (1, *batches)]
    return row(f"wake_{key}", f"listens for {word}", packages.WAKE_WORD, file, make, *extents)


def _surrogate(key: str, file: str, summary: str, *columns: tuple[int, int]) -> Model:
    make = table("input", *columns)
    return row(f"table_{key}", summary, packages.SURROGATES, file, make, {"batch": 64}, {"batch": 1})


# What the numbers of the tables mean: a choice among so many, or a parameter between bounds.
NEIGHBOURS = ((1, 150), (0, 3), (2, 10), (0, 2))

LISTENERS: tuple[Model, ...] = (
    row(
        "wake_mel",
        "spectrogram of sound, as convolutions",
        packages.WAKE_WORD,
        "melspectrogram.onnx",
        recording,
        {"samples": 16000},
        {"samples": 12400},
    ),
    row(
        "wake_embedding",
        "embedder of spectrograms",
        packages.WAKE_WORD,
        "embedding_model.onnx",
        levels("input_1", 76, 32, 1),
        {"batch": 1},
        {"batch": 5},
    ),
    row(
        "wake_silero",
        "voice detector, one chunk, nested If, opset 16",
        packages.WAKE_WORD,
        "silero_vad.onnx",
        voice_stream,
        {"batch": 1, "samples": 512},
        {"batch": 2, "samples": 640},
        {"batch": 3, "samples": 320, "rate": 8000},
    ),
    _wake("alexa", "alexa_v0.1.onnx", "onnx::Flatten_0", 16, "a name"),
    _wake("jarvis", "hey_jarvis_v0.1.onnx", "x.1", 16, "a name, layers of norms"),
    _wake("marvin", "hey_marvin_v0.1.onnx", "onnx::Flatten_0", 16, "a name"),
    _wake("mycroft", "hey_mycroft_v0.1.onnx", "input_1", 16, "a name", 3),
    _wake("timer", "timer_v0.1.onnx", "onnx::Flatten_0", 34, "six phrases"),
    _wake("weather", "weather_v0.1.onnx", "onnx::Flatten_0", 22, "a phrase"),
)

TABLES: tuple[Model, ...] = (
    _surrogate(
        "boosting",
        "gradient_boosting_regressor.onnx",
        "regressor of tables, ai.onnx.ml scaler",
        (2, 10), (0, 0), (1, 20), (10, 200),
    ),
    _surrogate("classifier", "k_neighbors_classifier.onnx", "regressor of tables, ai.onnx.ml scaler", *NEIGHBOURS),
    _surrogate("neighbours", "k_neighbors_regressor.onnx", "regressor of tables, ai.onnx.ml scaler", *NEIGHBOURS),
    _surrogate("forest", "k_neighbors_classifier.validity.onnx", "classifier of tables, ai.onnx.ml trees", *NEIGHBOURS),
)  # fmt: skip
