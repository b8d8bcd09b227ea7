"""Text through onnxruntime-genai, with our execution provider and without: `python -m benchmarks.genai`.

Needs the packages of the extra `llm-models`, which also build the model folders. Both sides choose the likeliest token
each time. In float32 the tokens must be equal; quantised products are rounded differently, so that a near tie may part.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hip_compiler.ort import PROVIDER, connect
from tests.models.fetch import FetchError
from tests.models.genai import model_folder

FOLDERS = ("smollm2-fp32", "smollm2-int4")
PROMPT = "The capital of France is"


@dataclass(frozen=True)
class Generation:
    """Tokens of one run, and seconds: of loading, of the prompt, of each further token."""

    tokens: list[int]
    text: str
    load: float
    prompt: float
    step: float


def generate(genai: Any, folder: Path, length: int, provider: str | None) -> Generation:
    """Greedy text of a model folder; `provider` None: the CPU provider."""
    config = genai.Config(str(folder))
    config.clear_providers()
    if provider is not None:
        config.append_provider(provider)
    start = time.perf_counter()
    model = genai.Model(config)
    loaded = time.perf_counter()
    tokenizer = genai.Tokenizer(model)
    prompt = tokenizer.encode(PROMPT)
    settings = genai.GeneratorParams(model)
    settings.set_search_options(max_length=len(prompt) + length, do_sample=False)
    generator = genai.Generator(model, settings)
    begun = time.perf_counter()
    generator.append_tokens(prompt)
    prompted = time.perf_counter()
    steps = 0
    while not generator.is_done():
        generator.generate_next_token()
        steps += 1
    ended = time.perf_counter()
    tokens = [int(token) for token in generator.get_sequence(0)]
    return Generation(
        tokens, tokenizer.decode(tokens), loaded - start, prompted - begun, (ended - prompted) / max(1, steps)
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.genai", description=__doc__)
    parser.add_argument("keys", nargs="*", metavar="KEY", help=f"model folders (default: {', '.join(FOLDERS)})")
    parser.add_argument("-n", "--length", type=int, default=32, help="tokens to generate (default: 32)")
    arguments = parser.parse_args()
    try:
        import onnxruntime_genai as genai
    except ImportError:
        print("onnxruntime-genai is not installed: pip install '.[llm-models]'", file=sys.stderr)
        return 1
    genai.register_execution_provider_library(PROVIDER, str(connect()))
    failures = 0
    for key in arguments.keys or FOLDERS:
        try:
            folder = model_folder(key)
        except FetchError as error:
            print(f"{key}: {error}", file=sys.stderr)
            failures += 1
            continue
        runs = {name: generate(genai, folder, arguments.length, name) for name in (None, PROVIDER)}
        for name, run in runs.items():
            times = f"load {run.load:6.2f} s  prompt {run.prompt * 1e3:7.1f} ms  {1 / run.step:7.1f} tokens/s"
            print(f"{key:16} {name or 'CPUExecutionProvider':22} {times}  {run.text!r}")
        same = runs[None].tokens == runs[PROVIDER].tokens
        print(f"{key:16} tokens are {'equal' if same else 'not equal'}")
        failures += not same and key.endswith("-fp32")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
