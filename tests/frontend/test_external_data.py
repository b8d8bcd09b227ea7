"""External data: what is read, and what is refused (nothing outside the model's folder is ever opened)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.frontend import external as external_module
from hip_compiler.core.frontend import import_model
from hip_compiler.errors import ErrorCode, HipCompilerError

COUNT = 100
WEIGHTS = np.arange(COUNT, dtype=np.float32) + 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with a data file, beside a file that no model may read."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(b"\0" * 64 + WEIGHTS.tobytes())
    (tmp_path / "secret.bin").write_bytes(b"\0" * 64 + WEIGHTS.tobytes())
    return folder


def model_with(**entries: str) -> onnx.ModelProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[COUNT], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [COUNT])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [COUNT])],
        [tensor],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def load(context: Any, folder: Path, **entries: str) -> np.ndarray:
    path = folder / "net.onnx"
    path.write_bytes(model_with(**entries).SerializeToString())
    pool = ConstantPool()
    import_model(path, context, pool)
    return pool.get("w")


def refused(context: Any, folder: Path, **entries: str) -> HipCompilerError:
    with pytest.raises(HipCompilerError) as caught:
        load(context, folder, **entries)
    assert caught.value.code == ErrorCode.EXTERNAL_DATA
    assert "tensor 'w'" in caught.value.where
    return caught.value


@pytest.mark.parametrize("length", ["400", ""])
def test_data_is_a_view_of_the_mapped_file(context: Any, folder: Path, length: str) -> None:
    array = load(context, folder, location="weights.bin", offset="64", length=length)
    np.testing.assert_array_equal(array, WEIGHTS)
    assert not array.flags.owndata and not array.flags.writeable


def test_a_file_is_mapped_once(folder: Path) -> None:
    data = external_module.ExternalData([folder])
    tensors = [model_with(location="weights.bin", offset=str(offset)).graph.initializer[0] for offset in (0, 4)]
    first, second = (data.view(tensor, 400) for tensor in tensors)
    assert len(data.maps) == 1 and np.shares_memory(first, second)


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("../secret.bin", "leaves the model's folder"),
        ("sub/../../secret.bin", "leaves the model's folder"),
        ("..\\secret.bin", "leaves the model's folder"),
        ("/etc/hostname", "absolute path"),
        ("\\\\server\\share", "absolute path"),
        ("C:\\weights.bin", "absolute path"),
        ("C:weights.bin", "absolute path"),
        ("", "no location"),
        ("weights.bin\0x", "no location"),
        ("missing.bin", "cannot be read"),
        (".", "no regular file"),
    ],
)
def test_locations_that_are_refused(context: Any, folder: Path, location: str, words: str) -> None:
    assert words in refused(context, folder, location=location, offset="64").what


def test_absolute_path_into_the_folder_is_refused_too(context: Any, folder: Path) -> None:
    assert "absolute" in refused(context, folder, location=str(folder / "weights.bin"), offset="64").what


def test_link_out_of_the_folder(context: Any, folder: Path) -> None:
    (folder / "link.bin").symlink_to(folder.parent / "secret.bin")
    assert "link to a file outside" in refused(context, folder, location="link.bin", offset="64").what


def test_link_of_a_folder_out_of_the_folder(context: Any, folder: Path) -> None:
    (folder / "sub").symlink_to(folder.parent)
    assert "link to a file outside" in refused(context, folder, location="sub/secret.bin", offset="64").what


def test_link_inside_the_folder_is_fine(context: Any, folder: Path) -> None:
    (folder / "link.bin").symlink_to("weights.bin")
    np.testing.assert_array_equal(load(context, folder, location="link.bin", offset="64"), WEIGHTS)


def test_hard_link_to_an_outside_file(context: Any, folder: Path) -> None:
    os.link(folder.parent / "secret.bin", folder / "hard.bin")
    assert "hard link" in refused(context, folder, location="hard.bin", offset="64").what


def test_hard_links_that_all_lie_inside_are_fine(context: Any, folder: Path) -> None:
    (folder / "sub").mkdir()
    os.link(folder / "weights.bin", folder / "sub" / "hard.bin")
    np.testing.assert_array_equal(load(context, folder, location="sub/hard.bin", offset="64"), WEIGHTS)


def test_hard_links_in_a_folder_too_large_to_search(
    context: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.link(folder / "weights.bin", folder / "hard.bin")
    monkeypatch.setattr(external_module, "SCAN_ENTRIES", 1)
    assert "hard link" in refused(context, folder, location="hard.bin", offset="64").what


def test_pipe_does_not_block(context: Any, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert "no regular file" in refused(context, folder, location="pipe").what


@pytest.mark.parametrize(
    ("offset", "length", "words"),
    [
        ("-4", "400", "offset of external data is negative"),
        ("64", "-1", "length of external data is negative"),
        ("64", "100000000000", "declared 100000000000 bytes long, the tensor has 400"),
        ("68", "400", "ends at byte 468 of a file of 464 bytes"),
        ("68", "", "ends at byte 468"),
        ("99999999999999999999999", "400", "ends at byte"),
        ("0x10", "400", "is no number"),
        ("64", "4", "declared 4 bytes long"),
    ],
)
def test_ranges_that_are_refused(context: Any, folder: Path, offset: str, length: str, words: str) -> None:
    assert words in refused(context, folder, location="weights.bin", offset=offset, length=length).what


def test_empty_file(context: Any, folder: Path) -> None:
    (folder / "empty.bin").touch()
    assert "file of 0 bytes" in refused(context, folder, location="empty.bin").what


@pytest.mark.parametrize("as_bytes", [True, False])
def test_model_without_a_folder(context: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, as_bytes: bool) -> None:
    monkeypatch.chdir(folder)
    model = model_with(location="weights.bin", offset="64")
    with pytest.raises(HipCompilerError) as caught:
        import_model(model.SerializeToString() if as_bytes else model, context, ConstantPool())
    assert caught.value.code == ErrorCode.EXTERNAL_DATA and "without a folder" in caught.value.what
    pool = ConstantPool()
    import_model(model, context, pool, base_dir=folder)
    np.testing.assert_array_equal(pool.get("w"), WEIGHTS)


def test_model_that_is_a_link_has_its_data_beside_the_real_file(context: Any, folder: Path) -> None:
    """Download caches lay snapshots out as links to blobs: the data file is a link into the real model's folder."""
    (folder / "blob").write_bytes(model_with(location="data.bin", offset="64").SerializeToString())
    snapshot = folder.parent / "snapshot"
    snapshot.mkdir()
    (snapshot / "net.onnx").symlink_to("../model/blob")
    (snapshot / "data.bin").symlink_to("../model/weights.bin")
    pool = ConstantPool()
    import_model(snapshot / "net.onnx", context, pool)
    np.testing.assert_array_equal(pool.get("w"), WEIGHTS)


def test_large_constant_node_with_external_data(context: Any, folder: Path) -> None:
    model = model_with(location="weights.bin", offset="64")
    tensor = model.graph.initializer.pop()
    model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
    pool = ConstantPool()
    import_model(model, context, pool, base_dir=folder)
    np.testing.assert_array_equal(pool.get("w"), WEIGHTS)
