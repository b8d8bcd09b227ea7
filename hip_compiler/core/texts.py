"""Strings in a program: numbers, as none of its operators needs to see a letter.

Every text that the model names has a number, its position in the vocabulary. Whoever runs the program gives other texts
numbers from the vocabulary's end on, equal ones for equal texts, and reads the numbers of results in the same way.
"""

from __future__ import annotations

import numpy as np


class Vocabulary:
    """Texts of one model, in the order of their numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    def numbers(self, texts: np.ndarray) -> np.ndarray:
        """Numbers of texts, int64 in the array's shape; new texts are added.

        Args:
            texts: `str`, or `bytes` of UTF-8.

        Raises:
            UnicodeDecodeError: bytes that are none.
        """
        words = (text.decode() if isinstance(text, bytes) else str(text) for text in texts.reshape(-1).tolist())
        found = [self._numbers.setdefault(word, len(self._numbers)) for word in words]
        return np.array(found, np.int64).reshape(texts.shape)
