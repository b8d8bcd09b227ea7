"""Where plugins find the header of the runtime ABI."""

from __future__ import annotations

from pathlib import Path

import pytest

from hip_compiler.toolchain import headers, include_folder


def test_in_the_source_tree_it_is_the_source() -> None:
    assert (include_folder() / "hipc.h").is_file()


def test_installed_it_is_the_copy_in_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "PACKAGE", tmp_path / "hip_compiler")
    assert include_folder() == tmp_path / "hip_compiler" / "_native" / "include"
