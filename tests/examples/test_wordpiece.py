"""Text becomes the longest known pieces of a vocabulary."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from examples.wordpiece import CLS, SEP, UNKNOWN, WordPiece

PIECES = (" un", " unhappy", " cafe", " ,", "happ", "y", "iness", " the", " 中")


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> WordPiece:
    """A tokeniser whose table holds `PIECES`, in the file's real layout."""
    texts = [piece.encode() for piece in PIECES]
    offsets = [sum(len(text) for text in texts[:index]) for index in range(len(texts) + 1)]
    section = struct.pack(f"<i{len(offsets)}i", len(texts), *offsets) + b"".join(texts)
    path: Path = tmp_path_factory.mktemp("table") / "pieces.i2w"
    path.write_bytes(struct.pack("<4i", 3, 16, 16, 16 + len(section)) + section)
    return WordPiece(path)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("the", [7]),
        ("Unhappy", [1]),
        ("unhappyiness", [1, 6]),
        ("unhapp", [0, 4]),
        ("unhappx", [UNKNOWN]),
        ("unhappy, the", [1, 3, 7]),
        ("  Café ", [2]),
        ("中", [8]),
        ("zebra the", [UNKNOWN, 7]),
    ],
)
def test_longest_known_pieces(words: WordPiece, text: str, tokens: list[int]) -> None:
    assert words.encode(text) == [CLS, *tokens, SEP]
