"""Decoder graphs as onnxruntime-genai's model builder writes them: `python -m tests.models.genai [KEY ...]`.

Folders are made once, below the cache folder; needs the packages of the extra `llm-models`.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.models.checkpoints import CHECKPOINTS
from tests.models.fetch import FetchError, cache_folder

VERSION, CHECKPOINT_VERSION = "1", "2"
"""Parts of the folders' names: another recipe, or maker of checkpoints, makes other folders."""


@dataclass(frozen=True)
class Recipe:
    """One graph: a checkpoint, and what the builder is asked for."""

    checkpoint: str
    precision: str
    options: Mapping[str, str] = field(default_factory=dict)
    provider: str = "cpu"


ASYMMETRIC = {"is_symmetric": "false"}
VARIANTS: Mapping[str, Recipe] = {
    "fp32": Recipe("", "fp32"),
    # The builder writes float16 graphs for GPUs only; they run on CPUs too.
    "fp16": Recipe("", "fp16", provider="cuda"),
    "int4": Recipe("", "int4", {"accuracy_level": "4"}),
    "int4-level1": Recipe("", "int4", {"accuracy_level": "1"}),
    # With zero points the builder's tied embedding table is not valid ONNX: ONNX Runtime refuses it, too.
    "int4-asym": Recipe("", "int4", {"accuracy_level": "4", "shared_embeddings": "false", **ASYMMETRIC}),
    "int4-block128": Recipe("", "int4", {"accuracy_level": "4", "block_size": "128"}),
    # A tied table of few bits has no form with DequantizeLinear: the builder refuses it.
    "int4-qdq": Recipe("", "int4", {"use_qdq": "true", "shared_embeddings": "false"}),
    "int8": Recipe("", "int8", {"accuracy_level": "4"}),
    "int4-shared": Recipe("", "int4", {"accuracy_level": "4", "shared_embeddings": "true"}),
    # Caches of few bits, with the scales that _scales writes.
    "fp32-kv8": Recipe("", "fp32", {"kv_cache_quant_scheme": "int8_per_channel"}),
    "fp32-kv8-tensor": Recipe("", "fp32", {"kv_cache_quant_scheme": "int8_per_tensor"}),
    "fp32-kv4": Recipe("", "fp32", {"kv_cache_quant_scheme": "int4_per_channel"}),
    "int4-kv8": Recipe("", "int4", {"accuracy_level": "4", "kv_cache_quant_scheme": "int8_per_channel"}),
}
FAMILY = {"fp32", "fp16", "int4", "int4-asym", "int4-qdq", "int8"}
CACHES = {name for name in VARIANTS if "-kv" in name}


def _recipes() -> dict[str, Recipe]:
    wanted = {
        "tiny-llama": FAMILY | CACHES | {"int4-level1", "int4-block128"},
        "tiny-qwen3": FAMILY,
        "tiny-qwen3-tied": {"fp32", "int4-shared"},
        "tiny-phi3": FAMILY,
        "tiny-gemma3": FAMILY | {"int4-shared"},
        "tiny-gptoss": FAMILY,
        "tiny-lfm2": FAMILY,
        "mid-llama": {"fp32", "int4"},
        "smollm2": {"fp32", "fp16", "int4", "int4-asym", "int4-shared", "int8"},
    }
    return {
        f"{checkpoint}-{name}": Recipe(checkpoint, recipe.precision, recipe.options, recipe.provider)
        for checkpoint, names in wanted.items()
        for name, recipe in VARIANTS.items()
        if name in names
    }


RECIPES = _recipes()


def built_folder(key: str) -> Path | None:
    """Folder of a recipe's graph, if it is there."""
    folder = cache_folder() / "genai" / VERSION / key
    return folder if (folder / "genai_config.json").is_file() else None


def model_folder(key: str) -> Path:
    """Folder of a recipe's graph, genai_config.json and tokenizer, made on the first call.

    Raises:
        FetchError: when it cannot be made; the text says why.
    """
    recipe = RECIPES[key]
    folder = cache_folder() / "genai" / VERSION / key
    if not (folder / "genai_config.json").is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / f".{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "genai_config.json").is_file():
                _build(recipe, folder)
    return folder


def _checkpoint(name: str) -> Path:
    folder = cache_folder() / "checkpoints" / CHECKPOINT_VERSION / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as work:
                made = Path(work) / name
                try:
                    CHECKPOINTS[name](made)
                except ImportError as error:
                    raise FetchError(f"{error.name} is not installed: pip install '.[llm-models]'") from error
                made.rename(folder)
    return folder


def _scales(checkpoint: Path, scheme: str, folder: Path) -> Path:
    """Scales for caches: heads of the random checkpoints are normally distributed, and what is past 4 is cut off."""
    config = json.loads((checkpoint / "config.json").read_text())
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    count = config["num_key_value_heads"] * size if scheme.endswith("per_channel") else 1
    draw, top = random.Random(0), 7 if scheme.startswith("int4") else 127
    layers = range(config["num_hidden_layers"])
    scales = {
        f"{kind}_scales": [[draw.uniform(3, 5) / top for _ in range(count)] for _ in layers] for kind in ("k", "v")
    }
    file = folder / "scales.json"
    file.write_text(json.dumps({"scales": scales}))
    return file


def _build(recipe: Recipe, folder: Path) -> None:
    checkpoint = _checkpoint(recipe.checkpoint)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        made = Path(work) / folder.name
        command = [sys.executable, "-m", "tests.models.run_builder"]
        command += ["-i", str(checkpoint), "-o", str(made), "-p", recipe.precision, "-e", recipe.provider]
        command += ["-c", str(Path(work) / "cache")]
        options = dict(recipe.options)
        if "kv_cache_quant_scheme" in options:
            options["kv_cache_scale_file"] = str(_scales(checkpoint, options["kv_cache_quant_scheme"], Path(work)))
        if options:
            command += ["--extra_options", *(f"{name}={value}" for name, value in options.items())]
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        done = subprocess.run(
            ["env", *(f"{name}={value}" for name, value in offline.items()), *command],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["it said nothing"]
            raise FetchError(f"the model builder failed: {lines[-1]}")
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(made, folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.models.genai", description=__doc__)
    parser.add_argument("keys", nargs="*", metavar="KEY", help=f"graphs to build; none: all ({', '.join(RECIPES)})")
    failures = 0
    for key in parser.parse_args().keys or RECIPES:
        if key not in RECIPES:
            parser.error(f"no graph {key!r}; there are: {', '.join(RECIPES)}")
        try:
            folder = model_folder(key)
        except FetchError as error:
            print(f"{key:24} {error}", file=sys.stderr, flush=True)
            failures += 1
            continue
        size = sum(file.stat().st_size for file in folder.glob("model.onnx*")) / 1e6
        print(f"{key:24} {size:7.1f} MB  {folder}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
