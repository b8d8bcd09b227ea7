"""What became of each plugin."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from hip_compiler.registry.contributions import (
    BitcodeContribution,
    Contribution,
    DialectContribution,
    KernelContribution,
    LibraryContribution,
    OnnxOpClaim,
    PassContribution,
    PipelineContribution,
    SlotRequest,
    TargetContribution,
    contents,
)

State = Literal["active", "refused", "unselected"]


@dataclass(frozen=True)
class PluginRecord:
    """What became of one plugin.

    Attributes:
        api: API range as the plugin declares it.
        reason: why it was refused, in words.
        files: the installed files with their digests, as the distribution's RECORD lists them.
        contributions: what it contributes; empty unless active.
        domains: ONNX domains whose operators it says to claim, whether it is active or not.
    """

    id: str
    distribution: str
    version: str
    api: str
    state: State
    reason: str = ""
    contributions: tuple[Contribution, ...] = ()
    files: str = field(default="", repr=False)
    domains: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"plugin '{self.id}' of {self.distribution} {self.version}"

    @property
    def builtin(self) -> bool:
        return self.id == "builtin"

    @cached_property
    def digest(self) -> str:
        """Digest of what it is, for cache keys: name, version, installed files, and what it contributes."""
        parts = hashlib.sha256(f"{self.id} {self.distribution} {self.version} {self.files}".encode())
        for contribution in self.contributions:
            parts.update(describe(contribution).encode())
            if isinstance(contribution, KernelContribution):
                parts.update(contribution.architecture.encode())
            if isinstance(contribution, (BitcodeContribution, KernelContribution)):
                parts.update(contents(contribution))
        return parts.hexdigest()


def describe_all(contributions: Sequence[Contribution]) -> list[str]:
    """Contributions in a few words each, for tables; kernels for several architectures are one of them."""
    lines: dict[str, list[str]] = {}
    for contribution in contributions:
        architectures = lines.setdefault(describe(contribution), [])
        if isinstance(contribution, KernelContribution):
            architectures.append(contribution.architecture)
    return [f"{line}: {', '.join(names)}" if len(names) > 1 else line for line, names in lines.items()]


def describe(contribution: Contribution) -> str:
    """A contribution in a few words."""
    match contribution:
        case SlotRequest(slot=slot, pipeline=pipeline):
            return f"slot {slot}: {pipeline}"
        case OnnxOpClaim(domain=domain, op=op, since=since, until=until):
            return f"ONNX {domain}::{op} {since}..{until or ''}"
        case BitcodeContribution() | LibraryContribution() | KernelContribution():
            return f"{KINDS[type(contribution)]} {contribution.name} for {contribution.target}"
        case _:
            return f"{KINDS[type(contribution)]} {contribution.name}"


KINDS: dict[type, str] = {
    PassContribution: "pass",
    SlotRequest: "slot",
    PipelineContribution: "pipeline",
    DialectContribution: "dialect",
    OnnxOpClaim: "ONNX operator",
    BitcodeContribution: "bitcode",
    LibraryContribution: "library",
    KernelContribution: "kernels",
    TargetContribution: "target",
}
