"""Files and folders that appear whole or not at all, whoever dies half way."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hip_compiler.errors import ErrorCode, HipCompilerError

_SUFFIX = ".partial"
_ABANDONED_SECONDS = 24 * 3600
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


def write_file(path: Path, content: bytes) -> None:
    """Write a file under a private name, then rename it into place.

    Raises:
        OSError: the folder cannot be written to.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent)
    private = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        private.chmod(0o644)
        private.replace(path)
    except BaseException:
        private.unlink()
        raise


def publish_file(target: Path, fill: Callable[[Path], object]) -> None:
    """Make a file under a private name beside the target, then rename it into place.

    Whoever has the old file open or mapped keeps it.

    Args:
        fill: writes the file at the path given.

    Raises:
        HipCompilerError: `HIPC0600`, when the file system refuses.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=_SUFFIX, dir=target.parent) as folder:
            private = Path(folder) / target.name
            fill(private)
            private.replace(target)
    except OSError as error:
        raise HipCompilerError(
            ErrorCode.ARTIFACT,
            f"the artifact cannot be written to {target}",
            why=str(error),
            hint="choose a path on a writable file system with enough room",
        ) from error


def publish_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Fill a private folder beside the target, then rename it into place.

    Two writers of one target do not disturb each other: the last one wins. Whoever has files of the old
    folder open or mapped keeps them.

    Args:
        fill: writes the contents into the folder given.

    Raises:
        HipCompilerError: `HIPC0600`, when the file system refuses.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target)
        private = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=_SUFFIX, dir=target.parent))
        try:
            private.chmod(0o755)
            fill(private)
            _synchronise(private)
            _move_into_place(private, target)
        finally:
            # After an exchange this is the old folder.
            shutil.rmtree(private, ignore_errors=True)
    except OSError as error:
        raise HipCompilerError(
            ErrorCode.ARTIFACT,
            f"the artifact cannot be written to {target}",
            why=str(error),
            hint="choose a path on a writable file system with enough room",
        ) from error


def _move_into_place(private: Path, target: Path) -> None:
    # Another writer may create or remove the target between two steps; each round sees one of the two states.
    for _ in range(100):
        try:
            private.rename(target)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        try:
            _exchange(private, target)
            return
        except FileNotFoundError:
            continue
    raise OSError(errno.EBUSY, "other writers keep replacing the folder", str(target))


def _exchange(first: Path, second: Path) -> None:
    """Swap two folders in one step (Linux renameat2), or in two where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None:
        names = os.fsencode(first), os.fsencode(second)
        if rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
            return
        number = ctypes.get_errno()
        if number not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(number, os.strerror(number), str(second))
    aside = first.with_name(first.name + ".old")
    second.rename(aside)
    first.rename(second)
    aside.rename(first)


def _synchronise(folder: Path) -> None:
    """Contents reach the disk before the name does, so that a crash of the machine leaves no empty files."""
    for path in (*folder.iterdir(), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_abandoned(target: Path) -> None:
    """Remove what killed writers of this target left; a day is longer than any write takes."""
    for path in target.parent.glob(f".{target.name}.*{_SUFFIX}"):
        try:
            old = time.time() - path.stat().st_mtime > _ABANDONED_SECONDS
        except FileNotFoundError:
            continue
        if old:
            shutil.rmtree(path, ignore_errors=True)
