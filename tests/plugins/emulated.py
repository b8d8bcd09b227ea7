"""A GPU for the programs that tests run: a fake HIP over an emulator of its machine code."""

from __future__ import annotations

import os

from tests.fake_hip import FakeHip, build_library
from tests.kernels.harness import CACHE


def emulated_gpu(architecture: str = "gfx1151") -> FakeHip:
    """Make the GPU the one that programs of this process find. Its `check` raises for what was done wrong to it."""
    library = build_library(CACHE / "fake_hip")
    os.environ["HIPC_HIP_LIBRARY"] = os.environ["HIPC_HIPBLASLT_LIBRARY"] = str(library)
    hip = FakeHip((architecture,), load=None)
    hip.install(library)
    return hip
