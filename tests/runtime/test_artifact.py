"""Artifacts: damage is told in a sentence, machine code is made again when it does not fit, writers are atomic."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import Artifact, Metadata, Session, cpu
from hip_compiler.runtime.abi import ABI_VERSION
from tests.runtime import programs

ROOT = Path(__file__).parents[2]


def save_affine(folder: Path) -> Artifact:
    values = np.arange(100, dtype=np.float32)
    return programs.save(folder, programs.affine_program(400), write_constants=lambda path: values.tofile(path))


def edit(folder: Path, **fields: Any) -> None:
    path = folder / "metadata.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_metadata_round_trip() -> None:
    first = programs.metadata(
        "int4", ("n", 3, "?0"), ops={"hip.matmul": 2}, arena={"peak": 64}, libraries=("libm.so.6",)
    )
    assert Metadata.from_json(first.to_json()) == first


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**40) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
FIELDS = sorted(json.loads(programs.metadata().to_json()))


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, min_size=1))
@settings(deadline=None, max_examples=300)
def test_any_change_of_the_metadata_is_understood_or_refused(changes: dict[str, Any]) -> None:
    document = json.loads(programs.metadata().to_json()) | changes
    try:
        found = Metadata.from_json(json.dumps(document))
    except HipCompilerError as error:
        assert error.code == ErrorCode.ARTIFACT
    else:
        assert Metadata.from_json(found.to_json()).inputs == found.inputs


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "[" * 100000])
def test_what_is_no_metadata(text: str) -> None:
    with pytest.raises(HipCompilerError, match="description of the artifact is damaged"):
        Metadata.from_json(text)


def test_constants_are_mapped(tmp_path: Path, runtime: Path) -> None:
    artifact = save_affine(tmp_path / "m.hipc")
    assert artifact.metadata.constants is not None
    assert artifact.metadata.constants.bytes == 400
    with Session(tmp_path / "m.hipc", runtime_bitcode=runtime) as session:
        x = np.array([1, 2, 3], np.float32)
        np.testing.assert_array_equal(session.run({"x": x})["y"], [2, 5, 8])
        maps = Path("/proc/self/maps").read_text()
        assert str(tmp_path / "m.hipc" / "constants.bin") in maps
    assert str(tmp_path / "m.hipc" / "constants.bin") not in Path("/proc/self/maps").read_text()


def test_save_and_load_again(tmp_path: Path, runtime: Path) -> None:
    with Session(save_affine(tmp_path / "a.hipc"), runtime_bitcode=runtime) as session:
        assert session.save(tmp_path / "deep" / "b.hipc") == tmp_path / "deep" / "b.hipc"
        assert session.save(tmp_path / "a.hipc") == tmp_path / "a.hipc"
    with Session(tmp_path / "deep" / "b.hipc", runtime_bitcode=runtime) as session:
        assert not session.relinked
        assert session.run({"x": [2.0]})["y"] == [4]


def test_a_temporary_artifact_goes_with_its_session(runtime: Path) -> None:
    from hip_compiler.runtime import publish

    artifact = publish(programs.metadata(), programs.copy_program())
    folder = artifact.folder
    session = Session(artifact, runtime_bitcode=runtime)
    del artifact
    assert session.run({"x": [2.0]})["y"] == [2]
    assert folder.is_dir()
    session.close()
    del session
    assert not folder.exists()


Damage = Callable[[Path], object]


@pytest.mark.parametrize(
    ("damage", "code", "words"),
    [
        (lambda f: (f / "model.bc").unlink(), ErrorCode.ARTIFACT, "model.bc cannot be read"),
        (lambda f: (f / "model.bc").write_bytes(b"BC"), ErrorCode.ARTIFACT, "not the file that metadata.json"),
        (lambda f: (f / "constants.bin").unlink(), ErrorCode.ARTIFACT, "constants.bin cannot be read"),
        (lambda f: os.truncate(f / "constants.bin", 399), ErrorCode.ARTIFACT, "399 bytes instead of 400"),
        (lambda f: (f / "metadata.json").unlink(), ErrorCode.ARTIFACT, "metadata.json cannot be read"),
        (lambda f: os.truncate(f / "metadata.json", 100), ErrorCode.ARTIFACT, "description of the artifact is damaged"),
        (lambda f: (f / "metadata.json").write_bytes(b"\xff"), ErrorCode.ARTIFACT, "description of the artifact"),
        (lambda f: edit(f, format=99), ErrorCode.ARTIFACT, "format 99 is not 1"),
        (lambda f: edit(f, inputs=[{"name": "x"}]), ErrorCode.ARTIFACT, "there is no 'dtype'"),
        (
            lambda f: edit(f, inputs=[{"name": "x", "dtype": "f", "shape": []}]),
            ErrorCode.ARTIFACT,
            "not an element type",
        ),
        (lambda f: edit(f, opt_level=9), ErrorCode.ARTIFACT, "9 is not an optimisation level"),
        (lambda f: edit(f, constants={"file": "../c", "bytes": 1}), ErrorCode.ARTIFACT, "not the name of a file"),
        (lambda f: edit(f, abi_version=7), ErrorCode.ABI_MISMATCH, f"version 7, this package has {ABI_VERSION}"),
        (lambda f: edit(f, runtime="moon"), ErrorCode.TARGET_UNKNOWN, "whose runtime 'moon' is not at hand"),
        (lambda f: edit(f, runtime=5), ErrorCode.ARTIFACT, "description of the artifact is damaged"),
        (lambda f: f.rename(f.with_name("gone")), ErrorCode.ARTIFACT, "there is no artifact folder"),
        (lambda f: edit(f, libraries=["libnowhere.so"]), ErrorCode.LINK, "libnowhere.so cannot be loaded"),
        (lambda f: edit(f, constants=None), ErrorCode.RUN_FAILED, "no constants to map"),
    ],
)
def test_damage_is_told(tmp_path: Path, runtime: Path, damage: Damage, code: ErrorCode, words: str) -> None:
    folder = tmp_path / "m.hipc"
    save_affine(folder)
    damage(folder)
    given = None if code == ErrorCode.TARGET_UNKNOWN else runtime
    with pytest.raises(HipCompilerError) as caught:
        Session(folder, runtime_bitcode=given)
    assert caught.value.code == code
    assert words in str(caught.value)


def objects(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("model.*.o"))


def relinks(folder: Path, runtime: Path) -> bool:
    with Session(folder, runtime_bitcode=runtime) as session:
        np.testing.assert_array_equal(session.run({"x": [5.0]})["y"], [5])
        return session.relinked


def test_machine_code_is_kept_and_made_again(tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "m.hipc"
    programs.save(folder)
    assert relinks(folder, runtime)
    (first,) = objects(folder)
    assert not relinks(folder, runtime)
    (folder / first).unlink()
    assert relinks(folder, runtime)

    content = (folder / first).read_bytes()
    (folder / first).write_bytes(content[:-100])
    assert relinks(folder, runtime)
    (folder / first).write_bytes(content[:200] + b"X" + content[201:])
    assert relinks(folder, runtime)
    assert (folder / first).read_bytes() == content

    other = dataclasses.replace(cpu.host(), name="x86-64", features="")
    monkeypatch.setattr(cpu, "host", lambda: other)
    assert relinks(folder, runtime)
    assert len(objects(folder)) == 2
    monkeypatch.undo()

    newer = programs.RUNTIME.replace("i64 64)", "i64 128)")
    assert newer != programs.RUNTIME
    runtime.write_bytes(programs.bitcode(newer))
    assert relinks(folder, runtime)
    assert len(objects(folder)) == 3


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "m.hipc"
    programs.save(folder)

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("hip_compiler.runtime.artifact.write_file", refuse)
    assert relinks(folder, runtime)
    assert objects(folder) == []
    with pytest.raises(HipCompilerError) as caught:
        programs.save(Path("/proc/nowhere/m.hipc"))
    assert caught.value.code == ErrorCode.ARTIFACT


def test_replacing_an_artifact_that_runs(tmp_path: Path, runtime: Path) -> None:
    folder = tmp_path / "m.hipc"
    with Session(save_affine(folder), runtime_bitcode=runtime) as session:
        programs.save(folder)
        assert session.run({"x": [5.0]})["y"] == [10]
        with Session(folder, runtime_bitcode=runtime) as other:
            assert other.run({"x": [5.0]})["y"] == [5]
        assert session.run({"x": [5.0, 5.0]})["y"][1] == 11
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.hipc", "runtime.bc"]


@pytest.mark.parametrize("existing", [False, True])
def test_a_killed_writer_leaves_the_old_artifact_or_none(tmp_path: Path, existing: bool) -> None:
    folder = tmp_path / "m.hipc"
    if existing:
        programs.save(folder)
    script = """
        import os, signal, sys
        from pathlib import Path
        from tests.runtime import programs

        def die(path):
            path.write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)

        programs.save(Path(sys.argv[1]), write_constants=die)
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(folder)], cwd=ROOT, check=False)
    assert result.returncode == -9
    if existing:
        assert Artifact.load(folder).metadata.constants is None
    else:
        assert not folder.exists()

    # What it left is removed by a later writer, once it is certainly nobody's.
    (left,) = tmp_path.glob(".m.hipc.*")
    programs.save(folder)
    assert left.exists()
    os.utime(left, (0, 0))
    programs.save(folder)
    assert not left.exists()
    assert Artifact.load(folder).metadata.name == "test"


def test_two_writers_and_a_reader(tmp_path: Path) -> None:
    folder = tmp_path / "m.hipc"
    programs.save(folder)
    failures: list[Exception] = []

    def write(name: str) -> None:
        try:
            for _ in range(20):
                program = programs.copy_program(log=f"/dev/null/{name}")
                programs.save(folder, program, dataclasses.replace(programs.metadata(), name=name))
        except (HipCompilerError, OSError) as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(name,)) for name in ("first", "second")]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        # Opened once, an artifact is read through its folder: what it reads is one writer's, or is refused as damaged.
        artifact = Artifact.load(folder)
        seen.add(artifact.metadata.name)
    for writer in writers:
        writer.join()
    assert not failures
    assert seen <= {"test", "first", "second"}
    assert Artifact.load(folder).model_bitcode()
    assert [path.name for path in tmp_path.iterdir()] == ["m.hipc"]


def test_a_session_is_of_one_generation(tmp_path: Path, runtime: Path) -> None:
    folder = tmp_path / "m.hipc"
    constants = np.full(4, 100, np.float32)
    plain = programs.copy_program()
    affine = programs.affine_program(16)
    stop = threading.Event()

    def publish(name: str) -> None:
        description = dataclasses.replace(programs.metadata(), name=name)
        if name == "plain":
            programs.save(folder, plain, description)
        else:
            programs.save(folder, affine, description, write_constants=lambda path: constants.tofile(path))

    def redeploy() -> None:
        while not stop.is_set():
            publish("affine")
            publish("plain")

    publish("plain")
    writer = threading.Thread(target=redeploy)
    writer.start()
    try:
        for _ in range(20):
            with Session(folder, 1, runtime_bitcode=runtime) as session:
                expected = {"plain": 5, "affine": 110}[session.metadata.name]
                assert session.run({"x": [5.0]})["y"] == [expected]
    finally:
        stop.set()
        writer.join()


def test_the_abi_is_that_of_the_header() -> None:
    header = (ROOT / "kernels" / "include" / "hipc.h").read_text()
    (version,) = re.findall(r"#define HIPC_ABI_VERSION (\d+)", header)
    assert int(version) == ABI_VERSION


def test_running_needs_no_compiler(tmp_path: Path, runtime: Path) -> None:
    save_affine(tmp_path / "m.hipc")
    script = """
        import sys

        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("torch_mlir", "mlir", "onnx", "pluggy") or name == "hip_compiler.core":
                    raise ImportError(f"{name} must not be needed")

        sys.meta_path.insert(0, Refuse())
        from pathlib import Path
        import hip_compiler
        from hip_compiler.runtime import Session

        with Session(sys.argv[1], runtime_bitcode=Path(sys.argv[2])) as session:
            print(session.run({"x": [4.0, 5.0]})["y"].tolist())
        try:
            import torch_mlir
        except ImportError:
            print("refused")
    """
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), str(tmp_path / "m.hipc"), str(runtime)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.splitlines() == ["[8.0, 11.0]", "refused"], result.stderr
