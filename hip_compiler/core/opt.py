"""Running passes on a piece of IR text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.dialects.load import make_context
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.pipeline import RunReport, parse_module, plan_text, run_plan
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.names import listing, nearest
from hip_compiler.registry.registry import Registry


@dataclass(frozen=True)
class OptResult:
    """The module after the passes.

    Attributes:
        module: an `ir.Module`.
        passes: the context the passes were given, with what they reported.
    """

    module: Any
    report: RunReport
    passes: PassContext

    def text(self, *, locations: bool = False, generic: bool = False) -> str:
        """The module as text."""
        printed: str = self.module.operation.get_asm(enable_debug_info=locations, print_generic_op_form=generic)
        return printed.rstrip("\n")


def optimize(text: str, name: str, pipeline: str, options: CompileOptions, registry: Registry) -> OptResult:
    """Parse IR, run a pipeline on it, slots of named pipelines included.

    Args:
        text: IR of one module.
        name: where the text comes from, for messages.
        pipeline: pipeline text; empty: parse and verify only.

    Raises:
        HipCompilerError: `HIPC0502` for an unknown target, `HIPC0300` to `HIPC0304`, or what a pass raises.
    """
    if options.target not in registry.targets:
        raise HipCompilerError(
            ErrorCode.TARGET_UNKNOWN,
            f"target '{options.target}' is not registered",
            why=f"targets: {listing(registry.targets)}",
            hint=nearest(options.target, registry.targets),
        )
    context = make_context(registry)
    module = parse_module(text, context, name)
    passes = PassContext(options, registry.targets[options.target], dict(registry.ops), registry.onnx_ops)
    plan = plan_text(registry, options, context, pipeline.strip() or "builtin.module()", "--pass-pipeline")
    return OptResult(module, run_plan(plan, module, passes, registry), passes)
