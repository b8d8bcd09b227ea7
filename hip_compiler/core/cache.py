"""The compile cache: artifacts by everything that can change them, under `HIPC_CACHE_DIR/models`.

An entry is an artifact folder that appears whole or not at all, so readers and writers need no lock: two that fill one
key at once leave the later one's folder, and whoever dies half way leaves a private folder that nobody reads. Entries
can be deleted at any time.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import onnx

from hip_compiler import knobs
from hip_compiler.core.device import choose_architectures
from hip_compiler.core.frontend.external import ExternalData
from hip_compiler.core.frontend.load import LoadedModel, ModelSource, load_model
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.pipeline.bundle import versions
from hip_compiler.errors import HipCompilerError
from hip_compiler.registry.registry import Registry
from hip_compiler.runtime import Artifact, cpu

PACKAGE = Path(__file__).resolve().parents[1]
WATCHING = frozenset({"cache", "cache_dir", "plugins", "print_ir_after", "timing", "dump_dir"})
"""Options that change no program. Plugins count by what they are, not by how they were asked for."""


def cache_entry(model: ModelSource, options: CompileOptions, registry: Registry) -> Path:
    """Folder of the cache entry of a compilation, whether it exists or not.

    Raises:
        HipCompilerError: `HIPC0100` to `HIPC0102`, the model or its external data cannot be read.
    """
    loaded = load_model(model)
    name = Path(model).stem if isinstance(model, (str, Path)) else ""
    pipeline = options.pipeline.strip() or knobs.PIPELINE.read().strip()
    settings = [
        f"{field.name}={getattr(options, field.name)!r}"
        for field in dataclasses.fields(options)
        if field.name not in WATCHING
    ]
    machine = cpu.host()
    parts = [name, pipeline, *settings, registry.digest, _sources(), machine.triple, machine.name, machine.features]
    parts += _target_parts(options, registry)
    parts += [f"{package}={version}" for package, version in versions().items()]
    digest = hashlib.sha256("\0".join(parts).encode())
    digest.update(loaded.proto.SerializeToString(deterministic=True))
    for contents in _external_contents(loaded):
        digest.update(contents)
    return (options.cache_dir or knobs.cache_dir()) / "models" / digest.hexdigest()[:32]


def _target_parts(options: CompileOptions, registry: Registry) -> list[str]:
    """What the target itself puts into an artifact."""
    target = registry.targets.get(options.target)
    if target is None or target.runtime_bitcode is None:
        return []
    parts = [hashlib.sha256(target.runtime_bitcode().read_bytes()).hexdigest()]
    if target.device is not None:
        parts.append(target.device.triple)
        for name in choose_architectures(target, options.arch):
            parts += [name, hashlib.sha256(target.device.library(name)).hexdigest()]
    return parts


def find_cached(entry: Path) -> Artifact | None:
    """The artifact of an entry; None when there is none, or it is damaged."""
    if not entry.is_dir():
        return None
    try:
        artifact = Artifact.load(entry)
        artifact.model_bitcode()
        artifact.plugin_bitcode()
        artifact.runtime_bitcode()
    except HipCompilerError:
        return None
    return artifact


def watches(options: CompileOptions) -> bool:
    """Whether the passes must run because somebody wants to see them."""
    return bool(options.print_ir_after or options.timing or options.dump_dir)


def _external_contents(loaded: LoadedModel) -> Iterator[bytes]:
    """Digest of every file of external data, in the order of their names."""
    data = ExternalData(loaded.roots, dict(loaded.memory))
    for tensor in _tensors(loaded.proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            data.load(tensor)
    for location, contents in sorted(data.maps.items()):
        yield location.encode() + b"\0" + hashlib.sha256(contents.data).digest()


def _tensors(message: Any) -> Iterator[onnx.TensorProto]:
    """Every tensor of a model, in subgraphs and functions too."""
    match message:
        case onnx.TensorProto():
            yield message
        case onnx.SparseTensorProto():
            yield from _each((message.values, message.indices))
        case onnx.AttributeProto():
            yield from _each(getattr(message, name) for name in ("t", "sparse_tensor", "g") if message.HasField(name))
            yield from _each((*message.tensors, *message.sparse_tensors, *message.graphs))
        case onnx.NodeProto():
            yield from _each(message.attribute)
        case onnx.FunctionProto():
            yield from _each(message.node)
        case onnx.GraphProto():
            yield from _each((*message.initializer, *message.sparse_initializer, *message.node))
        case onnx.ModelProto():
            yield from _each((message.graph, *message.functions))


def _each(messages: Iterable[Any]) -> Iterator[onnx.TensorProto]:
    for message in messages:
        yield from _tensors(message)


@cache
def _sources() -> str:
    """Digest of the compiler itself, as a source tree that is worked on keeps its version."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
