"""``hip-compiler slots``: what runs where, and who asked for it."""

from __future__ import annotations

import argparse
from typing import Any

from hip_compiler.cli.output import add_json, add_plugins, print_json

HELP = "Show the seven slots of the built-in pipeline and what runs at each."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_plugins(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from hip_compiler.registry.registry import load_registry
    from hip_compiler.slots import MEANINGS, PipelineSlot

    registry = load_registry(arguments.plugins)
    slots: list[dict[str, Any]] = [
        {
            "slot": str(slot),
            "ir": MEANINGS[slot],
            "requests": [
                {"pipeline": request.pipeline, "plugin": str(registry.owner(request))}
                for request in registry.slot_requests
                if request.slot == slot
            ],
        }
        for slot in PipelineSlot
    ]
    if arguments.json:
        print_json(slots)
        return 0
    for number, entry in enumerate(slots):
        print(f"{number} {entry['slot']}: {entry['ir']}")
        for request in entry["requests"]:
            print(f"    {request['pipeline']}  ({request['plugin']})")
    return 0
