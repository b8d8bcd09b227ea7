"""The built-in targets: this machine's CPU, and GPUs through HIP on its two platforms.

Listing them must not wait for the runtime, which loads LLVM and numpy: what needs it imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hip_compiler import knobs
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.contributions import Device, TargetContribution
from hip_compiler.toolchain import link_shared
from hip_compiler.toolchain.device import AMD_ARCHITECTURES, NVIDIA_ARCHITECTURES

AMD_FAMILIES = (
    "gfx9-generic",
    "gfx908",
    "gfx90a",
    "gfx9-4-generic",
    "gfx10-1-generic",
    "gfx10-3-generic",
    "gfx11-generic",
    "gfx12-generic",
)
"""What a program is compiled for when no architecture is asked for: between them they cover every GPU of the list."""


def host_target(overridable: frozenset[str]) -> TargetContribution:
    """This machine's CPU."""
    return TargetContribution(
        name="host",
        summary="This machine's CPU: vectorised, threaded, no GPU needed.",
        features=frozenset({"packed-weights", "winograd"}),
        overridable=overridable,
        linker=link_shared,
    )


def gpu_target(overridable: frozenset[str]) -> TargetContribution:
    """GPUs through HIP; HIP_PLATFORM says whose. One that HIP does not have is an error where the target is used."""
    platform = knobs.HIP_PLATFORM.read()
    amd = platform != "nvidia"
    return TargetContribution(
        name="amdgpu",
        summary="AMD GPUs through HIP." if amd else "NVIDIA GPUs through HIP's nvidia platform.",
        runtime_bitcode=_runtime(platform),
        overridable=overridable,
        device=Device(
            triple="amdgcn-amd-amdhsa" if amd else "nvptx64-nvidia-cuda",
            architectures=AMD_ARCHITECTURES if amd else NVIDIA_ARCHITECTURES,
            default=AMD_FAMILIES if amd else NVIDIA_ARCHITECTURES[:1],
            library=_library,
            functions=_functions("amdgcn" if amd else "nvptx64"),
        ),
        linker=link_shared,
    )


def _library(architecture: str) -> bytes:
    from hip_compiler.runtime import devicecode

    return devicecode.read().get(architecture)


def _functions(machine: str) -> Callable[[], Path]:
    def find() -> Path:
        from hip_compiler.runtime import native

        return native.device_functions(machine)

    return find


def _runtime(platform: str) -> Callable[[], Path]:
    def find() -> Path:
        from hip_compiler.runtime import native

        if platform not in ("amd", "nvidia"):
            raise HipCompilerError(
                ErrorCode.ENVIRONMENT,
                f"{knobs.HIP_PLATFORM.name}={platform!r} is no platform of HIP",
                hint="it is amd or nvidia; unset, it is amd",
            )
        return native.gpu_runtime(platform)

    return find
