"""Rules of kernels for devices: code of the kind and architecture that they say, with the kernels that they list."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hip_compiler.errors import HipCompilerError
from hip_compiler.registry.contributions import Device, KernelContribution, LaunchLowering, OpDef, contents
from hip_compiler.registry.names import nearest
from hip_compiler.toolchain.device import ARCHITECTURES
from hip_compiler.toolchain.image import Image, read_image

TENSOR_BYTES = 144
"""Size of a `hipc_tensor`."""
SLOT_BYTES = 8
"""Size of an attribute, and of the number of elements."""
_RESERVED = re.compile(r"hipc_|kernel_\d+")
"""Names of the runtime's kernels, and of those that are generated for a model."""


def audit_device_kernels(kernels: KernelContribution, device: Device) -> list[str]:
    """Every rule that kernels for a device break, one sentence each, with the kernel or architecture named."""
    architecture = kernels.architecture
    # Those of HIP's other platform are left aside when a program is compiled; they are audited all the same.
    known = dict.fromkeys((*device.architectures, *ARCHITECTURES))
    if architecture not in known:
        hint = nearest(architecture, known) or f"architectures: {', '.join(device.architectures)}"
        return [f"{kernels.name}: there is no architecture '{architecture}'; {hint}"]
    name = f"{kernels.name} for {architecture}"
    try:
        image = _image(kernels)
    except HipCompilerError as error:
        return [f"{name}: {error.what}: {error.why}"]
    if image is None:
        return []
    findings = []
    if image.architecture != architecture:
        findings.append(f"the code is for {image.architecture}")
    for kernel in image.kernels:
        if _RESERVED.match(kernel):
            findings.append(f"kernel '{kernel}' has a name of the runtime's")
        elif kernel not in kernels.symbols:
            findings.append(f"kernel '{kernel}' is not listed in symbols=")
    findings += [f"kernel '{symbol}' is not in the code" for symbol in kernels.symbols if symbol not in image.kernels]
    return [f"{name}: {finding}" for finding in findings]


def audit_launch(op: OpDef, contributed: Iterable[KernelContribution]) -> list[str]:
    """What of an operation a kernel for a device cannot take: the launch copies its arguments by their sizes.

    Args:
        contributed: kernels for devices. Those that do not pass `audit_device_kernels` are passed over.
    """
    lowering = op.lowering
    if not isinstance(lowering, LaunchLowering):
        return []
    entries = [entry for entry in contributed if lowering.kernel in entry.symbols]
    strange = [operand.name for operand in (*op.inputs, *op.outputs) if operand.variadic]
    strange += [attribute.name for attribute in op.attributes if attribute.kind in ("ints", "floats")]
    if entries and strange:
        return [
            f"operation '{op.name}': kernel '{lowering.kernel}' for {entries[0].architecture} cannot take "
            f"'{strange[0]}': on a device there are no variadic operands and no lists; use a CallLowering"
        ]
    passed = (TENSOR_BYTES,) * len((*op.inputs, *op.outputs)) + (SLOT_BYTES,) * (len(op.attributes) + 1)
    findings = []
    for entry in entries:
        taken = _parameters(entry, lowering.kernel)
        if taken is not None and taken != passed:
            findings.append(
                f"operation '{op.name}': kernel '{lowering.kernel}' for {entry.architecture} takes parameters of "
                f"{', '.join(map(str, taken)) or 'no'} bytes; the launch passes {', '.join(map(str, passed))}: "
                "a hipc_tensor per operand, 8 bytes per attribute, and the number of elements"
            )
    return findings


def _parameters(kernels: KernelContribution, name: str) -> tuple[int, ...] | None:
    """Sizes of a kernel's parameters; None where they cannot be read."""
    try:
        image = _image(kernels)
    except HipCompilerError:
        return None
    return None if image is None else image.kernels.get(name)


def _image(kernels: KernelContribution) -> Image | None:
    """The code; None for an architecture of a device that only its plugin knows."""
    return read_image(contents(kernels)) if kernels.architecture in ARCHITECTURES else None
