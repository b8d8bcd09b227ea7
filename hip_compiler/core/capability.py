"""What of a model cannot be compiled, found by the passes that would compile it."""

from __future__ import annotations

from dataclasses import replace

from hip_compiler.core.contributed import find_target
from hip_compiler.core.frontend.load import ModelSource
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.pipeline import plan_compile, run_plan
from hip_compiler.core.prepare import prepare
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
    prepared = prepare(model, options, find_target(options.target, registry), registry)
    plan = plan_compile(registry, options, prepared.context)
    names = [planned.name for planned in plan.passes]
    if CONVERSION in names:
        plan = replace(plan, passes=plan.passes[: names.index(CONVERSION) + 1])
    try:
        run_plan(plan, prepared.module, prepared.passes, registry)
    except UnsupportedError as error:
        return error.findings
    return tuple(prepared.passes.findings)
