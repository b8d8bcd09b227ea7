"""An artifact -> machine code for the CPU at hand, from the artifact's own cache where it fits."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

import llvmlite

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.runtime import cpu, native
from hip_compiler.runtime.abi import ABI_VERSION
from hip_compiler.runtime.artifact import Artifact
from hip_compiler.runtime.linker import Bitcode, build_object


@dataclass(frozen=True)
class MachineCode:
    """Machine code of an artifact.

    Attributes:
        image: ELF object.
        cached: it was found in the artifact.
        seconds: how long each step took.
    """

    image: bytes
    cached: bool
    seconds: dict[str, float]


def machine_code(artifact: Artifact, runtime_bitcode: Path | None = None) -> MachineCode:
    """Machine code of an artifact, linked and generated when the artifact keeps none that fits.

    Args:
        runtime_bitcode: runtime of the artifact's target; None: the host runtime of this package.

    Raises:
        HipCompilerError: `HIPC0502`, when the target has no runtime here; and the errors of `build_object`,
            `native.find` and the artifact.
    """
    start = time.perf_counter()
    path = runtime_bitcode or _host_runtime(artifact)
    key = object_key(artifact, native.file_digest(path))
    cached = artifact.cached_object(key)
    if cached is not None:
        return MachineCode(cached, True, {"read": time.perf_counter() - start})
    runtime = Bitcode("the runtime", path.read_bytes())
    linked = build_object(
        artifact.model_bitcode(), runtime, artifact.plugin_bitcode(), cpu.host(), artifact.metadata.opt_level
    )
    artifact.keep_object(key, linked.image)
    return MachineCode(linked.image, False, linked.seconds)


def object_key(artifact: Artifact, runtime_digest: str) -> str:
    """Name of the machine code for this CPU: a digest of everything that can change it."""
    host = cpu.host()
    metadata = artifact.metadata
    parts = [
        str(ABI_VERSION),
        llvmlite.__version__,
        host.triple,
        host.name,
        host.features,
        runtime_digest,
        str(metadata.opt_level),
        metadata.model.sha256,
    ]
    for entry in metadata.plugins:
        parts += [entry.sha256, entry.owner, *entry.overrides]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _host_runtime(artifact: Artifact) -> Path:
    target = artifact.metadata.target
    if target != "host":
        raise HipCompilerError(
            ErrorCode.TARGET_UNKNOWN,
            f"the artifact is for target '{target}', whose runtime is not at hand",
            where=str(artifact.folder),
            hint="install the plugin that brings the target",
        )
    return native.find().path
