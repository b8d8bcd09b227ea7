"""The runtime ABI of `kernels/include/hipc.h` in ctypes."""

from __future__ import annotations

import ctypes

ABI_VERSION = 2
MAX_RANK = 8

INIT = "inference_init"
COMPUTE = "inference_compute"
CLEANUP = "inference_cleanup"
LAST_ERROR = "inference_last_error"
METADATA = "inference_get_metadata_json"
ENTRY_POINTS = (INIT, COMPUTE, CLEANUP, LAST_ERROR, METADATA)

ARENA_BYTES = "hipc_arena_bytes"
TRIM = "hipc_trim"
BOUND_OUTPUT = "hipc_bound_output"
EVENTS = "hipc_events"
SERVICES = (ARENA_BYTES, TRIM, EVENTS)
"""Runtime functions that a session calls itself; the state of `inference_init` is the context they take."""

INPUT_ERROR = 5
STATUS_WORDS = {
    1: "unsupported element type, rank or variant",
    2: "extents contradict each other",
    3: "an index is outside its axis",
    4: "memory ran out",
    5: "an input does not fit the interface",
    6: "the output allocator returned no memory",
    7: "the constants file is missing or too short",
    8: "a value is outside the operator's domain",
    9: "internal error",
    10: "the device, or a library that it needs, failed or is missing",
}


class Tensor(ctypes.Structure):
    """`hipc_tensor`. Strides count elements."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_RANK),
        ("strides", ctypes.c_int64 * MAX_RANK),
    ]


MapFile = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64))
AllocateOutput = ctypes.CFUNCTYPE(
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_int64),
)


class Files(ctypes.Structure):
    """`hipc_fs`."""

    _fields_ = [
        ("self", ctypes.c_void_p),
        ("map", MapFile),
        ("num_threads", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("graph_capture", ctypes.c_int32),
    ]


class Io(ctypes.Structure):
    """`hipc_io`."""

    _fields_ = [
        ("inputs", ctypes.POINTER(Tensor)),
        ("num_inputs", ctypes.c_int64),
        ("allocator", ctypes.c_void_p),
        ("alloc_output", AllocateOutput),
        ("inputs_on_device", ctypes.POINTER(ctypes.c_uint8)),
        ("outputs_on_device", ctypes.c_int32),
        ("stream", ctypes.c_void_p),
    ]


class BoundOutputs(ctypes.Structure):
    """`hipc_bound_outputs` of `kernels/host/bound_outputs.cpp`."""

    _fields_ = [
        ("tensors", ctypes.POINTER(Tensor)),
        ("count", ctypes.c_int64),
        ("allocator", ctypes.c_void_p),
        ("otherwise", AllocateOutput),
    ]


Init = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(Files))
Compute = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(Io))
Cleanup = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
LastError = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)
ArenaBytes = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
Trim = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
