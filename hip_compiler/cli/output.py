"""What subcommands print: tables for people, JSON for programs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def add_plugins(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plugins",
        metavar="IDS",
        type=plugin_list,
        help="plugins to use, in order, separated by ';' or ','; '' for none (default: HIPDNN_EP_COMPILER_PLUGINS, "
        "else every installed one)",
    )


def plugin_list(text: str) -> tuple[str, ...]:
    """Plugin ids of an option's value."""
    return tuple(word.strip() for word in text.replace(";", ",").split(",") if word.strip())


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=2, default=str)
    print()


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Aligned columns; the last one is as wide as it is."""
    lines = [[str(cell) for cell in row] for row in rows]
    if not lines:
        return ""
    widths = [max(len(row[column]) for row in [list(header), *lines]) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [list(header), *lines]
    )
