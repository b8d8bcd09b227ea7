"""From a model to a module and what its passes are given: to compile it, or to ask what of it can be compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.contributed import owners_of_ops, refused_by_claims
from hip_compiler.core.device import callable_symbols
from hip_compiler.core.dialects.load import make_context
from hip_compiler.core.frontend import import_model
from hip_compiler.core.frontend.load import ModelSource
from hip_compiler.core.mlir import ir
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.passes.base import PassContext
from hip_compiler.errors import Unsupported
from hip_compiler.registry.contributions import TargetContribution
from hip_compiler.registry.registry import Registry


@dataclass(frozen=True)
class Prepared:
    """A model that passes can run on.

    Attributes:
        context: an `ir.Context`.
        module: an `ir.Module` of the `onnx` dialect.
        passes: what passes are given; its findings are those of the import.
    """

    context: Any
    module: Any
    passes: PassContext


def prepare(model: ModelSource, options: CompileOptions, target: TargetContribution, registry: Registry) -> Prepared:
    """Import a model for a target.

    Raises:
        HipCompilerError: what is wrong with the model.
    """
    context = make_context(registry)
    pool = ConstantPool()
    findings: list[Unsupported] = []
    module = import_model(model, context, pool, findings=findings)
    symbols = callable_symbols(registry, target)
    owners = owners_of_ops(registry, target)
    passes = PassContext(options, target, dict(registry.ops), registry.onnx_ops, pool, findings, symbols, owners)
    with context, ir.Location.unknown():
        findings += refused_by_claims(module, passes)
    return Prepared(context, module, passes)
