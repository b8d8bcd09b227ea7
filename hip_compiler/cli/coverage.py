"""``hip-compiler coverage``: the ONNX operators that can be compiled, from the table of converters itself."""

from __future__ import annotations

import argparse
from typing import Any

from hip_compiler.cli.output import add_json, print_json, table

HELP = "List the ONNX operators that can be compiled, and how each is lowered."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="only operators whose name contains this text")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from hip_compiler.core.conversion import ops as _fill  # noqa: F401  importing it fills the table
    from hip_compiler.core.conversion.onnx_op import CONVERTERS

    rows: list[dict[str, Any]] = [
        {
            "operator": entry.op,
            "domain": entry.domain or "ai.onnx",
            "since": entry.since,
            "until": entry.until,
            "how": entry.how,
        }
        for _, entries in sorted(CONVERTERS.items())
        for entry in entries
        if entry.domain != "hip" and (arguments.name or "").lower() in entry.op.lower()
    ]
    if arguments.json:
        print_json(rows)
        return 0
    cells = [tuple("" if value is None else value for value in row.values()) for row in rows]
    print(table(("operator", "domain", "since", "until", "how"), cells))
    print("\nOperators that ONNX defines by a function of these can be compiled, too.")
    return 0
