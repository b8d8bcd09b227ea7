"""``hip-compiler pipeline``: a named pipeline, pass by pass."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hip_compiler.cli.output import add_json, add_plugins, print_json

if TYPE_CHECKING:
    from hip_compiler.core.pipeline.plan import PlannedPass

HELP = "Show the passes of a pipeline; --print gives text that HIPDNN_EP_PIPELINE takes."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "text", nargs="?", default="", help="named pipeline or pipeline text (default: the built-in one)"
    )
    parser.add_argument(
        "--print", action="store_true", dest="as_text", help="print pipeline text, with slot:NAME elements"
    )
    parser.add_argument(
        "--expand", action="store_true", help="with --print: print what runs at slots instead of slot:NAME"
    )
    add_plugins(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from hip_compiler.core.dialects.load import make_context
    from hip_compiler.core.options import CompileOptions
    from hip_compiler.core.pipeline import plan_text, spell
    from hip_compiler.registry.registry import load_registry
    from hip_compiler.slots.builtin import DEFAULT

    registry = load_registry(arguments.plugins)
    options = CompileOptions(plugins=arguments.plugins)
    text = arguments.text or DEFAULT
    plan = plan_text(registry, options, make_context(registry), text, "the argument")
    foreign = [planned for planned in plan.passes if planned.requested_by or not _ours(planned)]
    if arguments.as_text:
        print(plan.text if arguments.expand else spell(registry, options, text))
        # Remarks are a part of the text: what is printed can be given back whole.
        for planned in foreign:
            print(f"# + {planned}: {planned.requested_by or f'of {planned.owner}'}")
        return 0
    rows = [
        {
            "pass": str(planned),
            "from": "MLIR" if planned.owner is None else planned.owner.id,
            "requested by": planned.requested_by,
        }
        for planned in plan.passes
    ]
    if arguments.json:
        print_json(rows)
        return 0
    # Marked with '+': what is of plugins, or runs because they asked for it. The pass comes last: it may be long.
    for planned, row in zip(plan.passes, rows, strict=True):
        mark = "+" if planned in foreign else " "
        print(f"{row['from']:<12} {mark} {planned}" + (f"  ({planned.requested_by})" if planned.requested_by else ""))
    return 0


def _ours(planned: PlannedPass) -> bool:
    """Whether a pass is MLIR's or built in."""
    return planned.owner is None or planned.owner.builtin
