"""``hip-compiler plugins``: which plugins there are, and what became of each."""

from __future__ import annotations

import argparse
import sys

from hip_compiler.cli.output import add_json, add_plugins, print_json, table

HELP = "List installed plugins: what they contribute, and why one was refused."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_plugins(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from hip_compiler.registry.records import describe
    from hip_compiler.registry.registry import survey

    registry = survey(arguments.plugins)
    plugins = [record for record in registry.plugins if not record.builtin]
    if arguments.json:
        print_json(
            [
                {
                    "id": record.id,
                    "distribution": record.distribution,
                    "version": record.version,
                    "api": record.api,
                    "state": record.state,
                    "reason": record.reason,
                    "contributions": [describe(contribution) for contribution in record.contributions],
                }
                for record in plugins
            ]
        )
    else:
        columns = ("plugin", "distribution", "version", "api", "state")
        print(
            table(columns, [(r.id, r.distribution, r.version, r.api or "-", r.state) for r in plugins])
            or "no plugins are installed"
        )
        for record in plugins:
            lines = [record.reason] if record.reason else [describe(item) for item in record.contributions]
            if lines:
                print(f"\n{record.id}:", *lines, sep="\n  ")
    for problem in registry.problems:
        print(problem, file=sys.stderr)
    return 1 if registry.problems else 0
