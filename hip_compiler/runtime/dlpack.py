"""DLPack in: tensors of other libraries without a copy; those of the CPU as NumPy views.

NumPy's own importer knows none of the narrow types (bfloat16, the 8-bit floats); the capsule is read here.
Structures and codes: https://github.com/dmlc/dlpack, `dlpack.h`, version 1.1.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from hip_compiler.errors import ErrorCode, HipCompilerError

_CPU_DEVICES = {1: "CPU", 3: "CUDA host", 11: "ROCm host"}
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed", 14: "oneAPI"}

_DTYPES: dict[tuple[int, int], np.dtype[Any]] = {
    (code, bits): np.dtype(name)
    for code, letter, widths in ((0, "int", (8, 16, 32, 64)), (1, "uint", (8, 16, 32, 64)), (2, "float", (16, 32, 64)))
    for bits in widths
    for name in (f"{letter}{bits}",)
} | {
    (4, 16): np.dtype(ml_dtypes.bfloat16),
    (5, 64): np.dtype(np.complex64),
    (5, 128): np.dtype(np.complex128),
    (6, 8): np.dtype(np.bool_),
    (10, 8): np.dtype(ml_dtypes.float8_e4m3fn),
    (11, 8): np.dtype(ml_dtypes.float8_e4m3fnuz),
    (12, 8): np.dtype(ml_dtypes.float8_e5m2),
    (13, 8): np.dtype(ml_dtypes.float8_e5m2fnuz),
    (14, 8): np.dtype(ml_dtypes.float8_e8m0fnu),
}


DTYPE_CODES = {dtype: codes for codes, dtype in _DTYPES.items()}
"""Type code and bits of each element type."""


class Tensor(ctypes.Structure):
    """`DLTensor`."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Memory:
    """Keeps the capsule alive as long as a view of its tensor is; its destructor frees the tensor."""

    def __init__(self, capsule: object, interface: dict[str, Any]) -> None:
        self._capsule = capsule
        self.__array_interface__ = interface


@dataclass(frozen=True)
class Exported:
    """A tensor behind a capsule, which owns it.

    Attributes:
        strides: in bytes; None: row-major without gaps.
    """

    capsule: object
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: np.dtype[Any]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def from_dlpack(tensor: Any, name: str) -> np.ndarray:
    """A read-only view of a CPU tensor.

    Args:
        tensor: an object with `__dlpack__`.
        name: name of the input, for messages.

    Raises:
        HipCompilerError: `HIPC0700`, when the tensor is not on the CPU, refuses, or has an unknown type.
    """
    if hasattr(tensor, "__dlpack_device__"):
        device, _ = tensor.__dlpack_device__()
        if int(device) not in _CPU_DEVICES:
            where = _DEVICES.get(int(device), f"device type {int(device)}")
            raise _refused(name, f"is on {where}, not on the CPU", hint="copy it to the CPU first")
    exported = read_capsule(tensor, name)
    dtype = exported.dtype
    memory = _Memory(
        exported.capsule,
        {
            "version": 3,
            "shape": exported.shape,
            "typestr": f"|V{dtype.itemsize}",
            "data": (exported.address, True),
            "strides": exported.strides,
        },
    )
    return np.asarray(memory).view(dtype)


def read_capsule(tensor: Any, name: str, stream: int | None = None) -> Exported:
    """What a tensor of any device exports.

    Args:
        tensor: an object with `__dlpack__`.
        name: name of the input, for messages.
        stream: for memory of a device: the stream that will use it, as DLPack's protocol numbers streams.

    Raises:
        HipCompilerError: `HIPC0700`, when the tensor refuses, or has an unknown type.
    """
    try:
        capsule = tensor.__dlpack__() if stream is None else tensor.__dlpack__(stream=stream)
        # The capsule is not marked as consumed: it stays the owner, and frees the tensor when it goes.
        address = _capsule_pointer(capsule, b"dltensor")
    except (BufferError, RuntimeError, ValueError, TypeError) as error:
        raise _refused(name, f"does not export its memory: {error}", hint="pass a NumPy array") from error
    view = Tensor.from_address(address)
    dtype = _DTYPES.get((view.code, view.bits)) if view.lanes == 1 else None
    if dtype is None:
        raise _refused(name, f"has DLPack type code {view.code}, {view.bits} bits, {view.lanes} lanes")
    strides = tuple(view.strides[axis] * dtype.itemsize for axis in range(view.rank)) if view.strides else None
    shape = tuple(view.shape[: view.rank])
    return Exported(capsule, (view.data or 0) + view.byte_offset, shape, strides, dtype)


def _refused(name: str, what: str, hint: str = "") -> HipCompilerError:
    return HipCompilerError(ErrorCode.FEED, f"input '{name}' {what}", hint=hint)
