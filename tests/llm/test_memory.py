"""What a loaded model takes: packed weights, caches and arena, and little else; in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import hip_compiler
from hip_compiler.generate import read_config
from tests.models.decoders import PRECISIONS, SHAPES, Shape, write_folder
from tests.models.genai import built_folder

SHARE = 1.15
ROLLUP = Path("/proc/self/smaps_rollup")
RUN = """
import json, sys
from pathlib import Path
import hip_compiler
from hip_compiler.generate import Decoder, read_config

def resident():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))

def start(artifact, folder, prompt):
    session = hip_compiler.load(artifact, num_threads=1)
    decoder = Decoder(session, read_config(Path(folder)), prompt + 32)
    decoder.run(range(3, 3 + prompt))
    for token in range(16):
        decoder.run([3 + token])
    return session, decoder

if __name__ == "__main__":
    prompt, artifact, folder, *first = sys.argv[1:]
    kept = start(*first, 8) if first else None
    before = resident()
    session, decoder = start(artifact, folder, int(prompt))
    grown = resident() - before
    print(json.dumps({
        "grown": grown,
        "weights": session.metadata.constants.bytes,
        "caches": decoder.cache_bytes,
        "arena": session.arena_bytes,
    }))
"""


def grown(prompt: int, artifact: Path, folder: Path, *first: Path) -> dict[str, int]:
    """Bytes that a process grows by when it loads and runs a model, and the parts they should be.

    `first`: an artifact and its folder that are loaded before, so that what models of a process share is there.
    """
    if not ROLLUP.is_file():
        pytest.skip(f"{ROLLUP} is missing: only Linux tells what a process has in memory")
    command = [sys.executable, "-c", RUN, str(prompt), *map(str, (artifact, folder, *first))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def check(found: dict[str, int], weights: int) -> None:
    limit = SHARE * found["weights"] + found["caches"] + found["arena"]
    print(f"{found}: {found['grown'] / limit:.3f} of the limit")
    assert found["weights"] > weights and min(found.values()) > 0
    assert found["grown"] < limit
    # What is measured is the model: its weights have been read.
    assert found["grown"] > 0.9 * (found["weights"] + found["caches"])


def save(folder: Path, artifact: Path) -> None:
    config = read_config(folder)
    with hip_compiler.compile(config.graph, last_position=config.logits) as session:
        session.save(artifact)


def test_a_loaded_model_takes_its_weights_and_little_else(tmp_path: Path) -> None:
    """Of 4 bits. Weights stay in the file that they are mapped from, in the layout that the kernels read."""
    shapes = {
        "small": SHAPES["llama"],
        "large": Shape(
            ("attention",) * 4, hidden=768, heads=12, kv_heads=4, size=64, middle=2048, vocabulary=16000, shared=True
        ),
    }
    for name, shape in shapes.items():
        write_folder(tmp_path / name, shape, PRECISIONS["int4"])
        save(tmp_path / name, tmp_path / f"{name}.hipc")
    small, large = ((tmp_path / f"{name}.hipc", tmp_path / name) for name in shapes)
    check(grown(64, *large, *small), 20_000_000)


@pytest.mark.llm
def test_smollm2_takes_its_weights_and_little_else(tmp_path: Path) -> None:
    """Code and everything that models of a process would share included."""
    folder = built_folder("smollm2-int4")
    if folder is None:
        pytest.skip("the graph smollm2-int4 is not built: make llm-models")
    save(folder, tmp_path / "model.hipc")
    check(grown(128, tmp_path / "model.hipc", folder), 80_000_000)
