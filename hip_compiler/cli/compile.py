"""``hip-compiler compile``: an ONNX file becomes an artifact."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hip_compiler.cli.options import add_compile_options, compile_options
from hip_compiler.cli.output import add_json, print_json, table
from hip_compiler.errors import ErrorCode, HipCompilerError

HELP = "Compile an ONNX model to an artifact."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, help="ONNX file")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="PATH", help="artifact to make (default: MODEL.hipc, native: MODEL.so)"
    )
    parser.add_argument(
        "--format",
        choices=("bitcode", "native"),
        default="bitcode",
        help="bitcode: a folder that any CPU can load; native: a shared library (default: bitcode)",
    )
    parser.add_argument(
        "--cpu",
        default="native",
        metavar="NAME",
        help="CPU of a native artifact or context: native, this one; or a level, such as x86-64-v3 (default: native)",
    )
    parser.add_argument(
        "--ep-context",
        action="store_true",
        help="make an ONNX model whose compiled parts any program with ONNX Runtime and our provider runs "
        "(default: MODEL_ctx.onnx)",
    )
    parser.add_argument("--embed", action="store_true", help="with --ep-context: one file, not one beside the model")
    parser.add_argument("--strict", action="store_true", help="with --ep-context: every node must be compiled")
    add_compile_options(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.cpu != "native" and arguments.format != "native" and not arguments.ep_context:
        raise HipCompilerError(
            ErrorCode.USAGE,
            f"--cpu {arguments.cpu} is for native artifacts",
            hint="add --format native or --ep-context",
        )
    return _make_context(arguments) if arguments.ep_context else _make_artifact(arguments)


def _make_context(arguments: argparse.Namespace) -> int:
    from hip_compiler.ort import compile_context

    model: Path = arguments.model
    output = arguments.output or model.with_name(f"{model.stem}_ctx.onnx").absolute()
    options = {"target": arguments.target, "opt_level": arguments.opt_level, "strict": int(arguments.strict)}
    options |= {"cpu": arguments.cpu, "arch": ",".join(arguments.arch)}
    if arguments.pass_pipeline:
        options["pipeline"] = arguments.pass_pipeline
    if arguments.plugins is not None:
        options["plugins"] = ",".join(arguments.plugins)
    compile_context(model, output, embed=arguments.embed, **options)
    if arguments.json:
        print_json({"context": output})
    else:
        print(f"wrote {output}")
    return 0


def _make_artifact(arguments: argparse.Namespace) -> int:
    from hip_compiler.cli.progress import Progress
    from hip_compiler.core.driver import compile_model, compile_native
    from hip_compiler.core.pipeline import RunReport

    suffix = ".so" if arguments.format == "native" else ".hipc"
    output = arguments.output or arguments.model.with_suffix(suffix).absolute()
    options = compile_options(arguments)
    with Progress() as progress:
        if arguments.format == "native":
            _, report = compile_native(arguments.model, options, output=output, cpu=arguments.cpu, progress=progress)
        else:
            report = compile_model(arguments.model, options, output=output, progress=progress).report
    if arguments.timing:
        print(RunReport(list(report.passes)).table(), file=sys.stderr)
    if arguments.json:
        print_json(
            {
                "artifact": output,
                "seconds": report.phases,
                "passes": [vars(entry) for entry in report.passes],
                "arena": report.arena,
                "cached": report.cached,
            }
        )
        return 0
    if report.cached:
        print(f"wrote {output} from the compile cache")
        return 0
    print(table(("phase", "seconds"), [(name, f"{seconds:.3f}") for name, seconds in report.phases.items()]))
    print(f"wrote {output}")
    return 0
