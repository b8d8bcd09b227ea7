"""Pass pipelines: text, plan, run."""

from hip_compiler.core.pipeline.diagnostics import parse_module
from hip_compiler.core.pipeline.plan import Plan, PlannedPass
from hip_compiler.core.pipeline.run import PassTime, RunReport, run_plan
from hip_compiler.core.pipeline.select import PipelineWarning, check_entry_point, plan_compile, plan_text
from hip_compiler.core.pipeline.spell import spell
from hip_compiler.core.pipeline.text import Element, parse

__all__ = [
    "Element",
    "PassTime",
    "PipelineWarning",
    "Plan",
    "PlannedPass",
    "RunReport",
    "check_entry_point",
    "parse",
    "parse_module",
    "plan_compile",
    "plan_text",
    "run_plan",
    "spell",
]
