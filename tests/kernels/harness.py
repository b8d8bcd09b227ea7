"""Calls host runtime functions from Python: the runtime as a shared library, with guarded memory around every tensor.

`call("hipc_softmax", [x], [((2, 3), np.float32)], axis, log)` runs a function on a context of its own and returns
its outputs; `call_op(opdef, inputs, outputs, axis=1)` takes the attributes from the operation's definition. Inputs end
at an unreadable page and outputs are filled with a pattern and ringed by guard bytes, so reading or writing out of
bounds shows.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hip_compiler.dtypes import BY_NUMPY
from hip_compiler.registry.contributions import CallLowering, OpDef
from hip_compiler.runtime import native
from hip_compiler.runtime.abi import MAX_RANK, Files, MapFile, Tensor
from hip_compiler.toolchain.bitcode import alone

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "kernels"
GUARD = 64
PATTERN = 0xA5

OutputSpec = tuple[Sequence[int], Any]


class InputSpec(ctypes.Structure):
    """`hipc_input_spec`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    ]


class KernelError(Exception):
    """A runtime function returned a status other than 0."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"status {status}: {message}")
        self.status = status
        self.message = message


@cache
def build() -> Any:
    """The module `kernels/build.py`."""
    from kernels import build as module

    return module


def share_objects(out: Path) -> None:
    """Give a folder that tests build into what the package was built of: only what has changed since is compiled.

    Objects are named by their content and never written in place, so that one file may have two names.
    """
    with alone(out):
        for path in (native.FOLDER / ".objects").glob("*"):
            copy = out / ".objects" / path.name
            if not re.search(r"-[0-9a-f]{24}\.\w+$", path.name) or copy.exists():
                continue
            try:
                copy.hardlink_to(path)
            except OSError:  # another file system
                shutil.copyfile(path, copy)


# What tests run on every level: where the level decides how the code is written, not only how it is compiled.
LEVELLED = (
    "conv.cpp",
    "conv_winograd.cpp",
    "conv_depthwise.cpp",
    "conv_plain.cpp",
    "conversions.cpp",
    "gemm.cpp",
    "global_pool.cpp",
    "matmul.cpp",
    "matmul_nbits.cpp",
    "matmul_nbits_int8.cpp",
    "matmul_plain.cpp",
    "pool.cpp",
    "pooling.cpp",
    "runtime.cpp",
)


def library(level: str | None = None) -> ctypes.CDLL:
    """The host runtime on the strongest level that this machine runs, or its `LEVELLED` part on another level."""
    native = build().native_level().name
    return _load(native if level is None else level, level is None or level == native)


@cache
def _load(level: str, whole: bool) -> ctypes.CDLL:
    levels = {one.name: one for one in build().levels_of(build().host_architecture())}
    sources = None if whole else [build().HOST / name for name in LEVELLED]
    loaded = ctypes.CDLL(str(build().build_shared(CACHE, levels[level], sources)))
    loaded.hipc_last_error.restype = ctypes.c_char_p
    for name in ("hipc_arena_bytes", "hipc_arena_peak"):
        getattr(loaded, name).restype = ctypes.c_int64
    for name in ("hipc_pool", "hipc_scratch", "hipc_alloc_output", "hipc_constants"):
        getattr(loaded, name).restype = ctypes.c_void_p
    return loaded


@contextmanager
def context(threads: int = 1, level: str | None = None) -> Iterator[ctypes.c_void_p]:
    """A context without constants."""
    lib = library(level)
    handle = ctypes.c_void_p()
    status = lib.hipc_init(ctypes.byref(handle), ctypes.byref(Files(None, MapFile(), threads)), ctypes.c_int64(0))
    assert status == 0
    try:
        yield handle
    finally:
        lib.hipc_cleanup(handle)


def check(handle: ctypes.c_void_p, status: int, level: str | None = None) -> None:
    """Raise the kept error of a context when the status is not 0."""
    if status:
        raise KernelError(status, library(level).hipc_last_error(handle).decode())


def guarded(array: np.ndarray) -> np.ndarray:
    """A copy of the array whose last element is followed by a page that cannot be read."""
    page = mmap.PAGESIZE
    size = -(-max(array.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, size + page)
    view = np.frombuffer(memory, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(view.ctypes.data + size), ctypes.c_size_t(page), 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    copy = view[size - array.nbytes : size].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def describe(array: np.ndarray) -> Tensor:
    """The runtime's view of an array."""
    shape, strides = (ctypes.c_int64 * MAX_RANK)(), (ctypes.c_int64 * MAX_RANK)()
    for axis, extent in enumerate(array.shape):
        shape[axis], strides[axis] = extent, array.strides[axis] // array.itemsize
    return Tensor(array.ctypes.data, BY_NUMPY[array.dtype].onnx, array.ndim, shape, strides)


def _attribute(value: Any, keep: list[Any]) -> list[Any]:
    if isinstance(value, bool | int | np.integer):
        return [ctypes.c_int64(int(value))]
    if isinstance(value, float):
        return [ctypes.c_double(value)]
    numbers = list(value)
    element = ctypes.c_double if any(isinstance(number, float) for number in numbers) else ctypes.c_int64
    block = (element * max(len(numbers), 1))(*numbers)
    keep.append(block)
    return [block, ctypes.c_int64(len(numbers))]


def call(
    symbol: str,
    inputs: Sequence[np.ndarray | None],
    outputs: Sequence[OutputSpec],
    *attributes: Any,
    threads: int = 1,
    level: str | None = None,
    handle: ctypes.c_void_p | None = None,
) -> list[np.ndarray]:
    """Call an operator function.

    Args:
        symbol: name of the function.
        inputs: arrays, `None` where an optional input is absent.
        outputs: shape and dtype of each output.
        attributes: in the order of the signature; ints and bools, floats, and sequences of either. A string attribute
            is given by the index of its choice. A floats attribute must hold Python floats.
        threads: threads of the context.
        level: instruction-set level.
        handle: context to run on instead of a new one.

    Raises:
        KernelError: the function returned a status other than 0.
    """
    arrays = [None if value is None else guarded(np.ascontiguousarray(value).reshape(value.shape)) for value in inputs]
    blocks: list[np.ndarray] = []
    results: list[np.ndarray] = []
    for shape, dtype in outputs:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        block = np.full(size + 4 * GUARD, PATTERN, np.uint8)
        start = GUARD + -block.ctypes.data % GUARD
        blocks.append(block)
        results.append(block[start : start + size].view(dtype).reshape(shape))
    keep: list[Any] = []
    arguments: list[Any] = []
    for array in [*arrays, *results]:
        descriptor = None if array is None else describe(array)
        keep.append(descriptor)
        arguments.append(None if descriptor is None else ctypes.byref(descriptor))
    for value in attributes:
        arguments += _attribute(value, keep)
    function = getattr(library(level), symbol)
    if handle is not None:
        check(handle, function(handle, *arguments), level)
    else:
        with context(threads, level) as own:
            check(own, function(own, *arguments), level)
    for array, value in zip(arrays, inputs, strict=True):
        if array is not None and value is not None and array.tobytes() != np.ascontiguousarray(value).tobytes():
            raise AssertionError(f"{symbol} changed an input")
    for block, result in zip(blocks, results, strict=True):
        start = result.ctypes.data - block.ctypes.data if result.size else GUARD
        around = np.concatenate([block[:start], block[start + result.nbytes :]])
        if not (around == PATTERN).all():
            raise AssertionError(f"{symbol} wrote outside an output")
    return results


def call_op(
    op: OpDef,
    inputs: Sequence[np.ndarray | None],
    outputs: Sequence[OutputSpec],
    *,
    threads: int = 1,
    level: str | None = None,
    **attributes: Any,
) -> list[np.ndarray]:
    """Call the function of an operation, attributes by name, defaults filled in, strings as words."""
    assert len(inputs) == len(op.inputs) and len(outputs) == len(op.outputs)
    values = attribute_values(op, attributes)
    assert isinstance(op.lowering, CallLowering)
    return call(op.lowering.symbol, inputs, outputs, *values, threads=threads, level=level)


def attribute_values(op: OpDef, attributes: Mapping[str, Any]) -> list[Any]:
    """Attributes in the order of the function's signature, defaults filled in."""
    unknown = set(attributes) - {attribute.name for attribute in op.attributes}
    assert not unknown, f"{op.name} has no attributes {unknown}"
    values: list[Any] = []
    for attribute in op.attributes:
        value = attributes.get(attribute.name, attribute.default)
        assert value is not None, f"{op.name} needs {attribute.name}"
        if attribute.kind == "string":
            value = attribute.choices.index(value)
        elif attribute.kind == "float":
            value = float(value)
        elif attribute.kind == "floats":
            value = [float(number) for number in value]
        values.append(value)
    return values
