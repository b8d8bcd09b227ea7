"""Compiled models and a runtime small enough to write by hand, in LLVM IR: the tests need no C compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from hip_compiler.dtypes import BY_NAME
from hip_compiler.runtime import Artifact, Bitcode, Metadata, TensorInfo, publish

# The context: 0 io, 8 size of constants.bin, 16 constants, 24 num_threads, 32 message, 40 arena bytes.
RUNTIME = r"""
declare ptr @calloc(i64, i64)
declare void @free(ptr)
@file = internal constant [14 x i8] c"constants.bin\00"
@missing = internal constant [20 x i8] c"no constants to map\00"
@empty = internal constant [1 x i8] zeroinitializer

define i32 @hipc_init(ptr %result, ptr %fs, i64 %bytes) {
  %context = call ptr @calloc(i64 1, i64 64)
  store ptr %context, ptr %result
  %threads.at = getelementptr i8, ptr %fs, i64 16
  %threads = load i32, ptr %threads.at
  %kept = getelementptr i8, ptr %context, i64 24
  store i32 %threads, ptr %kept
  %none = icmp eq i64 %bytes, 0
  br i1 %none, label %done, label %map
map:
  %self = load ptr, ptr %fs
  %map.at = getelementptr i8, ptr %fs, i64 8
  %function = load ptr, ptr %map.at
  %size = getelementptr i8, ptr %context, i64 8
  %memory = call ptr %function(ptr %self, ptr @file, ptr %size)
  %constants = getelementptr i8, ptr %context, i64 16
  store ptr %memory, ptr %constants
  %null = icmp eq ptr %memory, null
  br i1 %null, label %fail, label %done
fail:
  %status = call i32 @hipc_fail(ptr %context, i32 7, ptr @missing)
  ret i32 %status
done:
  ret i32 0
}
define void @hipc_cleanup(ptr %context) {
  call void @free(ptr %context)
  ret void
}
define ptr @hipc_last_error(ptr %context) {
  %at = getelementptr i8, ptr %context, i64 32
  %message = load ptr, ptr %at
  %null = icmp eq ptr %message, null
  %text = select i1 %null, ptr @empty, ptr %message
  ret ptr %text
}
define i32 @hipc_fail(ptr %context, i32 %status, ptr %place) {
  %at = getelementptr i8, ptr %context, i64 32
  store ptr %place, ptr %at
  ret i32 %status
}
define i64 @hipc_arena_bytes(ptr %context) {
  %at = getelementptr i8, ptr %context, i64 40
  %bytes = load i64, ptr %at
  ret i64 %bytes
}
define i32 @hipc_trim(ptr %context) {
  %at = getelementptr i8, ptr %context, i64 40
  store i64 0, ptr %at
  ret i32 0
}
define i32 @hipc_begin(ptr %context, ptr %io, ptr %specs, i64 %inputs, i64 %symbols) {
  store ptr %io, ptr %context
  %at = getelementptr i8, ptr %context, i64 40
  store i64 4096, ptr %at
  ret i32 0
}
define ptr @hipc_constants(ptr %context) {
  %at = getelementptr i8, ptr %context, i64 16
  %memory = load ptr, ptr %at
  ret ptr %memory
}
define ptr @hipc_alloc_output(ptr %context, i64 %index, i32 %dtype, i32 %rank, ptr %shape) {
  %io = load ptr, ptr %context
  %allocator.at = getelementptr i8, ptr %io, i64 16
  %allocator = load ptr, ptr %allocator.at
  %function.at = getelementptr i8, ptr %io, i64 24
  %function = load ptr, ptr %function.at
  %number = trunc i64 %index to i32
  %memory = call ptr %function(ptr %allocator, i32 %number, i32 %dtype, i32 %rank, ptr %shape)
  ret ptr %memory
}
define float @hipc_twice(float %x) {
  %y = fmul float %x, 2.0
  ret float %y
}
define i32 @hipc_unused(ptr %context) {
  %status = call i32 @nowhere(ptr %context)
  ret i32 %status
}
declare i32 @nowhere(ptr)
"""

_ENTRY_POINTS = r"""
declare i32 @hipc_init(ptr, ptr, i64)
declare void @hipc_cleanup(ptr)
declare ptr @hipc_last_error(ptr)
declare i32 @hipc_begin(ptr, ptr, ptr, i64, i64)
declare i32 @hipc_fail(ptr, i32, ptr)
declare ptr @hipc_constants(ptr)
declare ptr @hipc_alloc_output(ptr, i64, i32, i32, ptr)
declare float @hipc_twice(float)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @open(ptr, i32, i32)
declare i64 @write(i32, ptr, i64)
declare i32 @close(i32)
@metadata = internal constant [3 x i8] c"{}\00"
@place = internal constant [22 x i8] c"node /a/b (MatMul): x\00"
@log = internal constant [LOGSIZE x i8] c"LOGFILE\00"
@mark = internal constant [1 x i8] c"c"
@name = internal constant [2 x i8] c"x\00"
@dims = internal constant [8 x i64] [i64 -1, i64 -2, i64 -3, i64 -4, i64 -5, i64 -6, i64 -7, i64 -8]
@spec = internal constant { ptr, i32, i32, ptr } { ptr @name, i32 DTYPE, i32 RANK, ptr @dims }

define i32 @inference_init(ptr %state, ptr %fs) {
  %status = call i32 @hipc_init(ptr %state, ptr %fs, i64 CONSTANTS)
  ret i32 %status
}
define void @inference_cleanup(ptr %state) {
  ; 0x441: write only, create, append
  %file = call i32 @open(ptr @log, i32 1089, i32 420)
  %written = call i64 @write(i32 %file, ptr @mark, i64 1)
  %closed = call i32 @close(i32 %file)
  call void @hipc_cleanup(ptr %state)
  ret void
}
define ptr @inference_last_error(ptr %state) {
  %message = call ptr @hipc_last_error(ptr %state)
  ret ptr %message
}
define ptr @inference_get_metadata_json() {
  ret ptr @metadata
}
"""

_PROLOGUE = r"""
define i32 @inference_compute(ptr %state, ptr %io) {
  %begun = call i32 @hipc_begin(ptr %state, ptr %io, ptr @spec, i64 1, i64 8)
  %input = load ptr, ptr %io
  %data = load ptr, ptr %input
  %rank.at = getelementptr i8, ptr %input, i64 12
  %rank = load i32, ptr %rank.at
  %shape = getelementptr i8, ptr %input, i64 16
"""

# y = a copy of x, whatever its rank
_COPY = (
    _PROLOGUE
    + r"""
  %out = call ptr @hipc_alloc_output(ptr %state, i64 0, i32 DTYPE, i32 %rank, ptr %shape)
  %null = icmp eq ptr %out, null
  br i1 %null, label %refused, label %count
refused:
  ret i32 6
count:
  br label %loop
loop:
  %i = phi i32 [ 0, %count ], [ %next, %body ]
  %size = phi i64 [ ITEMSIZE, %count ], [ %product, %body ]
  %more = icmp slt i32 %i, %rank
  br i1 %more, label %body, label %copy
body:
  %extent.at = getelementptr i64, ptr %shape, i32 %i
  %extent = load i64, ptr %extent.at
  %product = mul i64 %size, %extent
  %next = add i32 %i, 1
  br label %loop
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %data, i64 %size, i1 false)
  ret i32 0
}
"""
)

# y = 2 * x + constants, of rank 1 and float
_AFFINE = (
    _PROLOGUE
    + r"""
  %constants = call ptr @hipc_constants(ptr %state)
  %out = call ptr @hipc_alloc_output(ptr %state, i64 0, i32 1, i32 1, ptr %shape)
  %extent = load i64, ptr %shape
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %next, %body ]
  %more = icmp slt i64 %i, %extent
  br i1 %more, label %body, label %done
body:
  %x.at = getelementptr float, ptr %data, i64 %i
  %c.at = getelementptr float, ptr %constants, i64 %i
  %y.at = getelementptr float, ptr %out, i64 %i
  %x = load float, ptr %x.at
  %c = load float, ptr %c.at
  %twice = call float @hipc_twice(float %x)
  %y = fadd float %twice, %c
  store float %y, ptr %y.at
  %next = add i64 %i, 1
  br label %loop
done:
  ret i32 0
}
"""
)

_FAILING = (
    _PROLOGUE
    + r"""
  %status = call i32 @hipc_fail(ptr %state, i32 3, ptr @place)
  ret i32 %status
}
"""
)


def bitcode(text: str) -> bytes:
    """Bitcode of LLVM IR text."""
    module = llvm.parse_assembly(text)
    module.verify()
    return bytes(module.as_bitcode())


def copy_program(dtype: str = "float", rank: int = 1, log: str = "/dev/null") -> bytes:
    return _program(_COPY, log=log, dtype=dtype, rank=rank)


def affine_program(constants: int) -> bytes:
    return _program(_AFFINE, constants)


def failing_program() -> bytes:
    return _program(_FAILING)


def _program(compute: str, constants: int = 0, log: str = "/dev/null", dtype: str = "float", rank: int = 1) -> bytes:
    words = {
        "LOGSIZE": len(log) + 1,
        "LOGFILE": log,
        "CONSTANTS": constants,
        "DTYPE": BY_NAME[dtype].onnx,
        "ITEMSIZE": BY_NAME[dtype].size,
        "RANK": rank,
    }
    text = _ENTRY_POINTS + compute
    for word, value in words.items():
        text = text.replace(word, str(value))
    return bitcode(text)


def metadata(dtype: str = "float", shape: tuple[int | str, ...] = ("n",), **fields: Any) -> Metadata:
    """Of a model that makes y from x, both of one type and shape."""
    row = BY_NAME[dtype]
    return Metadata("test", "host", (TensorInfo("x", row, shape),), (TensorInfo("y", row, shape),), **fields)


def save(
    folder: Path,
    program: bytes | None = None,
    description: Metadata | None = None,
    plugins: Sequence[Bitcode] = (),
    write_constants: Callable[[Path], object] | None = None,
) -> Artifact:
    return publish(
        description or metadata(),
        program or copy_program(),
        folder=folder,
        plugins=plugins,
        write_constants=write_constants,
    )
