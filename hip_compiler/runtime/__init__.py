"""Artifacts and sessions: what runs a compiled model. It imports neither the compiler nor the MLIR bindings."""

from hip_compiler.runtime.artifact import Artifact, publish
from hip_compiler.runtime.binding import Binding
from hip_compiler.runtime.device_array import DeviceArray
from hip_compiler.runtime.device_binding import DeviceBinding
from hip_compiler.runtime.linker import Bitcode
from hip_compiler.runtime.metadata import CompoundInfo, Metadata, TensorInfo, ValueInfo
from hip_compiler.runtime.native_file import NativeArtifact
from hip_compiler.runtime.native_link import link_native
from hip_compiler.runtime.outputs import empty
from hip_compiler.runtime.session import Session

__all__ = [
    "Artifact",
    "Binding",
    "Bitcode",
    "CompoundInfo",
    "DeviceArray",
    "DeviceBinding",
    "Metadata",
    "NativeArtifact",
    "Session",
    "TensorInfo",
    "ValueInfo",
    "empty",
    "link_native",
    "publish",
]
