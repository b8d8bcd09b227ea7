"""Running a plan on a module, one pass at a time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hip_compiler.core.mlir import ir, passmanager
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.pipeline.bundle import write_bundle
from hip_compiler.core.pipeline.diagnostics import sentences
from hip_compiler.core.pipeline.plan import ANY, Plan, PlannedPass
from hip_compiler.errors import ErrorCode, HipCompilerError, UnsupportedError
from hip_compiler.registry.registry import Registry


@dataclass(frozen=True)
class PassTime:
    """Seconds that one pass took, its verification included.

    Attributes:
        requested_by: slot and plugin that asked for it; empty for the pipeline's own passes.
    """

    name: str
    seconds: float
    requested_by: str = ""


@dataclass
class RunReport:
    """What running a plan showed."""

    times: list[PassTime] = field(default_factory=list)

    def table(self) -> str:
        """Seconds per pass in the order of running, with shares and the total."""
        total = sum(entry.seconds for entry in self.times)
        lines = [
            f"{entry.seconds:9.4f} s {100 * entry.seconds / total if total else 0:5.1f} %  {entry.name}"
            + (f"  ({entry.requested_by})" if entry.requested_by else "")
            for entry in self.times
        ]
        return "\n".join([*lines, f"{total:9.4f} s 100.0 %  total"])


def run_plan(plan: Plan, module: Any, context: PassContext, registry: Registry) -> RunReport:
    """Run every pass of a plan on a module, in place.

    Between passes the IR is verified, and printed or dumped as ``context.options`` say.

    Args:
        module: an `ir.Module` in the context that the plan was made with.

    Raises:
        HipCompilerError: `HIPC0302`, a pass failed; `HIPC0303`, a pass left IR that does not verify; or the
            error that a pass raised itself. Its hint names a folder with what is needed to see it again.
    """
    options = context.options
    report = RunReport()
    with module.context, ir.Location.unknown():
        _dump(options.dump_dir, 0, "input", module)
        for number, planned in enumerate(plan.passes, 1):
            before = module.operation.clone()
            start = time.perf_counter()
            try:
                _run_pass(planned, module, context)
                if options.verify_each:
                    _verify(planned, module)
            except HipCompilerError as error:
                _enrich(error, planned, plan, before, registry, options.dump_dir)
                raise
            report.times.append(PassTime(planned.name, time.perf_counter() - start, planned.requested_by))
            _dump(options.dump_dir, number, planned.name, module)
            if "*" in options.print_ir_after or planned.name in options.print_ir_after:
                print(f"// -----// IR Dump After {planned.name} //----- //\n{module}", file=sys.stderr)
    return report


def _run_pass(planned: PlannedPass, module: Any, context: PassContext) -> None:
    if planned.instance is None:
        manager = passmanager.PassManager.parse(f"{planned.path[0]}({planned})")
        manager.enable_verifier(False)
        try:
            manager.run(module.operation)
        except ir.MLIRError as error:
            raise _failed(planned, sentences(error), "") from error
        return
    for operation in list(_anchors(module.operation, planned.path[1:], planned.anchor)):
        try:
            planned.instance.apply(operation, context)
        except HipCompilerError:
            raise
        except ir.MLIRError as error:
            raise _failed(planned, sentences(error), "") from error
        except Exception as error:
            raise _failed(planned, [], f"{type(error).__name__}: {error}") from error


def _anchors(operation: Any, path: tuple[str, ...], anchor: str) -> Iterator[Any]:
    """Operations that a nesting path selects, a level of regions per entry of the path."""
    if not path:
        if operation.name == anchor:
            yield operation
        return
    for region in operation.regions:
        for block in region:
            for child in block.operations:
                if path[0] in (ANY, child.operation.name):
                    yield from _anchors(child.operation, path[1:], anchor)


def _verify(planned: PlannedPass, module: Any) -> None:
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise HipCompilerError(
            ErrorCode.IR_INVALID,
            f"{_words(planned)} left IR that does not verify",
            details=sentences(error),
        ) from error


def _failed(planned: PlannedPass, details: list[str], why: str) -> HipCompilerError:
    return HipCompilerError(ErrorCode.PASS_FAILED, f"{_words(planned)} failed", details=details, why=why)


def _words(planned: PlannedPass) -> str:
    """A pass, and who is answerable for it."""
    if planned.owner is not None and not planned.owner.builtin:
        return f"pass '{planned.name}' of {planned.owner}"
    return f"pass '{planned.name}'"


def _enrich(
    error: HipCompilerError, planned: PlannedPass, plan: Plan, before: Any, registry: Registry, folder: Path | None
) -> None:
    """Say in which pass an error happened, and where the means to repeat it are."""
    place = f"pass '{planned.name}'" + (f" ({planned.requested_by})" if planned.requested_by else "")
    if place not in error.where:
        error.where = f"{error.where}, in {place}" if error.where else place
    if isinstance(error, UnsupportedError) or error.code is ErrorCode.PASS_OPTION:
        # The report is complete in itself, and says nothing about the compiler.
        return
    bundle = write_bundle(error, planned, plan, before, registry, folder)
    error.hint = f"{error.hint}; {bundle}" if error.hint else bundle


def _dump(folder: Path | None, number: int, name: str, module: Any) -> None:
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{number:03}-{name}.mlir").write_text(str(module), encoding="utf-8")
