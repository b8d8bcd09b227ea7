"""``hip-compiler passes``: what a pipeline can name."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from hip_compiler.cli.output import add_json, add_plugins, print_json, table
from hip_compiler.errors import ErrorCode, HipCompilerError

if TYPE_CHECKING:
    from hip_compiler.registry.registry import Registry

HELP = "List passes and pipelines; with a name, its options."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="a pass to describe")
    add_plugins(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from hip_compiler.registry.registry import load_registry

    registry = load_registry(arguments.plugins)
    if arguments.name is not None:
        return _describe(arguments.name, registry, arguments.json)
    rows: list[dict[str, Any]] = [
        {"name": entry.name, "anchor": entry.anchor, "from": registry.owner(entry).id, "summary": entry.summary}
        for entry in registry.passes.values()
    ]
    rows += [
        {"name": pipeline.name, "anchor": "pipeline", "from": registry.owner(pipeline).id, "summary": pipeline.summary}
        for pipeline in registry.pipelines.values()
    ]
    if arguments.json:
        print_json(rows)
        return 0
    print(table(("name", "anchor", "from", "summary"), [tuple(row.values()) for row in rows]))
    print("\nPasses of MLIR can be named too, for example canonicalize and cse.")
    return 0


def _describe(name: str, registry: Registry, as_json: bool) -> int:
    from hip_compiler.registry.names import listing, nearest

    if name not in registry.passes:
        raise HipCompilerError(
            ErrorCode.UNKNOWN_PASS,
            f"nothing registers a pass '{name}'",
            why=f"passes: {listing(registry.passes)}",
            hint=nearest(name, registry.passes),
        )
    from hip_compiler.core.pipeline.options import describe_options

    entry = registry.passes[name]
    options = describe_options(entry)
    if as_json:
        print_json({"name": name, "anchor": entry.anchor, "summary": entry.summary, "options": options})
        return 0
    print(f"{name}: {entry.summary}\nRuns on {entry.anchor}; from {registry.owner(entry)}.")
    if options:
        print(table(("option", "type", "default"), [tuple(option.values()) for option in options]))
    return 0
