"""Text to token ids: WordPiece over BERT's English vocabulary, which a tokeniser package ships as a table."""

from __future__ import annotations

import re
import struct
import unicodedata
from itertools import pairwise
from pathlib import Path

UNKNOWN, CLS, SEP = 100, 101, 102


class WordPiece:
    """Splits text into the longest known pieces.

    Args:
        table: id-to-word table. Its text section holds a count, count + 1 offsets, and the pieces one after
            another; a piece that begins a word starts with a blank. All numbers are little-endian int32.
    """

    def __init__(self, table: Path) -> None:
        data = table.read_bytes()
        (section,) = struct.unpack_from("<i", data, 8)
        (count,) = struct.unpack_from("<i", data, section)
        offsets = struct.unpack_from(f"<{count + 1}i", data, section + 4)
        text = data[section + 4 + 4 * (count + 1) :]
        pieces = (text[begin:end].decode() for begin, end in pairwise(offsets))
        self.ids = {piece: index for index, piece in enumerate(pieces)}

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, with [CLS] before and [SEP] after."""
        plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(c))
        words = re.findall(r"\w+|[^\w\s]", plain)
        return [CLS, *(token for word in words for token in self._split(" " + word)), SEP]

    def _split(self, word: str) -> list[int]:
        tokens = []
        while word:
            end = len(word)
            while end and word[:end] not in self.ids:
                end -= 1
            # A blank alone is no piece: nothing of the word is known.
            if not word[:end].strip():
                return [UNKNOWN]
            tokens.append(self.ids[word[:end]])
            word = word[end:]
        return tokens
