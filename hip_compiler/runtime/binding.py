"""Feeds and outputs that stay where they are from run to run, such as the caches of a decoder."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import abi
from hip_compiler.runtime.feeds import check_extents, check_names, to_array
from hip_compiler.runtime.metadata import Metadata, TensorInfo
from hip_compiler.runtime.outputs import ALIGNMENT, OutputAllocator, address_of, fill_tensor
from hip_compiler.runtime.state import State


class Binding:
    """Arrays tied to inputs and outputs of a session. `Session.bind` makes them.

    What is bound is checked once, and its memory is used as it is: nothing is copied, in any run. The session may run
    in other ways meanwhile.
    """

    def __init__(
        self,
        guarded: Callable[[Callable[[], Any]], Any],
        state: State,
        metadata: Metadata,
        feeds: Mapping[str, np.ndarray],
        outputs: Mapping[str, np.ndarray],
    ) -> None:
        self._guarded = guarded
        self._state = state
        self._infos = metadata.inputs
        self._allocator = OutputAllocator(metadata.outputs)
        self._allocator.begin(outputs)
        self._outputs = dict(outputs)
        self._feeds = dict(feeds)
        self._tensors = (abi.Tensor * max(1, len(self._infos)))()
        self._open: list[tuple[TensorInfo, Any]] = []
        check_names(feeds, self._infos, all_of_them=False)
        for index, info in enumerate(self._infos):
            tensor = self._tensors[index]
            tensor.dtype = info.dtype.onnx
            if info.name not in feeds:
                self._open.append((info, tensor))
                continue
            array = _own_memory(feeds[info.name], info)
            fill_tensor(tensor, array)
            tensor.data = address_of(array)
        self._targets = list(outputs.values())
        _check_apart(feeds, outputs, dict(metadata.shared))
        self._bound = (abi.Tensor * max(1, len(metadata.outputs)))()
        for index, info in enumerate(metadata.outputs):
            if info.name in outputs:
                self._bind_output(self._bound[index], info, outputs[info.name])
        self._own_table = abi.BoundOutputs(self._bound, len(metadata.outputs), None, self._allocator.callback)
        self._io = abi.Io(self._tensors, len(self._infos), None, self._allocator.callback)
        lookup = state.find(abi.BOUND_OUTPUT)
        if lookup is not None:
            self._io.allocator = ctypes.addressof(self._own_table)
            self._io.alloc_output = abi.AllocateOutput(lookup)
        self._pointer = ctypes.pointer(self._io)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Run the model.

        Args:
            feeds: the inputs that are not bound, as `Session.run` takes them; extents may change from run to run.

        Returns:
            The outputs that are not bound, by name, in the model's order.

        Raises:
            HipCompilerError: as `Session.run`; `HIPC0700` too where the run needs a larger array than a bound one.
        """
        return self._guarded(lambda: self._run(feeds))  # type: ignore[no-any-return]

    def _run(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        if len(feeds) != len(self._open) or any(info.name not in feeds for info, _ in self._open):
            check_names(feeds, [info for info, _ in self._open])
        arrays = []
        for info, tensor in self._open:
            array = to_array(feeds[info.name], info)
            if any(np.may_share_memory(array, target) for target in self._targets):
                raise _refused(f"input '{info.name}' lies in memory of a bound output")
            fill_tensor(tensor, array)
            tensor.data = address_of(array)
            arrays.append(array)
        self._allocator.restart(self._outputs)
        try:
            status = self._state.compute(self._state.pointer, self._pointer)
            if status:
                if status == abi.INPUT_ERROR:
                    given = dict(zip((info.name for info, _ in self._open), arrays, strict=True))
                    everything = {**self._feeds, **given}
                    check_extents([everything[info.name] for info in self._infos], self._infos)
                raise self._allocator.error or self._state.failure(status, "the run failed")
            return self._allocator.take_new()
        finally:
            self._allocator.forget()

    @staticmethod
    def _bind_output(tensor: Any, info: TensorInfo, array: np.ndarray) -> None:
        if array.size and address_of(array) % ALIGNMENT:
            raise _refused(
                f"the array bound to output '{info.name}' does not start at a multiple of {ALIGNMENT} bytes",
                hint="hip_compiler.runtime.empty(shape, dtype) makes one that does",
            )
        fill_tensor(tensor, array)
        tensor.dtype = info.dtype.onnx
        tensor.data = address_of(array)


def _own_memory(value: np.ndarray, info: TensorInfo) -> np.ndarray:
    array = to_array(value, info)
    if not isinstance(value, np.ndarray) or address_of(array) != address_of(value):
        raise _refused(
            f"the array bound to input '{info.name}' cannot be used where it lies",
            hint="bind a C-contiguous NumPy array of the input's element type",
        )
    return array


def _check_apart(
    feeds: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray], partners: Mapping[str, str]
) -> None:
    """A run writes bound outputs, so none may lie in a feed, but for a cache that grows in place."""
    for name, array in feeds.items():
        for output, target in outputs.items():
            if not np.may_share_memory(array, target):
                continue
            if partners.get(name) != output:
                raise _refused(
                    f"input '{name}' and output '{output}' are bound to the same memory",
                    why="the program does not update that input in place",
                    hint=f"pairs that may share a buffer: {_pairs(partners)}",
                )
            if address_of(array) != address_of(target) or array.shape != target.shape:
                raise _refused(f"input '{name}' and output '{output}' are bound to memory that overlaps in part")
    names = list(outputs)
    for position, name in enumerate(names):
        for other in names[:position]:
            if np.may_share_memory(outputs[name], outputs[other]):
                raise _refused(f"outputs '{other}' and '{name}' are bound to the same memory")


def _pairs(partners: Mapping[str, str]) -> str:
    return ", ".join(f"{past} and {present}" for past, present in partners.items()) or "none"


def _refused(what: str, *, why: str = "", hint: str = "") -> HipCompilerError:
    return HipCompilerError(ErrorCode.FEED, what, why=why, hint=hint)
