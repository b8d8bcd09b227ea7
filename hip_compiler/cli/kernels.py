"""``hip-compiler kernels``: the library's kernels for GPUs, and building one's own the same way."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from hip_compiler.cli.output import add_json, print_json, table

HELP = "List, build and inspect kernels for GPUs."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True)
    listing = actions.add_parser("list", help="architectures of a pack, and the kernels in it")
    report = actions.add_parser("report", help="registers, LDS, scratch, spills and occupancy of every kernel")
    for action in (listing, report):
        action.add_argument("--pack", type=Path, help="pack of kernels (default: the library's own)")
        action.add_argument("--arch", help="only these architectures, separated by commas")
        add_json(action)
    report.add_argument("--budget", type=Path, help="JSON of what kernels may spill; more is an error")
    build = actions.add_parser("build", help="build HIP sources to a pack, as a plugin's build does")
    build.add_argument("sources", type=Path, nargs="+", help="HIP sources; they include hipc_device.h")
    build.add_argument("--out", type=Path, required=True, help="the pack to write")
    build.add_argument("--arch", help="architectures, separated by commas (default: all that the library is built for)")


def execute(arguments: argparse.Namespace) -> int:
    actions = {"list": _list, "report": _report, "build": _build}
    return actions[arguments.action](arguments)


def _chosen(arguments: argparse.Namespace) -> tuple[Any, list[str]]:
    from hip_compiler.runtime import devicecode

    pack = devicecode.read(arguments.pack) if arguments.pack else devicecode.read()
    wanted = arguments.arch.split(",") if arguments.arch else list(pack)
    for architecture in wanted:
        pack.size(architecture)  # raises for those that are missing
    return pack, wanted


def _kernel_names(architecture: str, image: bytes) -> list[str]:
    from hip_compiler.toolchain import codeobject

    if architecture.startswith("sm_"):
        lines = image.decode().splitlines()
        return sorted(line.split(".entry ")[1].split("(")[0] for line in lines if ".visible .entry " in line)
    return sorted(codeobject.read(image).kernels)


def _list(arguments: argparse.Namespace) -> int:
    pack, wanted = _chosen(arguments)
    names = {architecture: _kernel_names(architecture, pack.get(architecture)) for architecture in wanted}
    if arguments.json:
        print_json(names)
        return 0
    for architecture, kernels in names.items():
        print(f"{architecture}: {len(kernels)} kernels, {pack.size(architecture):,} bytes")
    if arguments.arch:
        for name in sorted({name for kernels in names.values() for name in kernels}):
            print(f"  {name}")
    return 0


def _build(arguments: argparse.Namespace) -> int:
    from hip_compiler.toolchain.device import ARCHITECTURES, build_images, write_pack

    architectures = arguments.arch.split(",") if arguments.arch else ARCHITECTURES
    folder = arguments.out.parent
    images = build_images(arguments.sources, folder, architectures, stem=arguments.out.stem)
    print(write_pack(images, arguments.out))
    return 0


def _report(arguments: argparse.Namespace) -> int:
    from hip_compiler.errors import ErrorCode, HipCompilerError
    from hip_compiler.runtime import kernelreport

    pack, wanted = _chosen(arguments)
    rows = [row for name in wanted if not name.startswith("sm_") for row in kernelreport.rows(name, pack.get(name))]
    if arguments.json:
        print_json([row.as_dict() for row in rows])
    else:
        header = ("architecture", "kernel", "VGPR", "AGPR", "SGPR", "LDS", "scratch", "spills", "waves")
        print(table(header, [list(row.as_dict().values()) for row in rows]))
    if arguments.budget is None:
        return 0
    try:
        budget = json.loads(arguments.budget.read_text())
    except (OSError, ValueError) as error:
        raise HipCompilerError(
            ErrorCode.USAGE, f"the budget {arguments.budget} cannot be read", why=str(error)
        ) from error
    over = kernelreport.over_budget(rows, budget)
    if over:
        raise HipCompilerError(
            ErrorCode.NOT_BUILT,
            "kernels spill more than their budget",
            details=over,
            hint=f"make them smaller, or raise {arguments.budget}",
        )
    return 0
