"""What a pass is given, and what it may rely on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.options import CompileOptions
from hip_compiler.registry.contributions import OnnxOpClaim, OpDef, TargetContribution


@dataclass
class PassContext:
    """One compilation, as passes see it.

    Attributes:
        options: the options of `compile`.
        target: the target compiled for.
        ops: definition of every registered operation, by full name.
        claims: ONNX operators that plugins made known, by domain and operator.
        constants: contents of `hip.constant` and `onnx.Constant` operations that carry a `buffer` key.
        reports: what passes found worth telling (`inspect` prints it), by name.
    """

    options: CompileOptions
    target: TargetContribution
    ops: dict[str, OpDef]
    claims: dict[tuple[str, str], OnnxOpClaim] = field(default_factory=dict)
    constants: ConstantPool = field(default_factory=ConstantPool)
    reports: dict[str, Any] = field(default_factory=dict)
