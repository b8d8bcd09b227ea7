"""`plugins/vendor_add` on real networks: installed, their additions run through the vendor's kernel; else not."""

from __future__ import annotations

import re
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from hip_compiler.cli.feeds import write_npz
from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime import Artifact, native
from tests.models import find
from tests.plugins.conftest import ROOT, Site, build_plugin

CALL = re.compile(r"call i32 @vendor_wrap_add\(")
TOLERANCE = 1e-5
"""Of the output's scale: the vendor's additions are not fused into the operations around them."""


def poison(source: Path) -> None:
    """The vendor's kernel, made to give wrong sums."""
    file = source / "native" / "vendor_add.cpp"
    text = file.read_text()
    wrong = text.replace("out[i] = a[i] + b[i]", "out[i] = a[i] + b[i] + 1").replace(
        "out[i] = a[i * a_step] + b[i * b_step]", "out[i] = a[i * a_step] + b[i * b_step] + 1"
    )
    assert wrong.count("+ 1;") == 2 + text.count("+ 1;")
    file.write_text(wrong)


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Site:
    try:
        native.find()
    except HipCompilerError as error:
        pytest.skip(str(error))
    return build_plugin(tmp_path_factory.mktemp("vendor"), "vendor_add")


def compiled(site: Site, model: Path, feeds: Path, *options: str, plugins: str | None = None) -> dict[str, np.ndarray]:
    """Outputs of a model, compiled with what is installed; the artifact stays in the site's scratch folder."""
    artifact = site.scratch / "model.hipc"
    done = site.cli("compile", str(model), "-o", str(artifact), *options, plugins=plugins)
    assert done.returncode == 0, done.stderr
    outputs = site.scratch / "outputs.npz"
    done = site.cli("run", str(artifact), "-i", str(feeds), "--save", str(outputs))
    assert done.returncode == 0, done.stderr
    with np.load(outputs) as file:
        return dict(file)


def calls(site: Site) -> int:
    """Calls of the vendor's function in the program last compiled; its summary says the same."""
    artifact = Artifact.load(site.scratch / "model.hipc")
    count = len(CALL.findall(str(llvm.parse_bitcode(artifact.model_bitcode()))))
    assert artifact.metadata.ops.get("vendor.add", 0) == count
    return count


def taken(dumps: Path) -> int:
    """Additions that carry the vendor's domain after its pass."""
    (file,) = dumps.glob("*-vendor-take-adds.mlir")
    return sum('"onnx.Add"' in line and '"com.vendor"' in line for line in file.read_text().splitlines())


def distance(value: np.ndarray, expected: np.ndarray) -> float:
    """Greatest difference, of the scale of what is expected."""
    scale = np.abs(expected.astype(np.float64)).max()
    assert value.shape == expected.shape and scale > 0
    return float(np.abs(value.astype(np.float64) - expected).max() / scale)


@pytest.mark.models
@pytest.mark.parametrize("key", ["minilm_l3", pytest.param("mtcnn_rnet", marks=pytest.mark.thorough)])
def test_a_networks_additions_run_through_it_only_when_it_takes_part(vendor: Site, key: str, tmp_path: Path) -> None:
    model = find(key)
    feeds = tmp_path / "feeds.npz"
    write_npz(feeds, model.feeds())
    bare = Site.make(tmp_path / "bare")
    builtin = compiled(bare, model.path(), feeds)
    assert calls(bare) == 0
    unselected = compiled(vendor, model.path(), feeds, plugins="")
    assert calls(vendor) == 0
    for name, expected in builtin.items():
        np.testing.assert_array_equal(unselected[name], expected)
    mine = compiled(vendor, model.path(), feeds, "--dump-dir", str(tmp_path / "dump"))
    assert calls(vendor) == taken(tmp_path / "dump") > 0
    poisoned = compiled(build_plugin(tmp_path / "poisoned", "vendor_add", poison), model.path(), feeds)
    for name, expected in builtin.items():
        assert distance(mine[name], expected) <= TOLERANCE
    assert max(distance(poisoned[name], expected) for name, expected in builtin.items()) > 100 * TOLERANCE


def test_its_own_tests_pass(vendor: Site) -> None:
    tests = ROOT / "plugins" / "vendor_add" / "tests"
    done = vendor.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tests), "-c", "/dev/null")
    assert done.returncode == 0, done.stdout
    assert "10 passed" in done.stdout
