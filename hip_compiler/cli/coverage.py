"""``hip-compiler coverage``: the ONNX operators that can be compiled, from the table of converters itself."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from hip_compiler.cli.output import add_json, print_json, table
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.names import nearest

HELP = "List the ONNX operators that can be compiled, in which element types, how and within which limits."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="only operators whose name contains this text")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from hip_compiler.core.coverage import coverage, refused

    wanted = (arguments.name or "").lower()
    every = coverage()
    rows = [row for row in every if wanted in row.operator.lower()]
    left_out = [entry for entry in refused() if wanted in entry[1].lower()]
    if not rows and not left_out:
        raise HipCompilerError(
            ErrorCode.USAGE,
            f"no operator has {arguments.name!r} in its name",
            hint=nearest(arguments.name, {row.operator for row in every}),
        )
    if arguments.json:
        print_json([asdict(row) | {"domain": row.domain or "ai.onnx"} for row in rows])
        return 0
    cells = [
        (row.operator, row.domain or "ai.onnx", row.since, row.until or "", row.dtype_words, row.how, row.limits)
        for row in rows
    ]
    print(table(("operator", "domain", "since", "until", "first input", "how", "limits"), cells))
    for domain, operator, reason in left_out:
        print(f"\n{f'{domain}::' if domain else ''}{operator} is not compiled: {reason}", end="")
    print()
    return 0
