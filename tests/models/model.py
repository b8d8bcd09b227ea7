"""What a network of the catalogue is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.models.feeds import Extents, Feeds, MakeFeeds
from tests.models.fetch import Package, fetch


@dataclass(frozen=True)
class Model:
    """One network.

    Attributes:
        key: its short name.
        summary: what it is.
        package: where the file comes from.
        member: the file inside the package.
        make: makes inputs for given extents.
        extents: extents to run it at, the one for timing first; one compiled artifact serves them all.
    """

    key: str
    summary: str
    package: Package
    member: str
    make: MakeFeeds
    extents: tuple[Extents, ...]

    def path(self) -> Path:
        """The model file, fetched on the first call. Raises `FetchError`."""
        return fetch(self.package, self.member)

    def feeds(self, index: int = 0, seed: int = 0) -> Feeds:
        """Inputs at `extents[index]`; the same seed gives the same values."""
        return self.make(np.random.default_rng([seed, index]), self.extents[index])


def row(key: str, summary: str, package: Package, file: str, make: MakeFeeds, *extents: Extents) -> Model:
    """The network in the one file of that name of a package."""
    members = [member for member in package.files if Path(member).name == file]
    if len(members) != 1:
        raise ValueError(f"{package.requirement} has {len(members)} files named {file}")
    return Model(key, summary, package, members[0], make, extents)
