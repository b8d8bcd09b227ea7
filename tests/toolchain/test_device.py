"""Device code: images, packs, their reader, and the report on kernels."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from hip_compiler.cli.main import main
from hip_compiler.errors import HipCompilerError
from hip_compiler.runtime import devicecode, kernelreport
from hip_compiler.toolchain import codeobject, device, notes
from hip_compiler.toolchain.device import SAME_CODE, WORKAROUND, build_images, write_pack
from tests.device.machine import SOURCES
from tests.kernels.harness import CACHE

FIRST = """
#include "hipc_device.h"
KERNEL(64) twice_f32(float *x) { x[hipc::thread()] *= 2; }
"""
SECOND = """
#include "hipc_device.h"
KERNEL(256) shared_f32(float *x) {
  SHARED float memory[256];
  memory[hipc::thread()] = x[hipc::thread()];
  hipc::barrier();
  x[hipc::thread()] = memory[255 - hipc::thread()];
}
"""


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sources, three architectures: what a plugin's build does."""
    folder = tmp_path_factory.mktemp("device")
    for name, text in (("first", FIRST), ("second", SECOND)):
        (folder / f"{name}.hip").write_text(text)
    sources = sorted(folder.glob("*.hip"))
    return write_pack(build_images(sources, folder, ("gfx1151", "gfx9-4-generic", "sm_90")), folder / "own.pack")


def test_a_pack_gives_back_its_images(pack: Path) -> None:
    found = devicecode.read(pack)
    assert list(found) == ["gfx1151", "gfx9-4-generic", "sm_90"]
    image = found.get("gfx1151")
    assert len(image) == found.size("gfx1151")
    assert found.get("sm_90").endswith(b"\0")
    code = codeobject.read(image)
    assert code.architecture == "gfx1151"
    assert sorted(code.kernels) == ["shared_f32", "twice_f32"]
    assert code.kernels["shared_f32"].lds == 1024
    assert code.kernels["twice_f32"].max_threads == 64
    assert code.kernels["twice_f32"].arguments[0] == codeobject.Argument(0, 8, "global_buffer")
    with pytest.raises(HipCompilerError, match="no device kernels for 'gfx1030'"):
        found.get("gfx1030")


def test_one_note_lists_the_kernels_of_all_sources(pack: Path, tmp_path: Path) -> None:
    """A loader reads the first note of a code object alone."""
    readelf = shutil.which("llvm-readelf-22")
    if readelf is None:
        pytest.skip("llvm-readelf-22 is not on the path")
    (tmp_path / "x.co").write_bytes(devicecode.read(pack).get("gfx1151"))
    text = subprocess.run([readelf, "-n", tmp_path / "x.co"], capture_output=True, text=True, check=True).stdout
    assert text.count("NT_AMDGPU_METADATA") == 1
    assert ".name:           shared_f32" in text and ".name:           twice_f32" in text


def _sections(image: bytes) -> dict[str, bytes]:
    """Code and kernel descriptors of a code object."""
    at, count, names_index = (
        struct.unpack_from(form, image, where)[0] for form, where in (("<Q", 40), ("<H", 60), ("<H", 62))
    )
    headers = [struct.unpack_from("<IIQQQQ", image, at + 64 * index) for index in range(count)]
    names = headers[names_index][4]
    found = {}
    for name, _, _, _, offset, size in headers:
        title = image[names + name : image.index(b"\0", names + name)].decode()
        if title in (".text", ".rodata"):
            found[title] = image[offset : offset + size]
    return found


@pytest.mark.parametrize(("architecture", "other"), SAME_CODE.items())
def test_architectures_that_are_said_to_have_the_same_code(
    architecture: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SOURCES / "softmax.hip"
    if architecture in WORKAROUND:
        feature = ("-Xclang", "-target-feature", "-Xclang", f"+{WORKAROUND[architecture]}")
        monkeypatch.setattr(device, "FLAGS", (*device.FLAGS, *feature))
    own = build_images([source], CACHE, [architecture], stem="own-code")[architecture].read_bytes()
    monkeypatch.undo()
    shared = build_images([source], CACHE, [architecture], stem="same-code", same_code=SAME_CODE)[
        architecture
    ].read_bytes()
    assert codeobject.read(shared).architecture == architecture
    assert codeobject.read(shared).kernels == codeobject.read(own).kernels
    assert _sections(shared) == _sections(own)
    assert other not in shared.decode("latin-1")


def test_no_kernel_asks_for_an_architecture_that_shares_its_code() -> None:
    macros = {f"__{name.replace('-', '_')}__" for pair in SAME_CODE.items() for name in pair}
    for file in (*SOURCES.glob("*"), *SOURCES.parent.joinpath("include").rglob("*.h")):
        assert not [macro for macro in macros if macro in file.read_text()], file.name


def test_a_kernel_twice_is_an_error(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.hip").write_text(FIRST)
    with pytest.raises(HipCompilerError, match="HIPC0501"):
        build_images(sorted(tmp_path.glob("*.hip")), tmp_path, ("gfx1151",))


def test_what_does_not_compile_says_why(tmp_path: Path) -> None:
    (tmp_path / "bad.hip").write_text("KERNEL(64) nothing")
    with pytest.raises(HipCompilerError, match=r"HIPC0503: bad.hip does not compile for gfx1151"):
        build_images([tmp_path / "bad.hip"], tmp_path, ("gfx1151",))


@pytest.mark.parametrize("content", [b"", b"{}\n", b'{"format": 2, "images": []}\n', b"not json\n"])
def test_damaged_packs(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.pack").write_bytes(content)
    with pytest.raises(HipCompilerError, match="HIPC0503"):
        devicecode.read(tmp_path / "x.pack")
    with pytest.raises(HipCompilerError, match="are not built"):
        devicecode.read(tmp_path / "none.pack")


@pytest.mark.parametrize("value", [0, 127, 300, "name", ["a", [1]], {"x": {"y": True}, "n": None}])
def test_metadata_round_trip(value: object) -> None:
    note = notes.merge([{"amdhsa.kernels": [], "value": value}], "gfx1151")
    found = codeobject.decode_metadata(note, 0, len(note))
    assert found["value"] == value


def test_bytes_that_are_no_code_object() -> None:
    for image in (b"", b"\x7fELF" + bytes(60), bytes(100)):
        with pytest.raises(HipCompilerError, match="no AMDGPU code object"):
            codeobject.read(image)


def test_the_command_lists_builds_and_reports(pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "list", "--pack", str(pack), "--arch", "gfx1151,sm_90"]) == 0
    assert "twice_f32" in capsys.readouterr().out
    assert main(["kernels", "report", "--pack", str(pack), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(row["architecture"], row["kernel"]) for row in rows} == {
        (architecture, kernel)
        for architecture in ("gfx1151", "gfx9-4-generic")
        for kernel in ("shared_f32", "twice_f32")
    }
    assert all(row["waves"] >= 1 and row["vgprs"] >= 1 and row["scratch"] == 0 for row in rows)
    source = pack.parent / "first.hip"
    assert main(["kernels", "build", str(source), "--out", str(tmp_path / "out.pack"), "--arch", "gfx942"]) == 0
    assert list(devicecode.read(tmp_path / "out.pack")) == ["gfx942"]
    assert main(["kernels", "list", "--pack", str(tmp_path / "none.pack")]) == 1


def test_a_kernel_that_spills_more_than_its_budget() -> None:
    row = kernelreport.Row("gfx1151", "k", 256, 0, 10, 0, 24, 6, 4)
    assert kernelreport.over_budget([row], {"gfx1151": {"k": 24}}) == []
    found = kernelreport.over_budget([row], {"gfx1151": {"other": 24}})
    assert found == ["k on gfx1151: 24 bytes of scratch (6 spilled registers), 0 allowed"]


def test_no_kernel_of_the_library_is_over_its_budget() -> None:
    """`kernels/budget.json` holds the bytes of scratch that are known and accepted."""
    budget = json.loads((Path(__file__).parents[2] / "kernels" / "budget.json").read_text())
    library = devicecode.read()
    rows = [row for name in library if not name.startswith("sm_") for row in kernelreport.rows(name, library.get(name))]
    assert len(rows) > 100
    assert kernelreport.over_budget(rows, budget) == []
