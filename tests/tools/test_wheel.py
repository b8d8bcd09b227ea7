"""What a wheel of hip-compiler holds: everything that the build made, and what plugins are built with."""

from __future__ import annotations

from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from hatch_build import ROOT, copy_headers
from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime.native import FOLDER
from hip_compiler.toolchain import build_bitcode, build_kernels, find_compiler, native_level
from hip_compiler.toolchain.image import read_image

VENDOR = ROOT / "plugins" / "vendor_add"


@pytest.fixture
def headers(tmp_path: Path) -> Path:
    """The headers, as an installation has them."""
    try:
        find_compiler()
    except HipCompilerError as error:
        pytest.skip(str(error))
    copy_headers(tmp_path / "include")
    return tmp_path / "include"


def test_what_the_build_made_is_in_it() -> None:
    inside = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    names = ("native.json", "kernels.pack", "functions-amdgcn.bc", "gpu-amd.bc", "gpu-nvidia.bc", "libhip_ep.so")
    built = [name for name in names if (FOLDER / name).is_file()]
    if not built:
        pytest.skip("nothing is built: python kernels/build.py")
    built += [path.name for path in FOLDER.glob("host-*.bc")] + [path.name for path in FOLDER.glob("host-*.a")]
    assert [name for name in built if f"hip_compiler/_native/{name}" not in inside] == []
    assert not any(path.startswith(("tests/", "plugins/")) or "/.objects/" in path for path in inside)


def test_its_headers_build_a_plugin(headers: Path, tmp_path: Path) -> None:
    assert {"hipc.h", "hipc_device.h"} <= {path.name for path in headers.iterdir()}
    source = tmp_path / "every.hip"
    source.write_text(
        "".join(f'#include "{path.name}"\n' for path in sorted((ROOT / "kernels" / "device").glob("*.h")))
    )
    (tmp_path / "one.hip").write_text("#include <hipc_device.h>\nKERNEL(64) one(float *x) { *x = 1; }\n")
    built = build_kernels([source, tmp_path / "one.hip"], tmp_path / "out", ("gfx1151",), (headers,))
    assert list(read_image(built["gfx1151"].read_bytes()).kernels) == ["one"]
    kernels = VENDOR / "kernels"
    build_kernels([kernels / "vendor_add.hip"], tmp_path / "out", ("gfx1151",), (headers,), stem="vendor_add")
    bitcode = [VENDOR / "native" / "vendor_add_gpu.cpp"]
    build_bitcode(bitcode, tmp_path / "out", (native_level(),), (headers, kernels), export_prefix="vendor_")
