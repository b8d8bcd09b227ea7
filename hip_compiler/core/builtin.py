"""The built-in plugin: what hip-compiler itself registers, through the hooks that every plugin uses.

Passes are named, not imported: listing them must neither need the MLIR bindings nor wait for them.
"""

from __future__ import annotations

from hip_compiler.registry.contributions import (
    DialectContribution,
    PassContribution,
    PipelineContribution,
    TargetContribution,
)
from hip_compiler.registry.hookspecs import hookimpl
from hip_compiler.slots.builtin import PIPELINES

PASSES: tuple[PassContribution, ...] = ()


@hookimpl
def hip_compiler_passes() -> list[PassContribution]:
    return list(PASSES)


@hookimpl
def hip_compiler_dialects() -> list[DialectContribution]:
    return []


@hookimpl
def hip_compiler_pipelines() -> list[PipelineContribution]:
    return list(PIPELINES)


@hookimpl
def hip_compiler_targets() -> list[TargetContribution]:
    return []
