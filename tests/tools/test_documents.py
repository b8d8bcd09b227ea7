"""The documents say what the source says, and their links lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from hip_compiler.errors import MEANINGS, ErrorCode
from hip_compiler.knobs import KNOBS
from tools import check_links, generate_docs


def test_generated_pages_are_up_to_date() -> None:
    assert generate_docs.stale() == []


def test_changed_page_is_stale(tmp_path: Path) -> None:
    for name, page in generate_docs.PAGES.items():
        (tmp_path / name).write_text(page())
    assert generate_docs.stale(tmp_path) == []
    (tmp_path / "errors.md").write_text("old")
    (tmp_path / "environment.md").unlink()
    assert generate_docs.stale(tmp_path) == ["errors.md", "environment.md"]


def test_every_error_has_a_meaning_and_a_code_of_its_own() -> None:
    assert set(MEANINGS) == set(ErrorCode)
    assert len({code.value for code in ErrorCode}) == len(ErrorCode)


def test_every_variable_has_a_name_of_its_own() -> None:
    assert len({knob.name for knob in KNOBS}) == len(KNOBS)


def test_links_lead_somewhere() -> None:
    assert check_links.broken() == []


@pytest.mark.parametrize(
    ("link", "finding"),
    [
        ("[a](gone.md)", ["page.md: gone.md: no such file"]),
        ("[a](#gone)", ["page.md: #gone: no such heading"]),
        ("[a](page.md#a-heading-here) [b](https://example.org/x)", []),
        ("```\n[a](gone.md)\n```", []),
    ],
)
def test_broken_links_are_found(tmp_path: Path, link: str, finding: list[str]) -> None:
    (tmp_path / "page.md").write_text(f"# A heading, here\n\n{link}\n")
    assert check_links.broken(tmp_path) == finding
