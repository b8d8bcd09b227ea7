"""Memory for outputs: fresh aligned arrays, or the caller's own."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import abi
from hip_compiler.runtime.metadata import TensorInfo

ALIGNMENT = 64


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """An uninitialised C-contiguous array whose memory starts at a multiple of 64 bytes and is never empty."""
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return np.ndarray(shape, dtype, memory, start)


class OutputAllocator:
    """The callback through which a run asks for memory once an output's shape is known.

    It runs inside compiled code: no exception leaves it. What went wrong is kept for the session to raise.
    """

    def __init__(self, infos: Sequence[TensorInfo]) -> None:
        self._infos = tuple(infos)
        self._by_name = {info.name: info for info in self._infos}
        self._arrays: list[np.ndarray | None] = [None] * len(self._infos)
        self._given: Mapping[str, np.ndarray] = {}
        self._copies: list[tuple[np.ndarray, np.ndarray]] = []
        self.error: BaseException | None = None
        self.callback = abi.AllocateOutput(self._allocate)

    def begin(self, given: Mapping[str, np.ndarray]) -> None:
        """Start a run.

        Args:
            given: the caller's own arrays, by output name.

        Raises:
            HipCompilerError: `HIPC0700`, when an array cannot receive the output of its name.
        """
        for name, array in given.items():
            self._check(name, array)
        self.restart(given)

    def restart(self, given: Mapping[str, np.ndarray]) -> None:
        """Start a run with arrays that `begin` has seen."""
        self._given = given
        self._arrays = [None] * len(self._infos)
        self._copies = []
        self.error = None

    def take(self) -> dict[str, np.ndarray]:
        """Outputs of the run by name, in the model's order; the allocator keeps none of them."""
        for target, source in self._copies:
            np.copyto(target, source, casting="no")
        results: dict[str, np.ndarray] = {}
        for info, array in zip(self._infos, self._arrays, strict=True):
            if array is None:
                raise HipCompilerError(ErrorCode.INTERNAL, f"the program did not produce output '{info.name}'")
            results[info.name] = self._given.get(info.name, array)
        self.forget()
        return results

    def take_new(self) -> dict[str, np.ndarray]:
        """Outputs of the run for which the caller gave no array, by name, in the model's order."""
        pairs = zip(self._infos, self._arrays, strict=True)
        return {info.name: array for info, array in pairs if array is not None and info.name not in self._given}

    def forget(self) -> None:
        """Drop every array of the run."""
        self._arrays = [None] * len(self._infos)
        self._given = {}
        self._copies = []

    def _allocate(self, _: int | None, index: int, dtype: int, rank: int, extents: Any) -> int | None:
        try:
            return self._memory(index, dtype, tuple(extents[:rank]))
        except HipCompilerError as error:
            self.error = error
        except MemoryError as error:
            name = self._infos[index].name
            self.error = HipCompilerError(ErrorCode.RUN_FAILED, f"no memory for output '{name}'", why=str(error))
        except Exception as error:  # noqa: BLE001 - compiled code above cannot be unwound
            self.error = HipCompilerError(
                ErrorCode.INTERNAL, f"the output allocator failed: {error!r}", why=traceback.format_exc()
            )
        except BaseException as interrupt:  # noqa: BLE001 - the same; the session raises it again
            self.error = interrupt
        return None

    def _memory(self, index: int, dtype: int, shape: tuple[int, ...]) -> int:
        info = self._infos[index]
        own = info.dtype.numpy
        if dtype != info.dtype.onnx or own is None:
            raise HipCompilerError(
                ErrorCode.INTERNAL, f"the program makes output '{info.name}' with element type number {dtype}"
            )
        given = self._given.get(info.name)
        if given is not None and given.shape != shape:
            raise HipCompilerError(
                ErrorCode.FEED,
                f"the array given for output '{info.name}' has shape {list(given.shape)}, the output {list(shape)}",
            )
        if given is not None and given.size and address_of(given) % ALIGNMENT == 0:
            array = given
        else:
            array = empty(shape, own)
            if given is not None:
                self._copies.append((given, array))
        self._arrays[index] = array
        return address_of(array)

    def _check(self, name: str, array: np.ndarray) -> None:
        info = self._by_name.get(name)
        if info is None:
            names = ", ".join(info.name for info in self._infos)
            raise HipCompilerError(ErrorCode.FEED, f"the model has no output '{name}'", hint=f"it has {names}")
        if not isinstance(array, np.ndarray):
            why = f"it is a {type(array).__name__}, not a NumPy array"
        elif array.dtype != info.dtype.numpy:
            why = f"it has element type {array.dtype}, the output {info.dtype.numpy}"
        elif not array.flags.c_contiguous or not array.flags.writeable:
            why = "it is not C-contiguous, or not writable"
        else:
            return
        raise HipCompilerError(ErrorCode.FEED, f"the array given for output '{name}' cannot receive it", why=why)


def address_of(array: np.ndarray) -> int:
    """Address of the first element."""
    return int(array.__array_interface__["data"][0])


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a C-contiguous array, in elements."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def fill_tensor(tensor: abi.Tensor, array: np.ndarray) -> None:
    """Write shape and strides of a C-contiguous array into an ABI tensor."""
    rank = array.ndim
    tensor.rank = rank
    tensor.shape[:rank] = array.shape
    tensor.strides[:rank] = row_major_strides(array.shape)
