"""``hip-compiler bench-llm``: how fast a language model is here, and how fast it could be."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from hip_compiler.cli.output import add_json, print_json, table

HELP = "Time a language model: to the first token, and tokens a second after it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="MODEL_DIR", help="folder with genai_config.json")
    parser.add_argument(
        "--prompts",
        type=int,
        nargs="+",
        default=[16, 128, 512, 2048],
        metavar="N",
        help="lengths of prompts, in tokens",
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[0], metavar="N", help="thread counts; 0: all cores")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="turns of each engine (default: 3)")
    parser.add_argument("--only", action="store_true", help="do not run onnxruntime and onnxruntime-genai beside")
    parser.add_argument("--no-cache", action="store_true", help="compile anew, and keep nothing in HIPC_CACHE_DIR")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from hip_compiler.generate.bench import Figure, bounds, measure
    from hip_compiler.generate.config import read_config
    from hip_compiler.generate.engines import Engine, Ours, peers

    config = read_config(arguments.folder)
    prompts = [length for length in arguments.prompts if length < config.context_length]
    record = []
    for given in arguments.threads:
        threads = given or len(os.sched_getaffinity(0))
        ours: Engine = Ours(arguments.folder, threads, not arguments.no_cache)
        engines = [ours, *([] if arguments.only else peers(arguments.folder, threads))]
        figures = measure(engines, prompts, config.vocabulary, arguments.rounds)
        limit = bounds(config, threads)
        record.append({"threads": threads, "bounds": asdict(limit), "figures": [asdict(figure) for figure in figures]})
        if arguments.json:
            continue
        rows = []
        for prompt in prompts:
            of_prompt = [figure for figure in figures if figure.prompt == prompt]
            bound = Figure("bound of this machine", prompt, limit.first_ms(prompt), limit.tokens_per_second)
            rows += [_row(figure, of_prompt[0]) for figure in (*of_prompt, bound)]
        print(table(("prompt", "engine", "first token ms", "of ours", "tokens/s", "of ours"), rows))
        print(
            f"{threads} thread{'s' if threads > 1 else ''}; {limit.weight_bytes / 1e6:.1f} MB of weights a token; "
            f"memory {limit.bandwidth / 1e9:.1f} GB/s, float32 products {limit.float32 / 1e9:.0f} GFLOP/s\n"
        )
    if arguments.json:
        print_json(record)
    return 0


def _row(figure: object, ours: object) -> tuple[str, ...]:
    from hip_compiler.generate.bench import Figure

    assert isinstance(figure, Figure) and isinstance(ours, Figure)
    return (
        str(figure.prompt),
        figure.engine,
        f"{figure.first_ms:.1f}",
        f"{figure.first_ms / ours.first_ms:.2f}x",
        f"{figure.tokens_per_second:.1f}",
        f"{figure.tokens_per_second / ours.tokens_per_second:.2f}x",
    )
