"""``hip-compiler bench-llm``: how fast language models are here, and how fast they could be."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hip_compiler.cli.output import add_json, print_json, table
from hip_compiler.errors import ErrorCode, HipCompilerError

if TYPE_CHECKING:
    from hip_compiler.generate.bench import Figure, Measured
    from hip_compiler.generate.bounds import Bounds

HELP = "Time language models: to the first token, and tokens a second after it."
BUSY = 0.05
"""Share of waiting above which figures of several threads say more about other processes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", type=Path, nargs="+", metavar="MODEL_DIR", help="folder with genai_config.json")
    parser.add_argument(
        "--prompts",
        type=int,
        nargs="+",
        default=[16, 128, 512, 2048],
        metavar="N",
        help="lengths of prompts, in tokens",
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[0], metavar="N", help="thread counts; 0: all cores")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="most turns of each engine (default: 5)")
    parser.add_argument(
        "--seconds", type=float, default=30, metavar="S", help="no turn of a prompt's length begins later (default: 30)"
    )
    parser.add_argument(
        "--beside",
        nargs="*",
        default=["onnxruntime-genai", "onnxruntime"],
        metavar="ENGINE",
        help="engines that run beside where they are installed: onnxruntime-genai, onnxruntime (default: both)",
    )
    parser.add_argument("--no-cache", action="store_true", help="compile anew, and keep nothing in HIPC_CACHE_DIR")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from hip_compiler.generate.bench import DECODED, measure
    from hip_compiler.generate.bounds import bounds
    from hip_compiler.generate.config import read_config
    from hip_compiler.generate.engines import engines

    for name in ("rounds", "seconds"):
        if not getattr(arguments, name) > 0:
            raise HipCompilerError(ErrorCode.USAGE, f"--{name} {getattr(arguments, name)} leaves nothing to measure")
    record = []
    for folder in arguments.folders:
        config = read_config(folder)
        prompts = [length for length in arguments.prompts if length + DECODED <= config.context_length]
        for length in sorted(set(arguments.prompts) - set(prompts)):
            print(
                f"{folder.name}: no prompt of {length}: it and {DECODED} tokens are more than the "
                f"{config.context_length} positions of the model",
                file=sys.stderr,
            )
        for given in arguments.threads:
            threads = given or len(os.sched_getaffinity(0))
            with engines(folder, threads, arguments.beside, cache=not arguments.no_cache) as running:
                measured = measure(
                    running,
                    prompts,
                    config.vocabulary,
                    threads=threads,
                    rounds=arguments.rounds,
                    seconds=arguments.seconds,
                )
            limit = bounds(config, threads)
            record.append(
                {
                    "model": folder.name,
                    "threads": threads,
                    "bounds": asdict(limit),
                    "figures": [asdict(figure) for figure in measured.figures],
                    "waiting": measured.waiting,
                }
            )
            if not arguments.json:
                print(_report(folder.name, threads, prompts, measured, limit), flush=True)
    if arguments.json:
        print_json(record)
    return 0


def _report(model: str, threads: int, prompts: list[int], measured: Measured, limit: Bounds) -> str:
    from hip_compiler.generate.bench import Figure

    rows = []
    for prompt in prompts:
        of_prompt = [figure for figure in measured.figures if figure.prompt == prompt]
        bound = Figure("bound of this machine", prompt, limit.first_ms(prompt), limit.tokens_per_second)
        rows += [(model, threads, *_row(figure, of_prompt[0])) for figure in (*of_prompt, bound)]
    header: tuple[Any, ...] = ("model", "threads", "prompt", "engine", "first token ms", "we are", "tokens/s", "we are")
    lines = [
        table(header, rows),
        f"{limit.work.weight_bytes / 1e6:.1f} MB of weights a token; memory {limit.bandwidth / 1e9:.1f} GB/s, products "
        f"of float32 {limit.float32 / 1e9:.0f} GFLOP/s, of integers {limit.integers / 1e9:.0f} GOP/s; threads without "
        f"a core {measured.waiting:.0%} of the time",
    ]
    if measured.waiting > BUSY and threads > 1:
        lines.append("the machine is busy with something else: figures of several threads say little now")
    return "\n".join(lines) + "\n"


def _row(figure: Figure, ours: Figure) -> tuple[str, ...]:
    """How many times as fast as this one we are stands beside each number."""
    return (
        str(figure.prompt),
        figure.engine,
        f"{figure.first_ms:.1f}",
        f"{figure.first_ms / ours.first_ms:.2f}x",
        f"{figure.tokens_per_second:.1f}",
        f"{ours.tokens_per_second / figure.tokens_per_second:.2f}x",
    )
