"""The emulator finds what tests of kernels rely on: memory misused, barriers missing, arguments of the wrong size."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from hip_compiler.toolchain.device import build_images, include_folders
from tests.emulator import Device, EmulationError, Memory, Module, OutOfBounds, pack
from tests.kernels.harness import CACHE

SOURCE = """
#include "hipc_math.h"
using namespace hipc;
KERNEL(256) add(const f32 *a, const f32 *b, f32 *c, i32 n) {
  i32 i = (i32)global_thread();
  if (i < n) c[i] = a[i] + b[i];
}
KERNEL(256) turn(const f32 *x, f32 *y) {
  SHARED f32 shared[256];
  shared[thread()] = x[thread()];
  barrier();
  y[thread()] = shared[255 - thread()];
}
KERNEL(256) turn_at_once(const f32 *x, f32 *y) {
  SHARED f32 shared[256];
  shared[thread()] = x[thread()];
  y[thread()] = shared[255 - thread()];
}
KERNEL(64) unset(f32 *y, i32 n) {
  SHARED f32 shared[64];
  if ((i32)thread() < n) shared[thread()] = 1;
  y[thread()] = shared[thread()];
}
KERNEL(256) loop(const i32 *counts, i32 *y) {
  i32 sum = 0;
  for (i32 i = 0; i < counts[thread()]; i++) sum += i;
  y[thread()] = sum;
}
KERNEL(256) functions(const f32 *x, f32 *y) {
  f32 value = x[thread()];
  y[thread()] = exp_of(value);
  y[256 + thread()] = erf_of(value);
  y[512 + thread()] = tanh_of(value);
  y[768 + thread()] = log_of(abs_of(value));
}
"""
ARCHITECTURES = ("gfx906", "gfx90a", "gfx942", "gfx1100", "gfx1151", "gfx1201")


@cache
def module(architecture: str) -> Module:
    with TemporaryDirectory() as folder:
        source = Path(folder, "test_machine.hip")
        source.write_text(SOURCE)
        image = build_images([source], CACHE, [architecture], include_folders(),
                             stem="test-machine")[architecture]  # fmt: skip
        return Device(architecture).load(image.read_bytes())


def launch(
    code: Module, name: str, threads: int, *arrays: np.ndarray, numbers: tuple[int, ...] = (), **options: bool
) -> None:
    memory = Memory()
    values = [memory.add(array.view(np.uint8)) for array in arrays]
    code.launch(name, (1, 1, 1), (threads, 1, 1), pack(code.kernels[name], [*values, *numbers]), memory, **options)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_lanes_beyond_the_end_are_off(architecture: str) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 77)).astype(np.float32)
    c = np.zeros_like(a)
    launch(module(architecture), "add", 128, a, b, c, numbers=(77,))
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_one_element_too_far(architecture: str) -> None:
    a, b = np.ones((2, 78), np.float32)
    with pytest.raises(OutOfBounds, match=r"add: write of 4 bytes at 0x[0-9a-f]+, 308 bytes into a range of 308"):
        launch(module(architecture), "add", 128, a, b, np.zeros(77, np.float32), numbers=(78,))


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1151"])
def test_a_missing_barrier_shows(architecture: str) -> None:
    x = np.arange(256, dtype=np.float32)
    y = np.zeros_like(x)
    for together in (True, False):
        launch(module(architecture), "turn", 256, x, y, together=together)
        np.testing.assert_array_equal(y, x[::-1])
    launch(module(architecture), "turn_at_once", 256, x, y, together=False)
    assert np.isnan(y).any()


def test_what_was_not_written_is_not_a_number() -> None:
    y = np.zeros(64, np.float32)
    launch(module("gfx1151"), "unset", 64, y, numbers=(0,))
    assert np.isnan(y).all()


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1151", "gfx1201"])
def test_waves_that_part_meet_again(architecture: str) -> None:
    counts = np.random.default_rng(1).integers(0, 9, 256).astype(np.int32)
    y = np.zeros(256, np.int32)
    launch(module(architecture), "loop", 256, counts, y)
    np.testing.assert_array_equal(y, counts * (counts - 1) // 2)


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1151"])
def test_functions_of_the_device_library(architecture: str) -> None:
    from scipy.special import erf

    x = np.linspace(-9, 9, 256, dtype=np.float32)
    y = np.zeros(1024, np.float32)
    launch(module(architecture), "functions", 256, x, y)
    wide = x.astype(np.float64)
    expected = np.concatenate([np.exp(wide), erf(wide), np.tanh(wide), np.log(np.abs(wide))])
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=3e-7)


def test_launches_that_are_refused() -> None:
    code = module("gfx1151")
    with pytest.raises(EmulationError, match="takes 28 bytes of arguments; 8 were given"):
        code.launch("add", (1, 1, 1), (64, 1, 1), bytes(8), Memory())
    with pytest.raises(EmulationError, match="cannot be launched"):
        code.launch("unset", (1, 1, 1), (128, 1, 1), bytes(12), Memory())
    with pytest.raises(EmulationError, match="no kernel nothing"):
        code.launch("nothing", (1, 1, 1), (64, 1, 1), b"", Memory())
    with pytest.raises(EmulationError, match="gfx1300 is not emulated"):
        Device("gfx1300")


def test_ranges_of_memory() -> None:
    memory = Memory()
    block = np.arange(16, dtype=np.uint8)
    address = memory.add(block)
    assert memory.read(address + 3, 2) == b"\3\4"
    with pytest.raises(ValueError, match="overlaps"):
        memory.add(block[4:8])
    with pytest.raises(OutOfBounds):
        memory.read(address + 15, 2)
    memory.remove(address)
    with pytest.raises(OutOfBounds):
        memory.read(address, 1)
