"""The tests of host operators, with their float64 oracles, on an emulated GPU.

Each test function of a suite of `tests/kernels` is run here once more, with a `call_op` that runs the operator of the
runtime for GPUs. What a suite says about the host alone is left out by name.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from hip_compiler.registry.contributions import CallLowering, OpDef
from tests.device.conftest import SHARE
from tests.device.operators import MakeHip, call
from tests.gpu_runtime.harness import RunError
from tests.kernels import (
    test_conv,
    test_conv_transpose,
    test_gather_scatter,
    test_layout,
    test_noise,
    test_norm,
    test_pool,
    test_ranking,
    test_resize,
    test_rnn,
    test_sampling,
    test_selection,
    test_softmax,
    test_spectrum,
    test_unfold,
)
from tests.kernels.harness import KernelError, attribute_values

ARCHITECTURES = ("gfx1151", "gfx90a", "gfx942", "gfx1100", "gfx1201")
"""Each case runs on one of them, so that every family meets all."""
SOURCES = (
    *(
        "conv",
        "conv_transpose",
        "gather",
        "indexing",
        "local_norm",
        "nms",
        "noise",
        "norm",
        "pool",
        "reduce",
        "resize",
        "scan",
        "topk",
    ),
    *("rnn", "sampling", "selection", "softmax", "spectrum"),
)
SUITES: dict[ModuleType, tuple[str, ...]] = {
    test_conv: ("test_errors_say_what_differs",),
    test_conv_transpose: (),
    # The host names the index that is outside; kernels report that there is one, at the end of the run.
    test_gather_scatter: (
        "test_gather_elements_refuses",
        "test_gather_empty",
        "test_gather_nd_refuses",
        "test_gather_refuses_an_index_outside_the_axis",
        "test_scatter_refuses_and_copies",
        "test_tensor_scatter_refuses",
    ),
    test_layout: ("test_reverse_sequence_refuses_long_lengths",),
    test_noise: (),
    test_norm: (),
    test_pool: ("test_errors_say_what_differs",),
    test_ranking: ("test_arg_reduce_edges", "test_topk_refuses_more_than_there_is"),
    test_resize: (),
    test_rnn: ("test_refuses_long_sequences",),
    test_sampling: ("test_roi_align_refuses_and_survives", "test_max_roi_pool_refuses_and_survives"),
    test_selection: ("test_compress_refuses_true_beyond_the_axis", "test_nonzero_refuses_a_wrong_extent"),
    # The exponential of GPUs has no subnormal results.
    test_softmax: ("test_wide_range_to_subnormals",),
    test_spectrum: (),
    test_unfold: (),
}
"""Suites, and their tests that do not concern GPUs."""


@pytest.fixture(autouse=True)
def on_gpu(request: pytest.FixtureRequest, make_hip: MakeHip, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators run on an emulated GPU."""
    # The conftest chooses by the remainder of the same number.
    architecture = ARCHITECTURES[zlib.crc32(request.node.name.encode()) // SHARE % len(ARCHITECTURES)]

    def call_op(
        op: OpDef,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        *,
        threads: int = 1,
        level: str = "",
        **attributes: Any,
    ) -> list[np.ndarray]:
        assert isinstance(op.lowering, CallLowering)
        try:
            return call(
                make_hip, architecture, SOURCES, op.lowering.symbol, inputs, outputs, *attribute_values(op, attributes)
            )
        except RunError as error:
            raise KernelError(error.status, str(error).partition(": ")[2]) from error

    for suite in SUITES:
        monkeypatch.setattr(suite, "call_op", call_op)


def _adopt(suite: ModuleType, left_out: Sequence[str]) -> None:
    stem = suite.__name__.rpartition("test_")[2]
    for name, value in vars(suite).items():
        if name.startswith("test_") and isinstance(value, Callable) and name not in left_out:  # type: ignore[arg-type]
            globals()[f"test_{stem}_{name.removeprefix('test_')}"] = value


for _suite, _left_out in SUITES.items():
    _adopt(_suite, _left_out)
wide_coefficients = test_resize.wide_coefficients
