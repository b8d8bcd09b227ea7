"""Writes the documents that are made from the source: `python -m tools.generate_docs [--check]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hip_compiler.core.coverage import GROUPS, coverage, refused
from hip_compiler.errors import MEANINGS
from hip_compiler.knobs import KNOBS
from hip_compiler.ort import OPTIONS

DOCS = Path(__file__).resolve().parents[1] / "docs"

NOTE = "<!-- Written by `make docs`; change {source} instead. -->\n"


def errors_page() -> str:
    """Table of every error code."""
    lines = [
        "# Errors",
        "",
        NOTE.format(source="hip_compiler/errors.py"),
        "Every error that hip-compiler reports is a `hip_compiler.errors.HipCompilerError` with a code that stays the",
        "same from version to version. It says what happened, where (the ONNX node, file or IR location), why, and",
        "what to do next. The command line prints the same text and ends with a status other than 0.",
        "",
        "| code | name | meaning |",
        "|---|---|---|",
    ]
    lines += [f"| {code.value} | {code.name} | {cell(meaning)} |" for code, meaning in MEANINGS.items()]
    return "\n".join(lines) + "\n"


def environment_page() -> str:
    """Table of every environment variable."""
    lines = [
        "# Environment variables",
        "",
        NOTE.format(source="hip_compiler/knobs.py"),
        "hip-compiler reads these variables and no others.",
        "",
        "| variable | type | default | meaning |",
        "|---|---|---|---|",
    ]
    for knob in KNOBS:
        default = f"`{knob.default}`" if knob.default != "" else "empty"
        lines.append(f"| `{knob.name}` | {type(knob.default).__name__} | {default} | {cell(knob.meaning)} |")
    return "\n".join(lines) + "\n"


def operators_page() -> str:
    """Table of every operator that can be compiled, and of those that are not, with the reason."""
    groups = [f"{word}: {', '.join(members)}." for word, members in GROUPS.items()]
    rows = coverage()
    compiled = len({(row.domain, row.operator) for row in rows})
    lines = [
        "# Operators",
        "",
        NOTE.format(source="the converters under hip_compiler/core/conversion/ops"),
        f"{compiled} operators can be compiled, for the host and for GPUs. The column of element types is about the",
        "first input, or about the result where there is none; other element types are refused before anything is",
        "compiled.",
        "`hip-compiler coverage` prints the same table, with `--json` for programs.",
        "",
        *[f"- {group}" for group in groups],
        "",
    ]
    for domain in sorted({row.domain for row in rows}):
        lines += [
            f"## {domain or 'ai.onnx'}",
            "",
            "| operator | opsets | element types | becomes | limits |",
            "|---|---|---|---|---|",
        ]
        for row in rows:
            if row.domain == domain:
                opsets = f"{row.since} and later" if row.until is None else _range(row.since, row.until)
                cells = (row.operator, opsets, row.dtype_words, row.how, row.limits)
                lines.append(f"| {' | '.join(cell(text) for text in cells)} |")
        lines.append("")
    lines += [
        "## Not compiled",
        "",
        "Strings are moved, compared and looked up; nothing makes new ones, or maps. A model that needs that is",
        "refused with a report that names every such node.",
        "",
        "| operator | reason |",
        "|---|---|",
    ]
    lines += [f"| {f'{domain}::' if domain else ''}{op} | {cell(reason)} |" for domain, op, reason in refused()]
    return "\n".join(lines) + "\n"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def options_table() -> str:
    """Table of the execution provider's options, which `docs/onnxruntime.md` holds."""
    rows = []
    for option in OPTIONS:
        default = int(option.default) if isinstance(option.default, bool) else option.default
        shown = f"`{default}`" if default not in ("", None) else ""
        rows.append(f"| `{option.name}` | {shown} | {'GPU. ' if option.gpu else ''}{cell(option.meaning)} |")
    return "\n".join(rows) + "\n"


def provider_page() -> str:
    """The page of the execution provider with its table of options; the rest of it is written by hand."""
    text = (DOCS / "onnxruntime.md").read_text()
    head, rule, rest = text.partition("| option | default | meaning |\n|---|---|---|\n")
    return head + rule + options_table() + "\n" + rest[rest.index("Those marked with GPU") :]


def cell(text: str) -> str:
    """Text that can stand in a cell of a Markdown table."""
    return text.replace("|", "\\|")


PAGES = {
    "errors.md": errors_page,
    "environment.md": environment_page,
    "operators.md": operators_page,
    "onnxruntime.md": provider_page,
}


def stale(folder: Path = DOCS) -> list[str]:
    """Names of pages that are missing or differ from what the source says."""
    return [
        name for name, page in PAGES.items() if not (folder / name).is_file() or (folder / name).read_text() != page()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.generate_docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is out of date")
    if parser.parse_args().check:
        for name in stale():
            print(f"docs/{name} is out of date: run `make docs`", file=sys.stderr)
        return 1 if stale() else 0
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
