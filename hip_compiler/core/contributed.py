"""What plugins contribute to a program besides its operations: bitcode, kernels, the runtime of a target."""

from __future__ import annotations

from hip_compiler.registry.contributions import BitcodeContribution, KernelContribution, TargetContribution
from hip_compiler.registry.registry import Registry
from hip_compiler.runtime import Bitcode, cpu


def plugin_bitcode(registry: Registry, target: TargetContribution) -> list[Bitcode]:
    """Bitcode to link into a program of a target, in the order of the plugins: runtime functions, then kernels.

    On a target that runs on the CPU kernels are bitcode too; those for another machine are left aside.
    """
    machine = target.architecture or cpu.host().triple.partition("-")[0]
    entries = [Bitcode(str(registry.owner(e)), _data(e), e.overrides) for e in registry.bitcode(target.name)]
    kernels = [e for e in registry.kernels(target.name) if e.architecture == machine]
    return entries + [Bitcode(str(registry.owner(entry)), _data(entry)) for entry in kernels]


def target_runtime(registry: Registry, target: TargetContribution) -> Bitcode | None:
    """Bitcode of the runtime that a target brings; None where it uses the host runtime of this package."""
    if target.runtime_bitcode is None:
        return None
    return Bitcode(f"the runtime of {registry.owner(target)}", target.runtime_bitcode().read_bytes())


def _data(contribution: BitcodeContribution | KernelContribution) -> bytes:
    source = contribution.source
    return source if isinstance(source, bytes) else source.read_bytes()
