"""The state of one loaded model: code, mapped constants, and the pointer that `inference_init` returned."""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import abi


@dataclass(frozen=True)
class Place:
    """Where a file of an artifact lies: in a file of its own, or as a part of one (size 0: all of it)."""

    path: Path
    offset: int = 0
    size: int = 0


@dataclass(frozen=True)
class Placement:
    """Where and how a model runs.

    Attributes:
        num_threads: threads of a run on the host; 0: one per available core.
        device: number of the GPU.
        graph_capture: GPUs: runs that repeat are replayed as one graph.
    """

    num_threads: int = 0
    device: int = 0
    graph_capture: bool = False


class LoadedProgram(Protocol):
    """Machine code in this process."""

    def address(self, name: str) -> int:
        """Address of a symbol."""

    def find(self, name: str) -> int | None:
        """As `address`; None when there is no such symbol."""

    def close(self) -> None:
        """Unload the code."""


class MappedFiles:
    """Files of an artifact in memory, read-only, mapped when the program asks for them.

    Args:
        places: files that may be asked for, by name.
    """

    def __init__(self, places: Mapping[str, Place]) -> None:
        self._places = places
        self._maps: dict[str, tuple[mmap.mmap, np.ndarray]] = {}
        self.callback = abi.MapFile(self._map)

    def _map(self, _: int | None, name: bytes, size: ctypes._Pointer[ctypes.c_int64]) -> int | None:
        # Compiled code calls this: no exception may leave it. NULL tells that the file is not there.
        try:
            view = self._open(name.decode())[1]
        except (OSError, ValueError):
            return None
        size[0] = view.nbytes
        return int(view.__array_interface__["data"][0])

    def _open(self, name: str) -> tuple[mmap.mmap, np.ndarray]:
        if name not in self._places:
            raise ValueError(f"{name} is not a file of the artifact")
        if name not in self._maps:
            place = self._places[name]
            with place.path.open("rb") as file:
                memory = mmap.mmap(file.fileno(), place.size, access=mmap.ACCESS_READ, offset=place.offset)
            self._maps[name] = (memory, np.frombuffer(memory, np.uint8))
        return self._maps[name]

    def close(self) -> None:
        """Unmap everything. No address of it may be used afterwards."""
        while self._maps:
            _, (memory, view) = self._maps.popitem()
            del view
            memory.close()


class State:
    """A model that is ready to run.

    Args:
        program: the machine code; it is closed with the state.
        files: files of the artifact; they are closed with the state.
        placement: where and how it runs.

    Raises:
        HipCompilerError: `HIPC0701`, when the program cannot be initialised.
    """

    def __init__(self, program: LoadedProgram, files: MappedFiles, placement: Placement) -> None:
        self._program = program
        self._files = files
        self._pointer = ctypes.c_void_p()
        self._closing = threading.Lock()
        self._closed = False
        try:
            self.compute = abi.Compute(program.address(abi.COMPUTE))
            self._last_error = abi.LastError(program.address(abi.LAST_ERROR))
            self._cleanup = abi.Cleanup(program.address(abi.CLEANUP))
            self._arena_bytes = abi.ArenaBytes(program.address(abi.ARENA_BYTES))
            self._trim = abi.Trim(program.address(abi.TRIM))
            self._fs = abi.Files(
                None, files.callback, placement.num_threads, placement.device, int(placement.graph_capture)
            )
            init = abi.Init(program.address(abi.INIT))
            status = init(ctypes.byref(self._pointer), ctypes.byref(self._fs))
            if status:
                raise self.failure(status, "the model cannot be initialised")
        except BaseException:
            self.close()
            raise

    @property
    def pointer(self) -> int | None:
        """The state of the ABI."""
        return self._pointer.value

    def find(self, symbol: str) -> int | None:
        """Address of a function of the program or its runtime; None when neither has it."""
        return self._program.find(symbol)

    def address(self, name: str) -> int:
        """Address of a symbol of the program, for callers that need no Python."""
        return self._program.address(name)

    def failure(self, status: int, otherwise: str) -> HipCompilerError:
        """The error of a status: the runtime's message, which names the operator, or else the sentence given."""
        message = ""
        if self._pointer.value:
            message = (self._last_error(self._pointer) or b"").decode(errors="replace")
        word = abi.STATUS_WORDS.get(status, "a status that this version does not know")
        return HipCompilerError(ErrorCode.RUN_FAILED, message or otherwise, why=f"status {status}: {word}")

    def arena_bytes(self) -> int:
        """Bytes of transient memory that the model holds now."""
        return int(self._arena_bytes(self._pointer))

    def trim(self) -> None:
        """Give transient memory back; the next run takes it again."""
        status = self._trim(self._pointer)
        if status:
            raise self.failure(status, "transient memory cannot be given back")

    def close(self) -> None:
        """Give everything back; a second call does nothing."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        if self._pointer.value:
            self._cleanup(self._pointer)
            self._pointer.value = None
        self._program.close()
        self._files.close()
