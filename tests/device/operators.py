"""Runs operators of the runtime for GPUs on emulated GPUs, over the fake HIP, and compares them with the host runtime.

The host runtime is checked against oracles of its own in `tests/kernels`; here both get the same operands.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np

from hip_compiler.dtypes import BY_NUMPY
from hip_compiler.runtime import cpu, devicecode, native
from hip_compiler.runtime.jit import Program
from hip_compiler.toolchain.device import build_images
from tests.device.machine import SOURCES
from tests.fake_hip import FakeHip
from tests.gpu_runtime import harness as gpu
from tests.kernels import harness as host

MakeHip = Callable[..., FakeHip]
OutputSpec = tuple[Sequence[int], Any]
TOLERANCE = {"float64": 1e-12, "float32": 3e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


@cache
def _program() -> Program:
    """All of the runtime for GPUs."""
    bitcode = Path(host.build().build_gpu(host.CACHE)["amd"])
    module = llvm.parse_bitcode(bitcode.read_bytes())
    machine = cpu.host().target_machine()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return Program([machine.emit_object(module)])


@cache
def _library() -> Any:
    """The kernels of the package, by architecture; empty where they are older than a source."""
    pack = native.FOLDER / "kernels.pack"
    files = [*SOURCES.iterdir(), *SOURCES.parent.joinpath("include").rglob("*.h")]
    if not pack.is_file() or pack.stat().st_mtime < max(file.stat().st_mtime for file in files):
        return {}
    return devicecode.read(pack)


@cache
def library(architecture: str, *sources: str) -> bytes:
    """A code object of some sources of `kernels/device`, and of what the runtime itself launches.

    It is that of the library, which has them all, where that is built from the sources as they are.
    """
    if architecture in _library():
        return _library().get(architecture)
    paths = [SOURCES / f"{source}.hip" for source in (*sources, "move")]
    stem = "test-" + "-".join(sources)
    return build_images(paths, host.CACHE, [architecture], stem=stem)[architecture].read_bytes()


class _Context(gpu.Context):
    def function(self, name: str, result: Any = ctypes.c_int32) -> Any:
        return ctypes.CFUNCTYPE(result)(_program().address(name))


def _tensor(address: int, shape: Sequence[int], dtype: Any) -> Any:
    found = gpu.tensor(address, shape, np.float32)
    found.dtype = BY_NUMPY[np.dtype(dtype)].onnx
    return found


def call(
    make_hip: MakeHip,
    architecture: str,
    sources: Sequence[str],
    symbol: str,
    inputs: Sequence[Any],
    outputs: Sequence[OutputSpec],
    *attributes: Any,
) -> list[Any]:
    """As `tests.kernels.harness.call`, on an emulated GPU whose kernels come from `sources`.

    Every tensor is an allocation of its own on the device, so that the fake HIP notices what is out of bounds.

    Raises:
        RunError: the function, or the end of the run, returned a status other than 0.
    """
    hip = make_hip(architecture, load=None)
    files = {
        "device/index": f"{architecture}\n".encode(),
        f"device/{architecture}.library": library(architecture, *sources),
    }
    state = _Context("amd", files, 0, False, 0)
    taken: list[int] = []

    def block(data: bytes) -> int:
        place = ctypes.c_void_p()
        assert hip.hipMalloc(ctypes.addressof(place), max(1, len(data))) == 0
        assert place.value is not None
        taken.append(place.value)
        ctypes.memmove(place.value, data, len(data))
        return place.value

    try:
        state.begin([])
        keep: list[Any] = []
        arguments: list[Any] = []
        for value in inputs:
            found = None
            if value is not None:
                array = np.ascontiguousarray(value)
                found = _tensor(block(array.tobytes()), value.shape, array.dtype)
            keep.append(found)
            arguments.append(None if found is None else ctypes.byref(found))
        places = []
        for shape, dtype in outputs:
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            places.append(block(bytes([host.PATTERN]) * size))
            keep.append(_tensor(places[-1], shape, dtype))
            arguments.append(ctypes.byref(keep[-1]))
        for attribute in attributes:
            arguments += host._attribute(attribute, keep)
        status = state.function(symbol)(state.handle, *arguments)
        if status:
            raise gpu.RunError(status, state.last_error())
        results = []
        for (shape, dtype), place in zip(outputs, places, strict=True):
            result = np.empty(shape, dtype)
            raw = ctypes.create_string_buffer(max(1, result.nbytes))
            state.call("hipc_read", raw, ctypes.c_void_p(place), result.nbytes)
            results.append(np.frombuffer(raw.raw[: result.nbytes], np.dtype(dtype)).reshape(shape).copy())
        state.end()
        return results
    finally:
        state.close()
        for address in taken:
            hip.hipFree(address)


def check(
    make_hip: MakeHip,
    architecture: str,
    sources: Sequence[str],
    symbol: str,
    inputs: Sequence[Any],
    outputs: Sequence[OutputSpec],
    *attributes: Any,
    factor: float = 1.0,
) -> list[Any]:
    """Both runtimes give the same: whole numbers exactly, floats within the tolerance of their type."""
    expected = host.call(symbol, inputs, outputs, *attributes)
    actual = call(make_hip, architecture, sources, symbol, inputs, outputs, *attributes)
    for ours, theirs in zip(actual, expected, strict=True):
        compare(ours, theirs, factor)
    return actual


def compare(actual: Any, expected: Any, factor: float = 1.0) -> None:
    """Relative to the largest magnitude of what is expected."""
    name = expected.dtype.name
    if name not in TOLERANCE:
        np.testing.assert_array_equal(actual, expected)
        return
    expected, actual = expected.astype(np.float64), actual.astype(np.float64)
    finite = np.abs(expected[np.isfinite(expected)])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE[name] * factor * finite.max(initial=1e-30))


BF16 = ml_dtypes.bfloat16
FLOATS = (np.float32, np.float16, BF16)
