"""A loaded model that runs."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from hip_compiler import knobs
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import abi
from hip_compiler.runtime.artifact import Artifact
from hip_compiler.runtime.binding import Binding
from hip_compiler.runtime.compounds import Texts, pack_feeds, unpack_outputs
from hip_compiler.runtime.device_array import DeviceArray
from hip_compiler.runtime.device_binding import DeviceBinding
from hip_compiler.runtime.feeds import check_extents, check_names, to_array
from hip_compiler.runtime.load import load_folder, load_native, load_path
from hip_compiler.runtime.metadata import Metadata, ValueInfo
from hip_compiler.runtime.native_file import NativeArtifact
from hip_compiler.runtime.outputs import OutputAllocator, address_of, fill_tensor
from hip_compiler.runtime.state import Placement


class Session:
    """A compiled model, loaded into this process.

    One run happens at a time: calls from several threads wait for each other. Close the session, leave its
    `with` block, or drop it, and everything is given back.

    Args:
        artifact: the compiled model, or the path of its folder or native file.
        num_threads: threads of a run; 0: HIPC_NUM_THREADS, else one per available core.
        runtime_bitcode: runtime of the artifact's target; None: this package's host runtime. A native artifact has
            its own.
        device: number of the GPU, for a model that was compiled for GPUs.
        graph_capture: GPUs: from the second run on, runs that repeat are replayed as one graph.

    Attributes:
        seconds: how long each step of loading took.
        relinked: the artifact had no machine code for this CPU and runtime, and it was generated.

    Raises:
        HipCompilerError: `HIPC0600`, `HIPC0601` for an artifact that does not load; `HIPC0501`, `HIPC0403`,
            `HIPC0500`, `HIPC0503` for one that does not link; `HIPC0701` when it cannot be initialised.
    """

    def __init__(
        self,
        artifact: Artifact | NativeArtifact | str | os.PathLike[str],
        num_threads: int = 0,
        *,
        runtime_bitcode: Path | None = None,
        device: int = 0,
        graph_capture: bool = False,
    ) -> None:
        if num_threads < 0:
            raise HipCompilerError(ErrorCode.USAGE, f"{num_threads} is no number of threads", hint="0: one per core")
        placement = Placement(num_threads or knobs.NUM_THREADS.read(), device, graph_capture)
        if isinstance(artifact, Artifact):
            loaded = load_folder(artifact, placement, runtime_bitcode)
        elif isinstance(artifact, NativeArtifact):
            loaded = load_native(artifact, placement)
        else:
            loaded = load_path(Path(artifact), placement, runtime_bitcode)
        self._artifact = loaded.artifact
        self._state = loaded.state
        self._finalizer = weakref.finalize(self, self._state.close)
        self.seconds: Mapping[str, float] = loaded.seconds
        self.relinked = loaded.relinked
        metadata = self._artifact.metadata
        self._inputs = metadata.values_of(metadata.inputs)
        self._outputs = metadata.values_of(metadata.outputs)
        self._lock = threading.Lock()
        self._allocator = OutputAllocator(metadata.outputs)
        self._tensors = (abi.Tensor * max(1, len(metadata.inputs)))()
        # An element of a ctypes array is a new object on every access: keep one of each.
        self._slots = [
            (info.name, None if info.dtype.is_narrow_integer else info.dtype.numpy, info, self._tensors[index])
            for index, info in enumerate(metadata.inputs)
        ]
        for _, _, info, tensor in self._slots:
            tensor.dtype = info.dtype.onnx
        self._shapes: list[tuple[int, ...]] | None = None
        self._io = abi.Io(self._tensors, len(metadata.inputs), None, self._allocator.callback)
        self._io_pointer = ctypes.pointer(self._io)

    @property
    def inputs(self) -> tuple[ValueInfo, ...]:
        """Name and type of every input: tensors, whose string extents are symbols, sequences and optionals."""
        return self._inputs

    @property
    def outputs(self) -> tuple[ValueInfo, ...]:
        """Name and type of every output: tensors, whose string extents are symbols, sequences and optionals."""
        return self._outputs

    @property
    def metadata(self) -> Metadata:
        """What the artifact says about itself."""
        return self._artifact.metadata

    @property
    def arena_bytes(self) -> int:
        """Bytes of transient memory held now."""
        with self._lock:
            self._check_open()
            return self._state.arena_bytes()

    def run(self, feeds: Mapping[str, Any], *, outputs: Mapping[str, np.ndarray] | None = None) -> dict[str, Any]:
        """Run the model.

        Args:
            feeds: one array per input name: NumPy arrays, CPU tensors with `__dlpack__`, or (nested) numbers.
                Element types must be the model's; nothing is cast. Extents must fit; each run may have others.
                A sequence is a list of arrays; an optional may be None; strings are arrays or lists of `str`.
            outputs: arrays that receive outputs, by name: C-contiguous, of the output's type and shape. An array
                that is also the feed which `metadata.shared` pairs with the output is updated in place.

        Returns:
            Every output by name, in the model's order: arrays, those of `outputs` the ones given; a list of arrays
            for a sequence; None for an optional that holds nothing; `object` arrays of `str` for strings.

        Raises:
            HipCompilerError: `HIPC0700`, when feeds or output arrays do not fit; `HIPC0701`, with the operator's
                name, when an operator fails.
        """
        if self.metadata.compounds or self.metadata.strings.names:
            texts = Texts(self.metadata.strings)
            packed = pack_feeds(feeds, self._inputs, texts)
            return unpack_outputs(self._run(packed, outputs), self._outputs, texts)
        return self._run(feeds, outputs)

    def _run(self, feeds: Mapping[str, Any], outputs: Mapping[str, np.ndarray] | None) -> dict[str, np.ndarray]:
        """Run the program, whose inputs and outputs are tensors."""
        with self._lock:
            self._check_open()
            arrays = self._bind(feeds)
            if outputs:
                arrays = self._separate(arrays, outputs)
            self._allocator.begin(outputs or {})
            try:
                status = self._state.compute(self._state.pointer, self._io_pointer)
                if status:
                    raise self._allocator.error or self._state.failure(status, "the run failed")
                return self._allocator.take()
            finally:
                self._allocator.forget()

    def bind(self, feeds: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> Binding:
        """Tie arrays to inputs and outputs for many runs; their memory is read and written where it lies.

        Sequences and strings are bound by the tensors of the program, `metadata.inputs` and `metadata.outputs`. An
        array that is both a feed and the output that `metadata.shared` pairs with it is a cache that grows in place:
        its extent is the capacity, and how much of it counts is the model's business.

        Args:
            feeds: C-contiguous arrays by input name, of the input's element type.
            outputs: writable C-contiguous arrays by output name that start at a multiple of 64 bytes
                (`hip_compiler.runtime.empty`).

        Raises:
            HipCompilerError: `HIPC0700`, when an array cannot be used as it is, or two share memory that must not.
        """
        with self._lock:
            self._check_open()
            return Binding(self._guarded, self._state, self.metadata, feeds, outputs)

    def bind_device(
        self, feeds: Mapping[str, DeviceArray], outputs: Mapping[str, DeviceArray], stream: int = 0
    ) -> DeviceBinding:
        """Tie arrays in memory of the GPU, or in pinned memory that it reaches, to every input and output.

        Args:
            feeds: arrays by input name; what is under way on them must be ordered before the stream.
            outputs: arrays by output name that start at a multiple of 64 bytes, at least as large as the outputs.
            stream: address of a stream of the device (`hipStream_t`, `torch.cuda.Stream.cuda_stream`); 0: the
                session's own.

        Raises:
            HipCompilerError: `HIPC0700`, when one is missing, or has another element type or rank.
        """
        with self._lock:
            self._check_open()
            return DeviceBinding(self._guarded, self._state, self.metadata, feeds, outputs, stream)

    def _guarded(self, action: Callable[[], Any]) -> Any:
        with self._lock:
            self._check_open()
            return action()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save the compiled model: an artifact folder with the machine code for this CPU, or a native artifact.

        A reader of the path sees the old contents or the new ones. Returns the path.

        Raises:
            HipCompilerError: `HIPC0600`, when the path cannot be written to.
        """
        saved = self._artifact.save(path)
        return saved.path if isinstance(saved, NativeArtifact) else saved.folder

    def trim(self) -> None:
        """Give transient memory back to the system; the next run takes it again."""
        with self._lock:
            self._check_open()
            self._state.trim()

    def close(self) -> None:
        """Give everything back. Waits for a run that is under way; a second call does nothing."""
        with self._lock:
            self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        def describe(infos: tuple[ValueInfo, ...]) -> str:
            return ", ".join(str(info) for info in infos)

        return f"<Session {self.metadata.name}: {describe(self.inputs)} -> {describe(self.outputs)}>"

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise HipCompilerError(
                ErrorCode.USAGE, "the session is closed", hint="load the model again: hip_compiler.load(path)"
            )

    def _bind(self, feeds: Mapping[str, Any]) -> list[np.ndarray]:
        """Check the feeds and point the ABI's tensors at them. The arrays must outlive the run."""
        arrays: list[np.ndarray] = []
        try:
            for name, dtype, info, _ in self._slots:
                value = feeds[name]
                if type(value) is not np.ndarray or value.dtype != dtype or not value.flags.carray:
                    value = to_array(value, info)
                arrays.append(value)
        except KeyError:
            check_names(feeds, self.metadata.inputs)
            raise
        if len(feeds) != len(arrays):
            check_names(feeds, self.metadata.inputs)
        shapes = [array.shape for array in arrays]
        if shapes != self._shapes:
            self._shapes = None
            for array, (_, dtype, info, _) in zip(arrays, self._slots, strict=True):
                if dtype is not None:  # the others are converted, and were checked then
                    to_array(array, info)
            check_extents(arrays, self.metadata.inputs)
            for array, (_, _, _, tensor) in zip(arrays, self._slots, strict=True):
                fill_tensor(tensor, array)
            self._shapes = shapes
        self._point_at(arrays)
        return arrays

    def _point_at(self, arrays: list[np.ndarray]) -> None:
        for array, (_, _, _, tensor) in zip(arrays, self._slots, strict=True):
            tensor.data = address_of(array)

    def _separate(self, arrays: list[np.ndarray], outputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Copy feeds that lie in memory which the run will write, but for a cache that grows in place."""
        targets = {name: array for name, array in outputs.items() if isinstance(array, np.ndarray)}
        partners = dict(self.metadata.shared)
        kept = []
        for info, array in zip(self.metadata.inputs, arrays, strict=True):
            partner = partners.get(info.name)
            shared = any(
                np.may_share_memory(array, target) and not (name == partner and _same_buffer(array, target))
                for name, target in targets.items()
            )
            kept.append(array.copy() if shared else array)
        self._point_at(kept)
        return kept


def _same_buffer(a: np.ndarray, b: np.ndarray) -> bool:
    return address_of(a) == address_of(b) and a.shape == b.shape and a.dtype == b.dtype
