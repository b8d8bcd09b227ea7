"""What a pass is given, and what it may rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.texts import Vocabulary
from hip_compiler.errors import Unsupported
from hip_compiler.registry.contributions import OnnxOpClaim, OpDef, TargetContribution


@dataclass
class PassContext:
    """One compilation, as passes see it.

    Attributes:
        options: the options of `compile`.
        target: the target compiled for.
        ops: definition of every registered operation, by full name.
        claims: ONNX operators that plugins made known.
        constants: contents of `hip.constant` and `onnx.Constant` operations that carry a `buffer` key.
        findings: what the importer found that cannot be compiled; the one report of conversion includes it.
        symbols: runtime functions and contributed kernels that programs for the target can use; None: those of every
            registered operation.
        owners: the plugin in words, by full name of each operation whose implementation for the target is a plugin's.
        reports: what passes found worth telling (`inspect` prints it), by name.
        vocabulary: texts that the model names, whose numbers stand for them in the program.
    """

    options: CompileOptions
    target: TargetContribution
    ops: dict[str, OpDef]
    claims: tuple[OnnxOpClaim, ...] = ()
    constants: ConstantPool = field(default_factory=ConstantPool)
    findings: list[Unsupported] = field(default_factory=list)
    symbols: frozenset[str] | None = None
    owners: Mapping[str, str] = field(default_factory=dict)
    reports: dict[str, Any] = field(default_factory=dict)
    vocabulary: Vocabulary = field(default_factory=Vocabulary)

    def calls(self, symbol: str) -> bool:
        """Whether the target's runtime says that it has an optional function."""
        return self.symbols is not None and symbol in self.symbols

    @property
    def on_device(self) -> bool:
        """Whether tensors live in the memory of a device, where the host cannot touch them."""
        return self.target.device is not None

    def claim(self, domain: str, op: str, version: int) -> OnnxOpClaim | None:
        """The claim on an ONNX operator at an opset version of its domain, or None."""
        for claim in self.claims:
            same = (_plain(claim.domain), claim.op) == (_plain(domain), op)
            if same and claim.since <= version and (claim.until is None or version <= claim.until):
                return claim
        return None


def _plain(domain: str) -> str:
    """The default domain has two spellings."""
    return "" if domain == "ai.onnx" else domain
