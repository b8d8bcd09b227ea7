"""Options that `compile`, `run` and `opt` share, and the `CompileOptions` they make."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hip_compiler.cli.output import add_plugins

if TYPE_CHECKING:
    from hip_compiler.core.options import CompileOptions


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="host", metavar="NAME", help="compilation target (default: host)")
    parser.add_argument(
        "--arch",
        type=lambda text: tuple(word.strip() for word in text.split(",") if word.strip()),
        default=(),
        metavar="LIST",
        help="GPU architectures to generate code for, with commas: gfx1151,gfx942 (default: every family)",
    )
    parser.add_argument("-O", "--opt-level", type=int, choices=range(4), default=3, help="LLVM optimisation level")
    parser.add_argument("--pass-pipeline", default="", metavar="TEXT", help="pipeline instead of the built-in one")
    parser.add_argument("--cache", action="store_true", help="use the compile cache in HIPC_CACHE_DIR")
    add_plugins(parser)
    add_watching_options(parser)


def add_watching_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("watching the passes")
    group.add_argument(
        "--print-ir-after",
        action="append",
        default=[],
        metavar="PASS",
        help="print the IR after a pass, to standard error; '*' for every pass; repeatable",
    )
    group.add_argument("--timing", action="store_true", help="print seconds per pass, to standard error")
    group.add_argument("--dump-dir", type=Path, metavar="DIR", help="write the IR after every pass into a folder")
    group.add_argument("--no-verify-each", action="store_true", help="do not verify the IR after every pass")


def compile_options(arguments: argparse.Namespace) -> CompileOptions:
    """The options of the compiler that the arguments mean."""
    from hip_compiler.core.options import CompileOptions

    return CompileOptions(
        target=arguments.target,
        arch=arguments.arch,
        pipeline=arguments.pass_pipeline,
        plugins=arguments.plugins,
        opt_level=arguments.opt_level,
        print_ir_after=tuple(arguments.print_ir_after),
        timing=arguments.timing,
        dump_dir=arguments.dump_dir,
        verify_each=not arguments.no_verify_each,
        cache=arguments.cache,
    )
