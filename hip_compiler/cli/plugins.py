"""``hip-compiler plugins``: which plugins there are, and what became of each; `check` one, or start a `new` one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hip_compiler.cli.output import add_json, add_plugins, print_json, table

HELP = "List installed plugins and why one was refused; check a plugin before it ships; start a new one."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_plugins(parser)
    add_json(parser)
    actions = parser.add_subparsers(title="further actions", metavar="ACTION")
    check = actions.add_parser("check", help="check a wheel or a source folder, without installing it")
    check.add_argument("path", type=Path, help="wheel, or folder with a pyproject.toml")
    check.set_defaults(action=_check)
    new = actions.add_parser("new", help="write a plugin package that works")
    new.add_argument("name", help="id of the plugin, for example acme-fusion")
    new.add_argument("--in", dest="parent", type=Path, default=Path(), metavar="DIR", help="where (default: here)")
    new.set_defaults(action=_new)
    parser.set_defaults(action=_list)


def execute(arguments: argparse.Namespace) -> int:
    status: int = arguments.action(arguments)
    return status


def _list(arguments: argparse.Namespace) -> int:
    from hip_compiler.registry.records import describe_all
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
                    "contributions": describe_all(record.contributions),
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
            lines = [record.reason] if record.reason else describe_all(record.contributions)
            if lines:
                print(f"\n{record.id}:", *lines, sep="\n  ")
    for problem in registry.problems:
        print(problem, file=sys.stderr)
    return 1 if registry.problems else 0


def _check(arguments: argparse.Namespace) -> int:
    from hip_compiler.core.plugin_check import check_plugin

    checks = check_plugin(arguments.path)
    if arguments.json:
        print_json([vars(check) for check in checks])
    else:
        for check in checks:
            print(f"{'bad' if check.problem else 'ok ':3} {check.name}")
            for line in check.problem.splitlines():
                print(f"      {line}")
    return 1 if any(check.problem for check in checks) else 0


def _new(arguments: argparse.Namespace) -> int:
    from hip_compiler.registry.template import write_plugin

    folder = write_plugin(arguments.name, arguments.parent)
    print(f"wrote {folder}\n\n  pip install {folder}\n  hip-compiler plugins\n  pytest {folder}")
    return 0
