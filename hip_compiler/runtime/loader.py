"""An artifact -> machine code for the CPU at hand, from the artifact's own cache where it fits."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

import llvmlite

from hip_compiler.runtime import cpu, native
from hip_compiler.runtime.abi import ABI_VERSION
from hip_compiler.runtime.artifact import Artifact
from hip_compiler.runtime.jit import Program, shared_runtime
from hip_compiler.runtime.linker import Bitcode, build_object


@dataclass(frozen=True)
class MachineCode:
    """Machine code of an artifact.

    Attributes:
        image: ELF object.
        runtime: the shared runtime that it uses; None: it holds its own.
        cached: it was found in the artifact.
        seconds: how long each step took.
    """

    image: bytes
    runtime: Program | None
    cached: bool
    seconds: dict[str, float]


def machine_code(artifact: Artifact, runtime_bitcode: Path | None = None, target: cpu.Cpu | None = None) -> MachineCode:
    """Machine code of an artifact, linked and generated when the artifact keeps none that fits.

    The model uses the runtime's machine code, which is loaded once per process. Where a plugin overrides a function of
    the runtime, or the runtime exists as bitcode alone, it is linked into the model's instead.

    Args:
        runtime_bitcode: another runtime; None: the one that the artifact brings, else the host runtime of this package.
        target: CPU to generate code for; None: the one at hand.

    Raises:
        HipCompilerError: the errors of `build_object`, `native.find` and the artifact.
    """
    start = time.perf_counter()
    target = target or cpu.host()
    shared: Program | None = None
    linked_in = artifact.runtime_bitcode() if runtime_bitcode is None else _runtime(runtime_bitcode)
    if linked_in is None:
        found = native.find(cpu=target)
        if any(entry.overrides for entry in artifact.metadata.plugins):
            linked_in = _runtime(found.bitcode)
        else:
            shared = shared_runtime(found.archive, native.file_digest(found.archive))
    key = object_key(artifact, hashlib.sha256(linked_in.data).hexdigest() if linked_in else "shared", target)
    cached = artifact.cached_object(key)
    if cached is not None:
        return MachineCode(cached, shared, True, {"read": time.perf_counter() - start})
    linked = build_object(
        artifact.model_bitcode(),
        linked_in,
        artifact.plugin_bitcode(),
        target,
        artifact.metadata.opt_level,
        shared.symbols if shared else (),
    )
    artifact.keep_object(key, linked.image)
    return MachineCode(linked.image, shared, False, linked.seconds)


def object_key(artifact: Artifact, runtime: str, target: cpu.Cpu) -> str:
    """Name of the machine code for a CPU: a digest of everything that can change it.

    Args:
        runtime: digest of the runtime bitcode that it holds, or ``shared``: the runtime is no part of it.
    """
    metadata = artifact.metadata
    parts = [
        str(ABI_VERSION),
        llvmlite.__version__,
        target.triple,
        target.name,
        target.features,
        runtime,
        str(metadata.opt_level),
        metadata.model.sha256,
    ]
    for entry in metadata.plugins:
        parts += [entry.sha256, entry.owner, *entry.overrides]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _runtime(path: Path) -> Bitcode:
    return Bitcode("the runtime", path.read_bytes())
