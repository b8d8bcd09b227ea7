"""The execution provider for ONNX Runtime on GPUs: whole sessions over the fake HIP and an emulated GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from hip_compiler.ort import compile_context, register
from hip_compiler.runtime.native import FOLDER
from tests.fake_hip import FakeHip
from tests.gpu_runtime.test_models import mlp, rows
from tests.ort.models import plain, session

pytestmark = pytest.mark.skipif(
    not (FOLDER / "kernels.pack").is_file(), reason="kernels.pack is not built: python kernels/build.py"
)

MakeHip = Callable[..., FakeHip]


@pytest.fixture(scope="module", autouse=True)
def known_before() -> None:
    """ONNX Runtime knows the provider from before there are GPUs: its tensors stay on the host."""
    register()


def check(made: onnxruntime.InferenceSession, counts: tuple[int, ...]) -> None:
    oracle = plain(mlp())
    for count in counts:
        x = rows(count, seed=count)
        [expected] = oracle.run(None, {"x": x})
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(made.run(None, {"x": x})[0], expected, rtol=1e-5, atol=1e-5)


def test_a_session_on_a_gpu(make_hip: MakeHip) -> None:
    hip = make_hip("gfx1151", "gfx942:sramecc+:xnack-", load=None)
    options = {"target": "amdgpu", "arch": "gfx1151,gfx942", "device_id": "1", "graph_capture": "1", "strict": "1"}
    made = session(mlp(), options)
    check(made, (7, 3, 3, 3))
    assert {entry[0] for entry in hip.launches} == {1}
    assert hip.calls.count("hipGraphLaunch") == 2
    del made


def test_a_context_is_made_where_there_is_no_gpu(make_hip: MakeHip, tmp_path: Path) -> None:
    onnx.save(mlp(), tmp_path / "m.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIPC_HIP_LIBRARY", str(tmp_path / "libmissing.so"))
        made = compile_context(
            tmp_path / "m.onnx", tmp_path / "c.onnx", embed=True, strict=1, target="amdgpu", arch="gfx1151"
        )
        with pytest.raises(Exception, match="libmissing"):
            session(str(made), {"target": "amdgpu"})
    hip = make_hip(load=None)
    check(session(str(made), {"target": "amdgpu"}), (4, 1))
    assert hip.launches
