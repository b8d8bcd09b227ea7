"""Arrays in memory that a GPU reaches, whoever took it: DLPack in and out."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime.dlpack import DTYPE_CODES, Tensor, read_capsule
from hip_compiler.runtime.outputs import row_major_strides

CUDA, CUDA_HOST, ROCM, ROCM_HOST = 2, 3, 10, 11
"""Device types of DLPack for GPUs of HIP's platforms, and for memory of the host that they reach."""


class DeviceArray:
    """A row-major array without gaps, in device memory or in pinned memory of the host.

    Args:
        address: of the first element.
        shape: extents.
        dtype: element type.
        device: device type and number, as DLPack counts.
        owner: what keeps the memory alive.
    """

    def __init__(
        self, address: int, shape: Sequence[int], dtype: Any, device: tuple[int, int], owner: object = None
    ) -> None:
        self.address = address
        self.shape = tuple(shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.device = device
        self._owner = owner

    @classmethod
    def from_dlpack(cls, tensor: Any, stream: int | None = None) -> Self:
        """A tensor of another library, without a copy.

        Args:
            tensor: an object with `__dlpack__`, on a GPU or in pinned memory.
            stream: stream that will use it; the other library makes it wait for what is under way.

        Raises:
            HipCompilerError: `HIPC0700`, when the tensor is elsewhere, has gaps, or refuses.
        """
        kind, number = (int(part) for part in tensor.__dlpack_device__())
        if kind not in (CUDA, CUDA_HOST, ROCM, ROCM_HOST):
            raise HipCompilerError(
                ErrorCode.FEED, "the tensor is not in memory of a GPU", why=f"its DLPack device type is {kind}"
            )
        exported = read_capsule(tensor, "the tensor", stream)
        found = cls(exported.address, exported.shape, exported.dtype, (kind, number), exported.capsule)
        steps = tuple(step * found.dtype.itemsize for step in row_major_strides(found.shape))
        pairs = zip(found.shape, exported.strides or steps, steps, strict=True)
        if any(extent > 1 and given != wanted for extent, given, wanted in pairs):
            raise HipCompilerError(ErrorCode.FEED, "the tensor has gaps", hint="pass tensor.contiguous()")
        return found

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    def reshaped(self, shape: Sequence[int]) -> DeviceArray:
        """The same memory with other extents, of as many elements or fewer.

        Raises:
            HipCompilerError: `HIPC0700`, when there is not as much memory.
        """
        found = DeviceArray(self.address, shape, self.dtype, self.device, self)
        if found.nbytes > self.nbytes:
            raise HipCompilerError(
                ErrorCode.FEED, f"an array of shape {list(self.shape)} has no room for {list(shape)}"
            )
        return found

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> object:
        """A capsule of the memory. It does not wait: synchronise with the run that writes it first."""
        return _export(self)

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype}{list(self.shape)} at {self.address:#x} on {self.device}>"


class _Managed(ctypes.Structure):
    """`DLManagedTensor`."""

    _fields_ = [
        ("tensor", Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


_exported: dict[int, tuple[object, ...]] = {}
"""What capsules in other libraries' hands keep alive, by the address of their structure."""

_NAME = b"dltensor"
"""Name of a capsule, which keeps its address."""

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# Prototypes of their own: attributes of ctypes.pythonapi are shared by everyone in the process.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", ctypes.pythonapi)
)


def _forget(managed: int) -> None:
    _exported.pop(managed, None)


def _forget_unused(capsule: int) -> None:
    # A capsule that nobody has consumed still has its first name.
    if _is_valid(capsule, _NAME):
        _exported.pop(_pointer(capsule, _NAME), None)


_delete = _Deleter(_forget)
_destroy = _Destructor(_forget_unused)


def _export(array: DeviceArray) -> object:
    extents = (ctypes.c_int64 * max(1, len(array.shape)))(*array.shape)
    steps = (ctypes.c_int64 * max(1, len(array.shape)))(*row_major_strides(array.shape))
    code, bits = DTYPE_CODES[array.dtype]
    tensor = Tensor(array.address, *array.device, len(array.shape), code, bits, 1, extents, steps, 0)
    managed = _Managed(tensor, None, ctypes.cast(_delete, ctypes.c_void_p))
    address = ctypes.addressof(managed)
    _exported[address] = (managed, extents, steps, array)
    return _new(address, _NAME, _destroy)
