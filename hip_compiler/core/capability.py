"""What of a model cannot be compiled, found by the passes that would compile it."""

from __future__ import annotations

from dataclasses import replace

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.contributed import find_target
from hip_compiler.core.dialects.load import make_context
from hip_compiler.core.frontend import import_model
from hip_compiler.core.frontend.load import ModelSource
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.pipeline import plan_compile, run_plan
from hip_compiler.errors import Unsupported, UnsupportedError
from hip_compiler.registry.registry import Registry

CONVERSION = "convert-onnx-to-hip"


def unsupported(model: ModelSource, options: CompileOptions, registry: Registry) -> tuple[Unsupported, ...]:
    """Everything that a compilation would report; empty: the model can be compiled.

    The pipeline runs up to and including the conversion of operators, so the answer is that of the code that lowers
    them, with all that it knows about their surroundings.

    Raises:
        HipCompilerError: what is wrong with the model, the options or a plugin otherwise.
    """
    target = find_target(options.target, registry)
    context = make_context(registry)
    pool = ConstantPool()
    findings: list[Unsupported] = []
    module = import_model(model, context, pool, findings=findings)
    passes = PassContext(options, target, dict(registry.ops), registry.onnx_ops, pool, findings)
    plan = plan_compile(registry, options, context)
    names = [planned.name for planned in plan.passes]
    if CONVERSION in names:
        plan = replace(plan, passes=plan.passes[: names.index(CONVERSION) + 1])
    try:
        run_plan(plan, module, passes, registry)
    except UnsupportedError as error:
        return error.findings
    return tuple(findings)
