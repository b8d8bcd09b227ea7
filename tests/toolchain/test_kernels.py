"""Kernels of plugins: for which GPUs they are built, and what a build leaves in the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from hip_compiler import knobs
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.toolchain import build_kernels, built_kernels, find_compiler, gpu_architectures
from hip_compiler.toolchain.device import ARCHITECTURES
from hip_compiler.toolchain.image import read_image

SOURCE = '#include "hipc_device.h"\nKERNEL(64) {name}(float *x, {more}) {{ *x = (float)sizeof(last); }}\n'


def test_they_are_built_for_the_gpus_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(knobs.BUILD_GPUS.name, raising=False)
    assert gpu_architectures() == ARCHITECTURES
    monkeypatch.setenv(knobs.BUILD_GPUS.name, "gfx1151, sm_90")
    assert gpu_architectures() == ("gfx1151", "sm_90")
    monkeypatch.setenv(knobs.BUILD_GPUS.name, "gfx1151,gfx1511")
    with pytest.raises(HipCompilerError, match="HIPC_BUILD_GPUS names gfx1511") as caught:
        gpu_architectures()
    assert caught.value.code == ErrorCode.TARGET_UNKNOWN


def test_a_build_for_other_gpus_leaves_nothing_of_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        find_compiler()
    except HipCompilerError as error:
        pytest.skip(str(error))
    for name, more in (("one", "i64 last"), ("two", "Pair last")):
        text = SOURCE.format(name=name, more=more).replace("KERNEL", "struct Pair { i64 a; f32 b; };\nKERNEL")
        (tmp_path / f"{name}.hip").write_text(text)
    sources, out = sorted(tmp_path.glob("*.hip")), tmp_path / "out"
    monkeypatch.setenv(knobs.BUILD_GPUS.name, "gfx1151,sm_90")
    first = build_kernels(sources, out, stem="acme")
    assert first == built_kernels(out, "acme") == {"gfx1151": out / "acme-gfx1151.co", "sm_90": out / "acme-sm_90.ptx"}
    for architecture, file in first.items():
        image = read_image(file.read_bytes())
        assert image.architecture == architecture
        assert dict(image.kernels) == {"one": (8, 8), "two": (8, 16)}
    other = build_kernels(sources[:1], out, ("gfx942",), stem="acme-more")
    monkeypatch.setenv(knobs.BUILD_GPUS.name, "gfx1151")
    assert list(build_kernels(sources, out, stem="acme")) == ["gfx1151"]
    assert sorted(path.name for path in out.glob("*.*")) == [".objects", "acme-gfx1151.co", "acme-more-gfx942.co"]
    assert built_kernels(out, "acme-more") == other
    assert list(built_kernels(out, "acme")) == ["gfx1151"]
