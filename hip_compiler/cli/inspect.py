"""``hip-compiler inspect``: what is in an artifact folder."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hip_compiler.cli.output import add_json, print_json, table

HELP = "Show an artifact: its interface, memory, operations and what made it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("artifact", type=Path, help="artifact folder or native artifact")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from hip_compiler.runtime import Artifact, NativeArtifact

    kind = NativeArtifact if arguments.artifact.is_file() else Artifact
    metadata = kind.load(arguments.artifact).metadata
    if arguments.json:
        print_json(json.loads(metadata.to_json()))
        return 0
    constants = metadata.constants.bytes if metadata.constants is not None else 0
    print(f"{metadata.name}, for target {metadata.target}, ABI version {metadata.abi_version}")
    for title, infos in (("inputs", metadata.inputs), ("outputs", metadata.outputs)):
        print(f"\n{title}:", *metadata.values_of(infos), sep="\n  ")
    print(f"\nconstants: {constants:,} bytes")
    for line in _arena(metadata.arena):
        print(line)
    for title, entries in (
        ("operations", metadata.ops),
        ("plugins", metadata.plugins_used),
        ("made by", metadata.toolchain),
    ):
        if entries:
            print(f"\n{title}:")
            print(table(("", ""), [(f"  {name}", value) for name, value in entries.items()]).split("\n", 1)[1])
    if metadata.architectures:
        print(f"\ndevice code: {', '.join(metadata.architectures)}")
    if metadata.libraries:
        print("\nlibraries:", *metadata.libraries, sep="\n  ")
    return 0


def _arena(report: Mapping[str, Any]) -> Iterator[str]:
    """The planned arena of each function: bytes, or bytes per product of extents, beside the least of any plan."""
    for name, plan in report.get("functions", {}).items():
        yield f"\narena of {name}, {plan['buffers']} buffers:"
        static = plan.get("static")
        if static:
            yield f"  {static['peak']:,} bytes (at least {static['bound']:,} are alive at one time)"
        for group in plan.get("dynamic", ()):
            yield f"  {group['peak']:,} x {group['unit']} bytes (at least {group['bound']:,})"
        if plan.get("late"):
            yield f"  {plan['late']} more, whose extents are data"
