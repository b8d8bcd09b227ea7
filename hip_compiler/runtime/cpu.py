"""CPUs to generate code for, in LLVM's words: the one at hand, and levels of the instruction set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import llvmlite.binding as llvm

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.toolchain.levels import host_architecture, levels_of

OptLevel = Literal[0, 1, 2, 3]
OPT_LEVELS: tuple[OptLevel, ...] = (0, 1, 2, 3)


@dataclass(frozen=True)
class Cpu:
    """A CPU to generate code for.

    Attributes:
        triple: LLVM target triple.
        name: LLVM CPU name.
        features: LLVM feature string, `+avx2,-avx512f,...`.
        flags: the instruction sets of a level, as ``/proc/cpuinfo`` names them; None: those of the CPU at hand.
    """

    triple: str
    name: str
    features: str
    flags: tuple[str, ...] | None = None

    def has(self, *features: str) -> bool:
        """Whether the CPU has every one of the features."""
        return set(features) <= {word[1:] for word in self.features.split(",") if word.startswith("+")}

    def target_machine(self, opt_level: OptLevel = 3) -> llvm.TargetMachine:
        """Code generator: position-independent code in the small model, as the JIT linker wants it."""
        target = llvm.Target.from_triple(self.triple)
        return target.create_target_machine(
            cpu=self.name, features=self.features, opt=opt_level, reloc="pic", codemodel="small", jit=True
        )


@cache
def host() -> Cpu:
    """The CPU at hand; 512-bit vectors are used where it has them, whatever LLVM's tuning for its name prefers."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    available = llvm.get_host_cpu_features()
    features = available.flatten()
    if available.get("avx512f"):
        features += ",-prefer-256-bit"
    return Cpu(llvm.get_process_triple(), llvm.get_host_cpu_name(), features)


NATIVE = "native"
_FLAGS = {
    "sse4.2": "sse4_2",
    "bmi": "bmi1",
    "lzcnt": "abm",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "neon": "asimd",
    "dotprod": "asimddp",
    "fullfp16": "asimdhp",
}
"""What the Linux kernel calls instruction sets that LLVM calls otherwise."""


def named(name: str) -> Cpu:
    """A CPU by name: ``native``, the one at hand, or a level of this architecture's instruction set.

    Raises:
        HipCompilerError: `HIPC0001`, listing the names there are.
    """
    if name == NATIVE:
        return host()
    levels = {level.name: level for level in levels_of(host_architecture())}
    level = levels.get(name)
    if level is None:
        raise HipCompilerError(
            ErrorCode.USAGE, f"there is no CPU '{name}'", hint=f"there are {', '.join((NATIVE, *levels))}"
        )
    words = [f"+{feature}" for feature in level.requires]
    if "avx512f" in level.requires:
        words.append("-prefer-256-bit")
    llvm_name = level.cpu if level.cpu.startswith("x86") else "generic"
    flags = tuple(sorted(_FLAGS.get(feature, feature) for feature in level.requires))
    return Cpu(host().triple, llvm_name, ",".join(words), flags)
