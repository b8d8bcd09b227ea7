"""`plugins check` finds before shipping what an installation would find; `plugins new` writes a plugin that works."""

from __future__ import annotations

import json
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from tests.plugins.conftest import ROOT, Distribution, Site, marking
from tests.plugins.test_audit import with_producer


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """No plugin installed."""
    return Site.make(tmp_path)


def code_of(text: str, producer: str = "") -> Distribution:
    """A plugin with bitcode of LLVM IR, perhaps of another LLVM."""
    data = bytes(llvm.parse_assembly(text).as_bitcode())
    code = (
        "from pathlib import Path\n@hookimpl\ndef hip_compiler_bitcode():\n"
        "    return [BitcodeContribution('c', 'host', Path(__file__).with_name('c.bc'), 'code_')]"
    )
    return Distribution("code", code, data={"c.bc": with_producer(data, producer) if producer else data})


def checks(site: Site, path: Path) -> tuple[int, dict[str, str]]:
    done = site.cli("plugins", "--json", "check", str(path))
    assert done.stdout, done.stderr
    return done.returncode, {check["name"]: check["problem"] for check in json.loads(done.stdout)}


def test_a_good_wheel_passes_every_check(site: Site, tmp_path: Path) -> None:
    status, found = checks(site, marking("alpha").write_wheel(tmp_path))
    assert status == 0
    assert found == {
        "entry point: plugin 'alpha' of vendor-alpha 1.0": "",
        "API version": "",
        "registration: 2 contributions, audited": "",
        "registers without the MLIR bindings": "",
        "requests at AfterConvertOnnxToHip resolve": "",
        "pass alpha-mark loads": "",
    }


def test_a_source_folder_is_built_first(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # pip reads the variable as the value of --no-build-isolation's destination: false is "no isolation".
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "false")
    status, found = checks(site, ROOT / "plugins" / "sample")
    assert status == 0
    assert found["pass sample-count-ops loads"] == ""


@pytest.mark.parametrize(
    ("distribution", "check", "words"),
    [
        (Distribution("old", "", api="v0"), "API version", "written for version 0"),
        (Distribution("bare", ""), "registration: 0 contributions, audited", "it contributes nothing"),
        (Distribution("gone", "import no_such_package"), "registration", "ModuleNotFoundError"),
        (
            Distribution("heavy", marking("heavy").code + "\nfrom hip_compiler.core.mlir import ir\nir.Context"),
            "registers without the MLIR bindings",
            "registering imports torch_mlir",
        ),
        (
            Distribution("lost", marking("lost").code.replace('"lost-mark")]', '"lost-mrk")]')),
            "requests at AfterConvertOnnxToHip resolve",
            "did you mean 'lost-mark'?",
        ),
        (
            Distribution(
                "lazy",
                "@hookimpl\ndef hip_compiler_passes():\n"
                "    return [PassContribution('lazy-pass', Lazy('no_such_module:Pass'), '', 'func.func')]",
            ),
            "pass lazy-pass loads",
            "No module named 'no_such_module'",
        ),
        (
            Distribution(
                "twice",
                "@hookimpl\ndef hip_compiler_passes():\n    return [PassContribution('hip-bufferize', Nothing, '')]",
            ),
            "registration",
            "HIPC0403: pass or pipeline 'hip-bufferize' is registered by plugin 'builtin'",
        ),
        (
            Distribution(
                "round",
                "@hookimpl\ndef hip_compiler_pipelines():\n"
                "    return [PipelineContribution('round-pipe', lambda options: 'no-such-pass', '')]",
            ),
            "pipeline round-pipe resolves",
            "nothing registers a pass or pipeline 'no-such-pass'",
        ),
        (
            Distribution(
                "moon",
                "from pathlib import Path\n@hookimpl\ndef hip_compiler_targets():\n"
                "    return [TargetContribution('moon', '', lambda: Path('/nowhere.bc'))]",
            ),
            "target moon has a runtime",
            "/nowhere.bc is not a file",
        ),
        (
            Distribution(
                "code",
                "@hookimpl\ndef hip_compiler_bitcode():\n"
                "    return [BitcodeContribution('c', 'host', b'text', 'code_')]",
            ),
            "registration",
            "c: is no LLVM bitcode",
        ),
        (
            code_of("define i32 @helper() {\n  ret i32 1\n}"),
            "registration",
            "c: function 'helper' (external) lacks the prefix 'code_'",
        ),
        (code_of("declare void @f()", "LLVM99"), "registration", "c: made by LLVM99, which is newer than LLVM 22"),
        (
            Distribution(
                "bare",
                "@hookimpl\ndef hip_compiler_libraries():\n    return [LibraryContribution('acme-none', 'host')]",
            ),
            "registration",
            "library 'acme-none' is unknown to the system's loader",
        ),
        (
            Distribution(
                "noslot",
                "@hookimpl\ndef hip_compiler_slot_requests():\n    return [SlotRequest('AfterPoolAlloc', 'cse')]",
            ),
            "registration",
            "there is no slot 'AfterPoolAlloc'; did you mean 'AfterPoolAllocs'?",
        ),
        (
            Distribution(
                "device",
                "@hookimpl\ndef hip_compiler_kernels():\n"
                "    return [KernelContribution('c', 'amdgpu', 'gfx942', b'text', ('device_f',))]",
            ),
            "registration",
            "c for gfx942: the bytes are no device code",
        ),
    ],
)
def test_each_fault_is_found(site: Site, tmp_path: Path, distribution: Distribution, check: str, words: str) -> None:
    status, found = checks(site, distribution.write_wheel(tmp_path))
    assert status == 1
    assert words in found[check]


def test_what_is_no_plugin_or_no_wheel(site: Site, tmp_path: Path) -> None:
    (tmp_path / "text.whl").write_text("nothing")
    done = site.cli("plugins", "check", str(tmp_path / "text.whl"))
    assert done.returncode == 2 and "is neither a wheel nor a folder with a pyproject.toml" in done.stderr
    done = site.cli("plugins", "check", str(tmp_path / "missing"))
    assert done.returncode == 2 and "No such file" in done.stderr


def test_a_new_plugin_passes_its_own_tests_and_the_check(site: Site, tmp_path: Path) -> None:
    done = site.cli("plugins", "new", "acme-fusion", "--in", str(tmp_path))
    folder = tmp_path / "hip-compiler-acme-fusion"
    assert done.returncode == 0 and str(folder) in done.stdout
    site.install(folder)
    assert site.states()["hip-compiler-acme-fusion"]["state"] == "active"
    tests = site.run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder / "tests"))
    assert tests.returncode == 0, tests.stdout
    assert "2 passed" in tests.stdout


def test_a_new_plugin_overwrites_nothing_and_needs_a_fitting_name(site: Site, tmp_path: Path) -> None:
    (tmp_path / "hip-compiler-acme").mkdir()
    done = site.cli("plugins", "new", "acme", "--in", str(tmp_path))
    assert done.returncode == 2 and "File exists" in done.stderr
    done = site.cli("plugins", "new", "Acme Fusion", "--in", str(tmp_path))
    assert done.returncode == 2 and "'Acme Fusion' is no name for a plugin" in done.stderr
