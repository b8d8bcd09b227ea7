"""`genai_config.json`: what onnxruntime-genai's folders say of a model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hip_compiler.errors import ErrorCode, HipCompilerError

CONFIG = "genai_config.json"


@dataclass(frozen=True)
class ModelConfig:
    """A decoder of a model folder.

    Attributes:
        graph: the ONNX file.
        kind: name of the architecture.
        context_length: most positions that the model was made for.
        vocabulary: number of tokens.
        end_tokens: tokens that end a text.
        head_size: columns of a head of the caches.
        inputs: names of graph inputs by role: input_ids, attention_mask, position_ids.
        logits: name of the output.
        states: graph input -> graph output that is its next value.
        windows: positions that caches of graph inputs hold, where layers keep the last ones only.
        search: the folder's own settings of how to choose tokens.
    """

    graph: Path
    kind: str
    context_length: int
    vocabulary: int
    end_tokens: frozenset[int]
    head_size: int
    inputs: Mapping[str, str]
    logits: str
    states: Mapping[str, str]
    windows: Mapping[str, int]
    search: Mapping[str, Any]


def read_config(folder: Path) -> ModelConfig:
    """Read the description of a model folder.

    Raises:
        HipCompilerError: `HIPC0103`, when it is missing, incomplete, or of a model that is no decoder of text.
    """
    path = folder / CONFIG
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise refused(f"{folder} is no folder of a language model", why=f"{CONFIG}: {error.strerror}") from error
    except ValueError as error:
        raise refused(f"{path} is not JSON", why=str(error)) from error
    try:
        return _config(folder, document["model"], document.get("search", {}))
    except KeyError as error:
        raise refused(f"{path} says nothing of {error}") from error
    except (TypeError, AttributeError, ValueError) as error:
        raise refused(f"{path} is not understood", why=str(error)) from error


def refused(what: str, *, why: str = "", hint: str = "") -> HipCompilerError:
    """An error about a model folder."""
    return HipCompilerError(ErrorCode.LANGUAGE_MODEL, what, why=why, hint=hint)


def _config(folder: Path, model: Mapping[str, Any], search: Mapping[str, Any]) -> ModelConfig:
    for part in ("vision", "speech", "embedding", "encoder"):
        if part in model:
            raise refused(f"the model in {folder} has a part '{part}'", why="only decoders of text are run here")
    decoder = model["decoder"]
    if "pipeline" in decoder:
        raise refused(f"the decoder in {folder} is a pipeline of several graphs", why="one graph is run here")
    inputs, outputs = decoder["inputs"], decoder["outputs"]
    ends = model["eos_token_id"]
    return ModelConfig(
        graph=folder / decoder["filename"],
        kind=str(model.get("type", "")),
        context_length=int(model["context_length"]),
        vocabulary=int(model["vocab_size"]),
        end_tokens=frozenset(int(token) for token in (ends if isinstance(ends, list) else [ends])),
        head_size=int(decoder["head_size"]),
        inputs={role: name for role, name in inputs.items() if not role.startswith("past_")},
        logits=outputs["logits"],
        states=_states(inputs, outputs, int(decoder["num_hidden_layers"])),
        windows=_windows(decoder.get("sliding_window"), inputs),
        search=dict(search),
    )


def _states(inputs: Mapping[str, str], outputs: Mapping[str, str], layers: int) -> dict[str, str]:
    """Pairs of names that patterns such as `past_key_values.%d.key` stand for, over all layers."""
    found = {}
    for role, pattern in inputs.items():
        if not role.startswith("past_"):
            continue
        partner = outputs[role.replace("past_", "present_", 1)]
        for layer in range(layers):
            found[_numbered(pattern, layer)] = _numbered(partner, layer)
    return found


def _windows(settings: Mapping[str, Any] | None, inputs: Mapping[str, str]) -> dict[str, int]:
    if not settings or "layers" not in settings:
        return {}
    size = int(settings["window_size"]) + int(settings.get("cache_slack", 0))
    patterns = [inputs[role] for role in ("past_key_names", "past_value_names") if role in inputs]
    return {_numbered(pattern, int(layer)): size for pattern in patterns for layer in settings["layers"]}


def _numbered(pattern: str, layer: int) -> str:
    return re.sub(r"%d", str(layer), pattern)
