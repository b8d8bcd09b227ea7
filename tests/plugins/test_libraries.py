"""Where contributed libraries are looked for, and what is said when they are not there."""

from __future__ import annotations

from pathlib import Path

from hip_compiler.registry.contributions import LibraryContribution
from hip_compiler.registry.libraries import find_library


def test_a_bare_name_is_looked_for_in_its_search_paths_in_order(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    (second / "libacme.so").touch()
    library = LibraryContribution("acme", "host", (first, second))
    assert find_library(library) == second / "libacme.so"
    (first / "libacme.so").touch()
    assert find_library(library) == first / "libacme.so"


def test_a_missing_one_names_every_folder(tmp_path: Path) -> None:
    library = LibraryContribution("acme", "host", (tmp_path / "a", tmp_path / "b"))
    assert find_library(library) == f"library 'acme' (libacme.so) is in none of: {tmp_path / 'a'}, {tmp_path / 'b'}"


def test_a_path_is_absolute_and_exists(tmp_path: Path) -> None:
    file = tmp_path / "libacme.so.2"
    assert find_library(LibraryContribution(str(file), "host")) == f"library {file} does not exist"
    file.touch()
    assert find_library(LibraryContribution(str(file), "host")) == file
    words = find_library(LibraryContribution("lib/libacme.so", "host"))
    assert words == "library 'lib/libacme.so' is neither a bare name nor an absolute path"


def test_a_bare_name_without_folders_is_the_systems() -> None:
    assert str(find_library(LibraryContribution("c", "host"))).startswith("libc.so")
    unknown = find_library(LibraryContribution("no-such-library", "host"))
    assert unknown == "library 'no-such-library' is unknown to the system's loader"
