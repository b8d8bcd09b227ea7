"""From what the caller gives (path, bytes, message) to a `ModelProto`, or a sentence that says why not."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from hip_compiler.errors import ErrorCode, HipCompilerError

# First bytes of what people hand over instead of a model, with the words for it.
_LOOKALIKES: tuple[tuple[bytes, str, str], ...] = (
    (b"version https://git-lfs", "a Git LFS pointer", "fetch the real file with `git lfs pull`"),
    (b"PK\x03\x04", "a zip archive (a PyTorch checkpoint?)", "export the network to ONNX first, or unpack the archive"),
    (b"\x80\x02", "a Python pickle", "export the network to ONNX first"),
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (b"\x89HDF", "an HDF5 file", "export the network to ONNX first"),
    (b"GGUF", "a GGUF file", "build an ONNX graph from it first"),
    (b"<!DOCTYPE", "a web page", "download the model file itself"),
    (b"<html", "a web page", "download the model file itself"),
    (b"\x7fELF", "a program", ""),
)
_ORT_FORMAT = b"ORTM"


@dataclass(frozen=True)
class LoadedModel:
    """A parsed model and where it came from.

    Attributes:
        proto: the message; a caller's own message is never modified.
        roots: folders that external data may lie in; empty when the model came without a place.
        source: words for messages: the path, or what the caller gave.
        memory: external data that is no file, by location: `uint8` arrays.
    """

    proto: onnx.ModelProto
    roots: tuple[Path, ...]
    source: str
    memory: Mapping[str, np.ndarray] = field(default_factory=dict)


ModelSource: TypeAlias = "str | Path | bytes | onnx.ModelProto | LoadedModel"
"""What a caller gives as a model."""


def load_model(model: ModelSource, base_dir: Path | None = None) -> LoadedModel:
    """Read and parse a model; external data is not touched.

    Args:
        model: path of a file, serialised bytes, a message, or a model that is loaded already.
        base_dir: folder of external data; for a path, its own folder when not given.

    Raises:
        HipCompilerError: `HIPC0100` when there is no readable ONNX model, `HIPC0102` for names that are no text.
    """
    roots: tuple[Path, ...]
    if isinstance(model, LoadedModel):
        return model
    if isinstance(model, onnx.ModelProto):
        proto, source = model, "the given ModelProto"
        roots = () if base_dir is None else (Path(base_dir),)
    elif isinstance(model, (bytes, bytearray, memoryview)):
        source = "the given bytes"
        proto = _parse(memoryview(model), source)
        roots = () if base_dir is None else (Path(base_dir),)
    elif isinstance(model, (str, Path)):
        path = Path(model)
        proto, source = _read(path), str(path)
        # A model that is a link (as in download caches) has its data beside the link or beside the file itself.
        roots = (path.parent, path.resolve().parent) if base_dir is None else (Path(base_dir),)
    else:
        raise HipCompilerError(
            ErrorCode.MODEL_UNREADABLE,
            f"a model is given as a path, bytes or a ModelProto, not as {type(model).__name__}",
        )
    if not proto.HasField("graph"):
        raise HipCompilerError(ErrorCode.MODEL_UNREADABLE, "the model holds no graph", where=source)
    if not all(isinstance(text, str) for text in _texts(proto.graph)) or not all(
        isinstance(text, str) for function in proto.functions for text in _function_texts(function)
    ):
        # Protobuf hands text that is no UTF-8 out as bytes.
        raise HipCompilerError(ErrorCode.MODEL_INVALID, "a name in the model is no UTF-8 text", where=source)
    return LoadedModel(proto, roots, source)


def _texts(graph: onnx.GraphProto) -> Iterator[object]:
    """Every name in a graph and its subgraphs."""
    yield graph.name
    for info in (*graph.input, *graph.output, *graph.value_info):
        yield info.name
        yield from (dim.dim_param for dim in info.type.tensor_type.shape.dim)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        yield from _node_texts(node)


def _function_texts(function: onnx.FunctionProto) -> Iterator[object]:
    yield from (function.name, function.domain, function.overload, *function.input, *function.output)
    for node in function.node:
        yield from _node_texts(node)


def _node_texts(node: onnx.NodeProto) -> Iterator[object]:
    yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
    for attribute in node.attribute:
        yield attribute.name
        yield attribute.ref_attr_name
        if attribute.HasField("g"):
            yield from _texts(attribute.g)


def _read(path: Path) -> onnx.ModelProto:
    if path.is_dir():
        raise HipCompilerError(
            ErrorCode.MODEL_UNREADABLE, "the model is a folder", where=str(path), hint="name the .onnx file in it"
        )
    try:
        with path.open("rb") as file:
            if not path.is_file():
                raise HipCompilerError(ErrorCode.MODEL_UNREADABLE, "the model is no regular file", where=str(path))
            if file.seek(0, 2) == 0:
                raise HipCompilerError(ErrorCode.MODEL_UNREADABLE, "the model file is empty", where=str(path))
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
                return _parse(view, str(path))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HipCompilerError(
            ErrorCode.MODEL_UNREADABLE, "the model file cannot be read", where=str(path), why=reason
        ) from error


def _parse(data: memoryview, source: str) -> onnx.ModelProto:
    head = bytes(data[:32])
    for start, words, hint in _LOOKALIKES:
        if head.lower().startswith(start.lower()):
            raise HipCompilerError(
                ErrorCode.MODEL_UNREADABLE, f"the model is {words}, not ONNX", where=source, hint=hint
            )
    if bytes(data[4:8]) == _ORT_FORMAT:
        raise HipCompilerError(
            ErrorCode.MODEL_UNREADABLE,
            "the model is in ONNX Runtime's own format, not ONNX",
            where=source,
            hint="use the .onnx file that it was made from",
        )
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise HipCompilerError(
            ErrorCode.MODEL_UNREADABLE,
            "the model is no ONNX protobuf message, or it is cut off",
            where=source,
            why=str(error),
        ) from error
    return proto
