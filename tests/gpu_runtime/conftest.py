"""A fake HIP in the place of the real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fake_hip import FakeHip, build_library
from tests.fake_hip.library import install
from tests.gpu_runtime.stub import GENERATED, LIBRARY, loader
from tests.kernels.harness import CACHE

MakeHip = Callable[..., FakeHip]


@pytest.fixture(scope="session")
def fake_library() -> Path:
    """Path of the fake `libamdhip64.so`."""
    return build_library(CACHE / "fake_hip")


@pytest.fixture
def make_hip(fake_library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeHip]:
    """Makes the `FakeHip` that the runtime finds; what it found, and what was not given back, fails the test."""
    monkeypatch.setenv("HIPC_HIP_LIBRARY", str(fake_library))
    monkeypatch.setenv("HIPC_HIPBLASLT_LIBRARY", str(fake_library))
    made: list[FakeHip] = []

    def make(*architectures: str, **options: object) -> FakeHip:
        made.append(FakeHip(architectures or ("gfx1151",), **({"load": loader(GENERATED, LIBRARY, {})} | options)))  # type: ignore[arg-type]
        made[-1].install(fake_library)
        return made[-1]

    yield make
    # The library stays loaded, and whoever finds it later must not call a fake that is gone: there is no device then.
    install(fake_library, None)
    for hip in made:
        hip.check()


@pytest.fixture
def hip(make_hip: MakeHip) -> FakeHip:
    """A gfx1151 whose code objects are stubs."""
    return make_hip()
