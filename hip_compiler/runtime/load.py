"""Artifacts in memory: code, constants and state."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime.artifact import METADATA, Artifact
from hip_compiler.runtime.jit import Program
from hip_compiler.runtime.loader import machine_code
from hip_compiler.runtime.native_file import NativeArtifact
from hip_compiler.runtime.shared_library import SharedLibrary
from hip_compiler.runtime.state import MappedFiles, Place, Placement, State


@dataclass(frozen=True)
class Loaded:
    """An artifact in memory, initialised.

    Attributes:
        seconds: how long each step took.
        relinked: the artifact had no machine code that fits, and it was generated.
    """

    artifact: Artifact | NativeArtifact
    state: State
    seconds: Mapping[str, float]
    relinked: bool = False


def load_folder(artifact: Artifact, placement: Placement, runtime_bitcode: Path | None = None) -> Loaded:
    """Load an artifact folder; arguments and errors as `Session`."""
    metadata = artifact.metadata
    code = machine_code(artifact, runtime_bitcode)
    start = time.perf_counter()
    program = Program([code.image], metadata.libraries, code.runtime)
    places = {entry.file: Place(artifact.folder / entry.file) for entry in metadata.data_files}
    state = State(program, MappedFiles(places), placement)
    return Loaded(artifact, state, {**code.seconds, "load": time.perf_counter() - start}, not code.cached)


def load_native(artifact: NativeArtifact, placement: Placement) -> Loaded:
    """Load a native artifact; arguments and errors as `Session`."""
    start = time.perf_counter()
    program = SharedLibrary(artifact.path)
    places = {name: Place(artifact.path, *region) for name, region in artifact.files.items()}
    state = State(program, MappedFiles(places), placement)
    return Loaded(artifact, state, {"load": time.perf_counter() - start})


def load_path(path: Path, placement: Placement, runtime_bitcode: Path | None) -> Loaded:
    """Load an artifact that another process may replace meanwhile: all of it is of one generation."""
    while True:
        before = _identity(path)
        try:
            if path.is_file():
                loaded = load_native(NativeArtifact.load(path), placement)
            else:
                loaded = load_folder(Artifact.load(path), placement, runtime_bitcode)
        except HipCompilerError:
            if _identity(path) == before:
                raise
            continue
        if _identity(path) == before:
            return loaded
        loaded.state.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Which generation of an artifact a path holds: a file, or a folder's description, is written once."""
    try:
        status = (path if path.is_file() else path / METADATA).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
