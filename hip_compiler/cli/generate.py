"""``hip-compiler generate``: text from a language model's folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hip_compiler.cli.output import add_json, print_json

if TYPE_CHECKING:
    from hip_compiler.generate import Generated, LanguageModel

HELP = "Continue a prompt with a language model (a folder with genai_config.json)."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="MODEL_DIR", help="folder with genai_config.json and a tokenizer")
    parser.add_argument("-p", "--prompt", required=True, metavar="TEXT", help="the prompt; '-' reads standard input")
    parser.add_argument("--chat", action="store_true", help="put the prompt into the folder's chat template")
    parser.add_argument("--system", default="", metavar="TEXT", help="system message; implies --chat")
    parser.add_argument("-n", "--max-new-tokens", type=int, default=256, metavar="N", help="default: 256")
    parser.add_argument(
        "--max-length", type=int, default=0, metavar="N", help="positions, prompt included (default: the model's)"
    )
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before this text; repeatable")
    parser.add_argument("--threads", type=int, default=0, help="threads; 0: one per available core")
    parser.add_argument("--no-cache", action="store_true", help="compile anew, and keep nothing in HIPC_CACHE_DIR")
    group = parser.add_argument_group("choice of tokens (default: as the folder says)")
    group.add_argument("--greedy", action="store_true", help="the most likely token, always")
    group.add_argument("--temperature", type=float, metavar="X", help="above 0: draw tokens at random")
    group.add_argument("--top-k", type=int, metavar="N", help="among the N most likely ones; 0: all")
    group.add_argument("--top-p", type=float, metavar="P", help="among those that make up this much probability")
    group.add_argument("--repetition-penalty", type=float, metavar="X", help="above 1: avoid tokens that were there")
    group.add_argument("--seed", type=int, metavar="N", help="the same seed gives the same text")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from hip_compiler.generate import LanguageModel

    prompt = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    with LanguageModel(arguments.folder, num_threads=arguments.threads, cache=not arguments.no_cache) as model:
        if arguments.chat or arguments.system:
            messages = [{"role": "system", "content": arguments.system}] if arguments.system else []
            prompt = model.tokenizer.chat([*messages, {"role": "user", "content": prompt}])
        settings: dict[str, Any] = {
            "max_new_tokens": arguments.max_new_tokens,
            "max_length": arguments.max_length,
            "stop": arguments.stop,
        }
        for piece in model.stream(prompt, _sampling(model, arguments), **settings):
            if not arguments.json:
                print(piece.text, end="", flush=True)
        assert model.last is not None
        _report(model.last, arguments.json)
    return 0


def _sampling(model: LanguageModel, arguments: argparse.Namespace) -> Any:
    from hip_compiler.generate import Sampling

    temperature = 0.0 if arguments.greedy else arguments.temperature
    return Sampling.from_search(
        model.config.search,
        temperature=temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        repetition_penalty=arguments.repetition_penalty,
        seed=arguments.seed,
    )


def _report(result: Generated, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "text": result.text,
                "tokens": result.tokens,
                "ended_by": result.reason,
                "prompt_tokens": result.prompt_tokens,
                "first_token_seconds": result.prompt_seconds,
                "tokens_per_second": result.tokens_per_second,
            }
        )
        return
    print(flush=True)
    print(
        f"{result.prompt_tokens} + {len(result.tokens)} tokens, first after {result.prompt_seconds * 1e3:.0f} ms, "
        f"then {result.tokens_per_second:.1f} tokens/s; ended by {result.reason}",
        file=sys.stderr,
    )
