"""Which device, which code, and what is said when something is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.fake_hip import FakeHip
from tests.gpu_runtime.harness import CONSTANTS, DEVICE, RunError, context
from tests.gpu_runtime.stub import GENERATED, LIBRARY, code_object, loader, ptx
from tests.gpu_runtime.test_run import FILES, twice


def files(*architectures: str) -> dict[str, bytes]:
    found = {"device/index": "".join(f"{name}\n" for name in architectures).encode()}
    for name in architectures:
        text = ptx if name.startswith("sm_") else code_object
        found[f"device/{name}.library"] = text({})
        found[f"device/{name}.generated"] = text(GENERATED)
    return found


@pytest.mark.parametrize(
    ("device", "offered"),
    [
        ("gfx90a:sramecc+:xnack-", ["gfx942", "gfx90a"]),
        ("gfx1151", ["gfx11-generic", "gfx1030"]),
        ("gfx1151", ["gfx11-generic", "gfx1151"]),
        ("gfx942:xnack+", ["gfx9-generic", "gfx9-4-generic"]),
        ("gfx1036", ["gfx10-3-generic"]),
        ("gfx1201", ["gfx12-generic", "gfx11-generic"]),
    ],
)
def test_the_best_code_is_chosen(make_hip: Callable[..., FakeHip], device: str, offered: list[str]) -> None:
    make_hip(device)
    exact = [name for name in offered if device.split(":")[0] == name]
    fitting = exact or [name for name in offered if name.endswith("generic")]
    # Only the code that must be chosen is there: any other choice is an error.
    some = files(*offered)
    wanted = fitting[-1] if device.startswith("gfx942") else fitting[0]
    some = {name: content for name, content in some.items() if "index" in name or name.startswith(f"device/{wanted}.")}
    with context(some) as state:
        np.testing.assert_array_equal(twice(state, np.ones(3, np.float32)), np.full(3, 4, np.float32))


@pytest.mark.parametrize("offered", [["gfx1151", "gfx942"], ["gfx11-generic", "gfx10-1-generic"]])
def test_code_for_other_devices_is_refused(make_hip: Callable[..., FakeHip], offered: list[str]) -> None:
    make_hip("gfx1030")
    names = ", ".join(offered)
    words = f"the device is gfx1030; the artifact has code for {names}: compile the model again with --arch gfx1030"
    with pytest.raises(RunError) as caught, context(files(*offered)):
        pass
    assert (caught.value.status, str(caught.value)) == (DEVICE, f"status {DEVICE}: {words}")


def test_code_that_the_driver_refuses(make_hip: Callable[..., FakeHip]) -> None:
    make_hip("gfx1151", load=loader(GENERATED, LIBRARY, {}, refused=["gfx1151"]))
    words = "loading device/gfx1151.library failed on device 0: hipErrorNoBinaryForGpu"
    with pytest.raises(RunError, match=words), context(FILES):
        pass


def test_files_that_are_missing(hip: FakeHip) -> None:
    with pytest.raises(RunError, match="device/index is missing from the artifact"), context():
        pass
    with pytest.raises(RunError, match=r"gfx1151\.library is missing"), context({"device/index": b"gfx1151"}):
        pass
    with pytest.raises(RunError, match=r"constants\.bin is missing") as caught, context(FILES, constants=5):
        pass
    assert caught.value.status == CONSTANTS


def test_several_devices_and_states(make_hip: Callable[..., FakeHip]) -> None:
    hip = make_hip("gfx1151", "gfx942:sramecc+:xnack-")
    both = files("gfx1151", "gfx942")
    x = np.arange(9, dtype=np.float32)
    with context(both, device=1) as second, context(both) as first, context(both, device=1) as third:
        for state in (first, second, third, second):
            np.testing.assert_array_equal(twice(state, x), 4 * x)
            # The application's device is what it was.
            assert hip.device == 0
    assert [entry[0] for entry in hip.launches] == [0, 0] + [1] * 6
    with pytest.raises(RunError, match="there is no device 2; this machine has 2"), context(both, device=2):
        pass


def test_no_device(make_hip: Callable[..., FakeHip]) -> None:
    hip = make_hip()
    hip.architectures = ()
    with pytest.raises(RunError, match="there is no GPU that can be used: hipErrorNoDevice"), context(FILES):
        pass


def test_libraries_that_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HIPC_HIP_LIBRARY", raising=False)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    with pytest.raises(RunError) as caught, context(FILES):
        pass
    assert str(caught.value) == (
        "status 10: the HIP runtime is not found: libamdhip64.so.7, libamdhip64.so.6, libamdhip64.so is neither on the "
        f"loader's search path nor in {tmp_path}/lib; install it, or name the file in HIPC_HIP_LIBRARY"
    )
    monkeypatch.setenv("HIPC_HIP_LIBRARY", "/nowhere/libamdhip64.so")
    with pytest.raises(RunError, match=r"from /nowhere/libamdhip64\.so, which HIPC_HIP_LIBRARY names"), context(FILES):
        pass
    monkeypatch.setenv("HIPC_HIP_LIBRARY", "libm.so.6")
    with pytest.raises(RunError, match="the HIP runtime has no function hipInit: it is too old"), context(FILES):
        pass


@pytest.mark.parametrize(
    ("device", "offered", "chosen"),
    [("sm_90", ["sm_80", "sm_90"], "sm_90"), ("sm_86", ["sm_90", "sm_80"], "sm_80"), ("sm_120", ["sm_90"], "sm_90")],
)
def test_the_nvidia_platform(make_hip: Callable[..., FakeHip], device: str, offered: list[str], chosen: str) -> None:
    hip = make_hip("sm_80", device)
    some = {name: content for name, content in files(*offered).items() if "index" in name or chosen in name}
    x = np.arange(9, dtype=np.float32)
    with context(some, platform="nvidia", device=1, capture=True) as state:
        for _ in range(4):
            np.testing.assert_array_equal(twice(state, x), 4 * x)
    assert hip.device == 0 and hip.calls.count("hipGraphLaunch") == 3
    make_hip("sm_75")
    with pytest.raises(RunError, match="the device is sm_75; the artifact has code for"):
        context(files(*offered), platform="nvidia").__enter__()
