"""``hip-compiler opt``: run passes on a text file of IR, as mlir-opt does."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hip_compiler.cli.options import add_watching_options
from hip_compiler.cli.output import add_plugins
from hip_compiler.errors import ErrorCode, HipCompilerError

HELP = "Run any pass or pipeline on a file of MLIR text."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", default="-", help="file of IR; '-' (default): standard input")
    parser.add_argument(
        "-p",
        "--pass-pipeline",
        default="",
        metavar="TEXT",
        help="for example 'func.func(canonicalize),hip-pool-allocs'",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to write; default: standard output")
    parser.add_argument("--target", default="host", metavar="NAME", help="compilation target (default: host)")
    parser.add_argument(
        "--split-input-file", action="store_true", help="treat parts between '// -----' lines separately"
    )
    parser.add_argument("--locations", action="store_true", help="print locations, which carry the ONNX node names")
    parser.add_argument("--generic", action="store_true", help="print every operation in its generic form")
    add_plugins(parser)
    add_watching_options(parser)


def execute(arguments: argparse.Namespace) -> int:
    from hip_compiler.core.opt import optimize
    from hip_compiler.core.options import CompileOptions
    from hip_compiler.registry.registry import load_registry

    name = "<stdin>" if arguments.file == "-" else arguments.file
    try:
        text = sys.stdin.read() if arguments.file == "-" else Path(arguments.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HipCompilerError(ErrorCode.USAGE, f"cannot read {name}", why=str(error)) from error
    options = CompileOptions(
        target=arguments.target,
        plugins=arguments.plugins,
        print_ir_after=tuple(arguments.print_ir_after),
        timing=arguments.timing,
        dump_dir=arguments.dump_dir,
        verify_each=not arguments.no_verify_each,
    )
    registry = load_registry(arguments.plugins)
    parts = text.split("\n// -----\n") if arguments.split_input_file else [text]
    printed = []
    for part in parts:
        result = optimize(part, name, arguments.pass_pipeline, options, registry)
        printed.append(result.text(locations=arguments.locations, generic=arguments.generic))
        if arguments.timing:
            print(result.report.table(), file=sys.stderr)
    joined = "\n// -----\n".join(printed)
    if arguments.output is None:
        print(joined)
    else:
        arguments.output.write_text(f"{joined}\n", encoding="utf-8")
    return 0
