"""Which pipeline a compilation runs: the built-in one, or an override."""

from __future__ import annotations

import warnings
from typing import Any

from hip_compiler import knobs
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.pipeline.plan import Plan, Planner
from hip_compiler.core.pipeline.text import Element, parse
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.registry import Registry
from hip_compiler.slots.builtin import DEFAULT

ENTRY_POINT = "inference_compute"
CUT = "onnx-keep-last-position"


class PipelineWarning(UserWarning):
    """An override leaves out what plugins asked for."""


def plan_compile(registry: Registry, options: CompileOptions, context: Any) -> Plan:
    """The plan of `compile`: ``options.pipeline``, else HIPDNN_EP_PIPELINE, else the built-in pipeline.

    An override runs exactly what it says. Slots run only where its own text places them with ``slot:NAME``, and
    one `PipelineWarning` lists the requests that are left out.

    Args:
        context: an `ir.Context` made from the same registry.

    Raises:
        HipCompilerError: `HIPC0300` to `HIPC0304`.
    """
    text, origin = options.pipeline, "pipeline="
    if not text.strip():
        text, origin = knobs.PIPELINE.read(), knobs.PIPELINE.name
    if not text.strip():
        return plan_text(registry, options, context, DEFAULT, "the built-in pipeline")
    elements = parse(text, origin)
    passes = Planner(registry, options, context, run_slots=False).plan(elements)
    if options.last_position and all(step.name != CUT for step in passes):
        raise HipCompilerError(
            ErrorCode.USAGE,
            f"last_position={options.last_position} has no effect",
            why=f"{origin} replaces the built-in pipeline, and its text does not cut an output",
            hint=f"put {CUT}{{output={options.last_position}}} into the text, after simplify-onnx",
        )
    placed = {element.slot for element in elements}
    skipped = tuple(
        f"slot {request.slot}: {request.pipeline} ({registry.owner(request)})"
        for request in registry.slot_requests
        if request.slot not in placed
    )
    if skipped:
        lines = "\n  ".join(skipped)
        warnings.warn(
            f"{origin} replaces the built-in pipeline; these slot requests will not run:\n  {lines}\n"
            "  do: place slots in the text with slot:NAME elements",
            PipelineWarning,
            stacklevel=2,
        )
    return Plan(passes, text, True, skipped)


def plan_text(registry: Registry, options: CompileOptions, context: Any, text: str, origin: str = "pipeline") -> Plan:
    """The plan of any pipeline text, slots of named pipelines included.

    Raises:
        HipCompilerError: `HIPC0300` to `HIPC0304`.
    """
    elements: tuple[Element, ...] = parse(text, origin)
    return Plan(Planner(registry, options, context).plan(elements), text)


def check_entry_point(plan: Plan, module: Any) -> None:
    """After an override: the program must have the entry point that sessions call.

    Raises:
        HipCompilerError: `HIPC0305`.
    """
    if not plan.override:
        return
    for operation in module.operation.regions[0].blocks[0]:
        if "sym_name" in operation.attributes and operation.attributes["sym_name"].value == ENTRY_POINT:
            return
    raise HipCompilerError(
        ErrorCode.NO_ENTRY_POINT,
        f"the pipeline ended without '{ENTRY_POINT}'",
        where=plan.source,
        why="an override runs exactly what it names",
        hint="end it with generate-interface, or with hip-to-llvm-pipeline",
    )
