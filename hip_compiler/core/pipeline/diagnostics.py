"""MLIR's diagnostics as sentences."""

from __future__ import annotations

import re
from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.errors import ErrorCode, HipCompilerError

LONGEST = 400
"""Longer messages hold whole functions; the repro bundle has them in full."""


def sentences(error: Any) -> list[str]:
    """One line per diagnostic and note of an `ir.MLIRError`: where, then what."""
    lines: list[str] = []
    for diagnostic in error.error_diagnostics:
        lines.append(_line(diagnostic))
        lines += [f"  note: {_line(note)}" for note in diagnostic.notes]
    return lines or str(error).splitlines()


def place(location: Any) -> str:
    """A location in a reader's words: the node's name, or file, line and column."""
    text = str(location).removeprefix("loc(").removesuffix(")")
    if text == "unknown":
        return ""
    named = re.match(r'"([^"]*)"(?:\((.*)\)|(:\d+:\d+))?$', text)
    if named is None:
        return text
    name, inner, position = named.groups()
    if position:
        return f"{name}{position}" if name != "-" else f"input{position}"
    return name if inner is None or inner == "unknown" else f"{name} ({inner})"


def _line(diagnostic: Any) -> str:
    where = place(diagnostic.location)
    message = " ".join(diagnostic.message.split())
    if len(message) > LONGEST:
        message = f"{message[:LONGEST]}..."
    return f"{where}: {message}" if where else message


def parse_module(text: str, context: Any, name: str) -> Any:
    """Parse and verify a module's text.

    Raises:
        HipCompilerError: `HIPC0303`, with every diagnostic.
    """
    with context, ir.Location.unknown():
        try:
            return ir.Module.parse(text)
        except ir.MLIRError as error:
            raise HipCompilerError(
                ErrorCode.IR_INVALID, f"{name} is not valid IR", where=name, details=sentences(error)
            ) from error
