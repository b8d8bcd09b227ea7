"""The graphs of onnxruntime-genai's builder themselves: a prompt of 128 and 32 tokens, against ONNX Runtime.

They take minutes to build and packages that the other tests do without: `make llm-models` builds them,
`make llm-test` runs these tests.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import hip_compiler
from hip_compiler.generate.config import read_config
from tests.llm import drive
from tests.llm.test_decoder_graphs import without_levels
from tests.models.genai import RECIPES, built_folder

pytestmark = pytest.mark.llm

PROMPT, STEPS = 128, 32
KEYS = [key for key in RECIPES if key.startswith("tiny-")]


def logits(run: drive.Run, folder: Path, model: onnx.ModelProto) -> list[np.ndarray]:
    config = read_config(folder)
    tokens = np.random.default_rng(2).integers(3, config.vocabulary, (1, PROMPT + STEPS))
    names = drive.state_names([entry.name for entry in model.graph.input], [entry.name for entry in model.graph.output])
    states = drive.empty_states(model, config.head_size, window=max(config.windows.values(), default=0))
    return [row.astype(np.float64) for row in drive.steps(run, states, names, tokens, PROMPT)]


def rms(a: list[np.ndarray], b: list[np.ndarray]) -> np.ndarray:
    return np.array([np.sqrt(np.mean((x - y) ** 2)) for x, y in zip(a, b, strict=True)])


@pytest.mark.parametrize("through", ["session", "provider"])
@pytest.mark.parametrize("key", KEYS)
def test_logits_equal_onnx_runtime(key: str, through: str) -> None:
    folder = built_folder(key)
    if folder is None:
        pytest.skip(f"the graph {key} is not built: make llm-models")
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    if through == "provider":
        ours = logits(drive.provider(folder / "model.onnx"), folder, model)
    else:
        with hip_compiler.compile(folder / "model.onnx") as session:
            ours = logits(session.run, folder, model)
    theirs = logits(drive.onnx_runtime(folder / "model.onnx"), folder, model)
    scale = max(np.abs(row).max() for row in theirs)
    assert scale > 1
    if key.endswith("qdq"):
        # ONNX Runtime fuses these and rounds activations; we compute them exactly.
        error = rms(ours, theirs).max()
        assert 1e-4 * scale < error < 0.02 * scale
    elif RECIPES[key].options.get("accuracy_level") == "4":
        with hip_compiler.compile(without_levels(onnx.load(folder / "model.onnx"))) as session:
            exact = logits(session.run, folder, model)
        assert rms(ours, exact).max() < 1.3 * rms(theirs, exact).max()
        assert rms(ours, theirs).max() < 2 * rms(theirs, exact).max()
    else:
        tolerance = 4e-3 if RECIPES[key].precision == "fp16" else 1e-5
        assert max(np.abs(a - b).max() for a, b in zip(ours, theirs, strict=True)) < tolerance * scale
