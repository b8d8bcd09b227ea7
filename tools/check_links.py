"""Checks that every relative link of the Markdown files leads to a file, and to a heading where it names one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = {".venv", "build", "dist", "node_modules"}

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+\s+(.+?)\s*$", re.MULTILINE)


def pages(root: Path = ROOT) -> Iterator[Path]:
    """The repository's Markdown files."""
    for path in sorted(root.rglob("*.md")):
        parts = path.relative_to(root).parts
        if not any(part in SKIPPED or part.startswith(".") for part in parts):
            yield path


def anchors(page: Path) -> set[str]:
    """What a link can name after `#`, one for every heading."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(root: Path = ROOT) -> list[str]:
    """One line for every link that leads nowhere."""
    findings = []
    for page in pages(root):
        for target in LINK.findall(FENCE.sub("", page.read_text())):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            path = (page.parent / name).resolve() if name else page
            if not path.exists():
                findings.append(f"{page.relative_to(root)}: {target}: no such file")
            elif anchor and anchor not in anchors(path):
                findings.append(f"{page.relative_to(root)}: {target}: no such heading")
    return findings


def main() -> int:
    findings = broken()
    for finding in findings:
        print(finding, file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
