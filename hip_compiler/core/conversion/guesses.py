"""What is assumed of a model where its operators leave the number of dimensions of a value to run time."""

from __future__ import annotations

LIMIT = 32


class Guesses:
    """Which branch is compiled of an If whose branches give different numbers of dimensions; a run that would take
    the other one fails with a message.

    Exporters write `If` for a squeeze of an axis that may not be 1, and what follows works on one of the results only.
    So the first branch is tried; where the rest of the model cannot be converted with it, the second.
    """

    def __init__(self) -> None:
        self._taken: dict[str, bool] = {}
        self._attempts = 1

    def take(self, name: str) -> bool:
        """Whether the node of that name takes its first branch."""
        return self._taken.setdefault(name, True)

    def change(self) -> bool:
        """Change the latest guess that can change, forgetting later ones; False when nothing is left to try."""
        while self._taken and self._attempts < LIMIT:
            name, first = self._taken.popitem()
            if first:
                self._taken[name] = False
                self._attempts += 1
                return True
        return False
