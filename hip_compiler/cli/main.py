"""Entry point of the ``hip-compiler`` command."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TextIO, cast

from hip_compiler import knobs
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.version import own_version

COMMANDS = (
    "compile",
    "run",
    "generate",
    "bench-llm",
    "opt",
    "passes",
    "slots",
    "pipeline",
    "plugins",
    "coverage",
    "inspect",
    "kernels",
    "doctor",
)
SUCCESS, FAILURE, USAGE, INTERRUPTED = 0, 1, 2, 130


class Command(Protocol):
    """A module of a subcommand. It imports what it needs when it runs, so that `--help` works on a broken machine."""

    HELP: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: words after the program's name; None: those of this process.

    Returns:
        Exit status: 0; 1 after an error; 2 for wrong usage; 130 when interrupted.
    """
    parser = build_parser()
    try:
        parsed = parser.parse_args(arguments)
    except SystemExit as leaving:
        # argparse leaves by itself after --help (0) and wrong usage (2).
        return int(leaving.code or 0)
    execute = cast(Callable[[argparse.Namespace], int], parsed.execute)
    with _warnings_as_sentences():
        try:
            status = execute(parsed)
            sys.stdout.flush()
            return status
        except HipCompilerError as error:
            print(error, file=sys.stderr)
            return USAGE if error.code is ErrorCode.USAGE else FAILURE
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:
            # The reader of a pipe has seen enough. Python would complain once more when it closes stdout.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILURE
        except Exception as error:  # noqa: BLE001  no traceback reaches a user
            print(_defect(error), file=sys.stderr)
            return FAILURE


def build_parser() -> argparse.ArgumentParser:
    """The parser of all subcommands."""
    parser = argparse.ArgumentParser(
        prog="hip-compiler", description="Compiles ONNX models for the CPU and for AMD GPUs, and runs them."
    )
    parser.add_argument("--version", action="version", version=f"hip-compiler {own_version()}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        command = cast(Command, importlib.import_module(f"hip_compiler.cli.{name.replace('-', '_')}"))
        subparser = subparsers.add_parser(name, help=command.HELP, description=command.HELP)
        command.add_arguments(subparser)
        subparser.set_defaults(execute=command.execute)
    return parser


def _defect(error: Exception) -> HipCompilerError:
    """An exception that no code foresaw: a sentence for the terminal, the traceback in a file."""
    place = "the traceback could not be saved"
    try:
        folder = knobs.repro_dir()
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"internal-{os.getpid()}.txt"
        file.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        place = f"report it with {file}"
    except (OSError, HipCompilerError):
        pass
    return HipCompilerError(
        ErrorCode.INTERNAL, "a defect of hip-compiler", why=f"{type(error).__name__}: {error}", hint=place
    )


@contextmanager
def _warnings_as_sentences() -> Iterator[None]:
    """Show warnings as a sentence, without file and line: those of other packages, which are about code, not at all."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if category.__module__.startswith("hip_compiler."):
            print(f"warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield
