"""Inputs and outputs of a session that stay in memory of a GPU from run to run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import abi
from hip_compiler.runtime.device_array import DeviceArray
from hip_compiler.runtime.metadata import Metadata, TensorInfo
from hip_compiler.runtime.outputs import ALIGNMENT, row_major_strides
from hip_compiler.runtime.state import State


class DeviceBinding:
    """Arrays of a GPU tied to every input and output of a session. `Session.bind_device` makes them.

    Contents may change between runs, as may the extents of inputs, by `resize`. The same array may be an input and the
    output that `metadata.shared` pairs with it: a cache that grows in place.
    """

    def __init__(
        self,
        guarded: Callable[[Callable[[], Any]], Any],
        state: State,
        metadata: Metadata,
        feeds: Mapping[str, DeviceArray],
        outputs: Mapping[str, DeviceArray],
        stream: int,
    ) -> None:
        self._guarded = guarded
        self._state = state
        _check_complete("input", feeds, metadata.inputs)
        _check_complete("output", outputs, metadata.outputs)
        self._inputs = {info.name: (index, info) for index, info in enumerate(metadata.inputs)}
        self._infos = metadata.outputs
        self._targets = [outputs[info.name] for info in metadata.outputs]
        self._feeds = dict(feeds)
        self._made: dict[str, DeviceArray] = {}
        self._error: HipCompilerError | None = None
        self._tensors = (abi.Tensor * max(1, len(metadata.inputs)))()
        for name, array in feeds.items():
            self._point(name, array)
        for info, array in zip(self._infos, self._targets, strict=True):
            _check(info, array, "output")
            if array.address % ALIGNMENT:
                raise _refused(f"the array for output '{info.name}' does not start at a multiple of {ALIGNMENT} bytes")
        flags = (ctypes.c_uint8 * max(1, len(metadata.inputs)))(*(1 for _ in metadata.inputs))
        self._callback = abi.AllocateOutput(self._allocate)
        self._io = abi.Io(self._tensors, len(metadata.inputs), None, self._callback, flags, 1, stream or None)

    def resize(self, name: str, array: DeviceArray) -> None:
        """Tie another array, or the same memory with other extents, to an input.

        Raises:
            HipCompilerError: `HIPC0700`, when it does not fit the input.
        """
        self._guarded(lambda: self._point(name, array))

    def run(self) -> dict[str, DeviceArray]:
        """Run the model, on the stream given.

        On a stream of the caller's the outputs are complete when the stream is; else when this returns.

        Returns:
            Every output by name, with the extents it has.

        Raises:
            HipCompilerError: `HIPC0700`, when an array is too small; `HIPC0701`, when an operator fails.
        """
        return self._guarded(self._run)  # type: ignore[no-any-return]

    def _run(self) -> dict[str, DeviceArray]:
        self._made, self._error = {}, None
        status = self._state.compute(self._state.pointer, ctypes.pointer(self._io))
        if status:
            raise self._error or self._state.failure(status, "the run failed")
        return self._made

    def _point(self, name: str, array: DeviceArray) -> None:
        if name not in self._inputs:
            raise _refused(f"the model has no input '{name}'", hint=f"it has {', '.join(self._inputs)}")
        index, info = self._inputs[name]
        _check(info, array, "input")
        tensor = self._tensors[index]
        rank = len(array.shape)
        tensor.data, tensor.dtype, tensor.rank = array.address, info.dtype.onnx, rank
        tensor.shape[:rank] = array.shape
        tensor.strides[:rank] = row_major_strides(array.shape)
        self._feeds[name] = array

    def _allocate(self, _: int | None, index: int, dtype: int, rank: int, extents: Any) -> int | None:
        # Compiled code calls this: no exception may leave it.
        info, target = self._infos[index], self._targets[index]
        try:
            self._made[info.name] = target.reshaped(tuple(extents[:rank]))
        except HipCompilerError as error:
            self._error = _refused(f"output '{info.name}': {error.what}", hint="bind a larger array")
            return None
        return target.address


def _check_complete(kind: str, given: Mapping[str, DeviceArray], infos: tuple[TensorInfo, ...]) -> None:
    names = [info.name for info in infos]
    details = [f"missing: {name}" for name in names if name not in given]
    details += [f"unknown: {name}" for name in given if name not in names]
    if details:
        raise HipCompilerError(
            ErrorCode.FEED,
            f"the arrays given do not name the model's {kind}s",
            details=details,
            hint=f"it has {', '.join(names)}",
        )


def _check(info: TensorInfo, array: DeviceArray, kind: str) -> None:
    if array.dtype != info.dtype.numpy:
        raise _refused(f"the array for {kind} '{info.name}' has element type {array.dtype}, not {info.dtype.numpy}")
    if kind == "input" and len(array.shape) != len(info.shape):
        raise _refused(f"the array for input '{info.name}' has rank {len(array.shape)}, not {len(info.shape)}")


def _refused(what: str, *, hint: str = "") -> HipCompilerError:
    return HipCompilerError(ErrorCode.FEED, what, hint=hint)
