"""The command line. `main` reads arguments and prints errors; every subcommand is a file of its own."""

from hip_compiler.cli.main import main

__all__ = ["main"]
