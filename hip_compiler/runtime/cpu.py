"""The CPU that this process runs on, in LLVM's words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import llvmlite.binding as llvm

OptLevel = Literal[0, 1, 2, 3]
OPT_LEVELS: tuple[OptLevel, ...] = (0, 1, 2, 3)


@dataclass(frozen=True)
class Cpu:
    """A CPU to generate code for.

    Attributes:
        triple: LLVM target triple.
        name: LLVM CPU name.
        features: LLVM feature string, `+avx2,-avx512f,...`.
    """

    triple: str
    name: str
    features: str

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
