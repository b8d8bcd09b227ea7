"""Conversions of 16-bit floats that the code generator calls by name, against NumPy and exact arithmetic.

They are called as code of a CPU without the instructions would: a function that converts an array, generated for the
baseline CPU and linked to them.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

from hip_compiler.runtime import objectfile
from hip_compiler.runtime.cpu import Cpu, host
from hip_compiler.runtime.linker import CODEGEN_CALLS
from tests.kernels.harness import library

pytestmark = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="only x86-64 lacks the instructions"
)

LOOP = """
define void @convert(ptr %from, ptr %to, i64 %count) {{
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %next, %loop ]
  %x.at = getelementptr {wide}, ptr %from, i64 %i
  %x = load {wide}, ptr %x.at
  %y = {op} {wide} %x to {narrow}
  %y.at = getelementptr {narrow}, ptr %to, i64 %i
  store {narrow} %y, ptr %y.at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


@cache
def image(source: str, target: str) -> bytes:
    """Object that converts with the baseline CPU."""
    order = ["bfloat", "half", "float", "double"]
    op = "fptrunc" if order.index(target) < order.index(source) else "fpext"
    baseline = Cpu(host().triple, "x86-64", "")
    module = llvm.parse_assembly(LOOP.format(wide=source, narrow=target, op=op))
    module.triple = baseline.triple
    return bytes(baseline.target_machine(0).emit_object(module))


def convert(values: np.ndarray, source: str, target: str, dtype: Any) -> np.ndarray:
    found = objectfile.symbols([image(source, target)])
    called = found.undefined & CODEGEN_CALLS
    assert called, found.undefined
    builder = llvm.JITLibraryBuilder().add_object_img(image(source, target)).export_symbol("convert")
    for name in called:
        builder.import_symbol(name, ctypes.cast(library()[name], ctypes.c_void_p).value)
    jit = llvm.create_lljit_compiler(host().target_machine(), use_jit_link=True)
    linked = builder.link(jit, "conversions")
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(linked["convert"])
    result = np.empty(values.shape, dtype)
    function(values.ctypes.data, result.ctypes.data, values.size)
    linked.close()
    jit.close()
    return result


def interesting(dtype: Any, near: np.ndarray) -> np.ndarray:
    """Random bits, numbers of every size, and the numbers of the narrow type with their midpoints and neighbours."""
    generator = np.random.default_rng(0)
    bits = np.uint32 if dtype is np.float32 else np.uint64
    random = generator.integers(0, np.iinfo(bits).max, 5000, dtype=bits, endpoint=True).view(dtype)
    exact = np.sort(near[np.isfinite(near)].astype(np.float64))
    middle = ((exact[1:] + exact[:-1]) / 2).astype(dtype)
    around = [np.nextafter(middle, dtype(-np.inf)), np.nextafter(middle, dtype(np.inf))]
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], dtype)
    # The midpoint behind the largest number, which rounds to infinity, and its neighbour, which does not.
    over = dtype(exact[-1] + (exact[-1] - exact[-2]) / 2)
    return np.concatenate([random, exact.astype(dtype), middle, *around, special, [over, np.nextafter(over, dtype(0))]])


def all_values(dtype: Any) -> np.ndarray:
    return np.arange(65536, dtype=np.uint16).view(dtype)


def nearest(values: np.ndarray, narrow: Any) -> np.ndarray:
    """Numbers of a narrow type nearest to the values, ties to even; an oracle by search, exact in float64."""
    table = np.arange(int(np.array(np.inf, narrow).view(np.uint16)), dtype=np.uint16)
    numbers = table.view(narrow).astype(np.float64)
    magnitude = np.abs(values.astype(np.float64))
    below = np.clip(np.searchsorted(numbers, magnitude, side="right") - 1, 0, None)
    step = np.append(numbers, 2 * numbers[-1] - numbers[-2])
    low, high = magnitude - step[below], step[below + 1] - magnitude
    up = (high < low) | ((high == low) & (below % 2 == 1))
    result = (below + up).astype(np.uint16)
    result[np.isinf(magnitude)] = table.size
    return result | np.where(np.signbit(values), 0x8000, 0).astype(np.uint16)


def cases() -> Iterator[Any]:
    for source, wide in (("float", np.float32), ("double", np.float64)):
        for target, narrow in (("half", np.float16), ("bfloat", ml_dtypes.bfloat16)):
            yield pytest.param(source, wide, target, narrow, id=f"{source} to {target}")


@pytest.mark.parametrize(("source", "wide", "target", "narrow"), list(cases()))
def test_rounding(source: str, wide: Any, target: str, narrow: Any) -> None:
    with np.errstate(all="ignore"):
        values = interesting(wide, all_values(narrow))
        expected = nearest(values, narrow)
    found = convert(values, source, target, np.uint16)
    nan = np.isnan(values)
    assert nan.any()
    assert np.isnan(found[nan].view(narrow)).all()
    wrong = np.nonzero(~nan & (found != expected))[0]
    assert wrong.size == 0, [(values[i], hex(found[i]), hex(expected[i])) for i in wrong[:5]]


def test_widening() -> None:
    values = all_values(np.float16)
    found = convert(values, "half", "float", np.float32)
    expected = values.astype(np.float32)
    nan = np.isnan(expected)
    assert np.isnan(found[nan]).all()
    np.testing.assert_array_equal(found[~nan].view(np.uint32), expected[~nan].view(np.uint32))
