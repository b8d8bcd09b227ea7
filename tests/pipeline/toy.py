"""A registry of small passes, registered the way a plugin registers them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

from hip_compiler.core.dialects.load import make_context
from hip_compiler.core.mlir import ir
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.passes.base import PassContext
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.contributions import (
    Contribution,
    Lazy,
    PassContribution,
    PipelineContribution,
    SlotRequest,
    TargetContribution,
)
from hip_compiler.registry.records import PluginRecord
from hip_compiler.registry.registry import Registry
from hip_compiler.slots import PipelineSlot
from hip_compiler.slots.builtin import PIPELINES


@dataclass(frozen=True)
class Mark:
    """Appends a word to the `toy.marks` attribute of its anchor."""

    word: str = "mark"
    times: int = 1
    loud: bool = False
    scale: float = 1.0
    sizes: tuple[int, ...] = ()
    mode: Literal["fast", "exact"] = "fast"

    def apply(self, op: Any, context: PassContext) -> None:
        word = self.word.upper() if self.loud else self.word
        old = [entry.value for entry in op.attributes["toy.marks"]] if "toy.marks" in op.attributes else []
        op.attributes["toy.marks"] = ir.ArrayAttr.get(
            [ir.StringAttr.get(text) for text in [*old, *[word] * self.times]]
        )


@dataclass(frozen=True)
class Seen:
    """Notes which operations it ran on."""

    ran_on: ClassVar[list[str]] = []

    def apply(self, op: Any, context: PassContext) -> None:
        self.ran_on.append(op.attributes["sym_name"].value)


@dataclass(frozen=True)
class Fail:
    how: Literal["sentence", "bug", "invalid"] = "bug"

    def apply(self, op: Any, context: PassContext) -> None:
        if self.how == "sentence":
            raise HipCompilerError(ErrorCode.SHAPE_MISMATCH, "two and three differ", where="/layer/Add", hint="look")
        if self.how == "bug":
            raise KeyError("lost")
        op.attributes["bad"] = ir.UnitAttr.get()


@dataclass(frozen=True)
class Unfinished:
    needed: int
    names: dict[str, str] = field(default_factory=dict)

    def apply(self, op: Any, context: PassContext) -> None:
        return None


PASSES = (
    PassContribution("toy-mark", Mark, ""),
    PassContribution("toy-mark-func", Mark, "", "func.func"),
    PassContribution("toy-seen", Seen, "", "func.func"),
    PassContribution("toy-fail", Fail, ""),
    PassContribution("toy-unfinished", Unfinished, ""),
    PassContribution("toy-gone", Lazy("no_such_module:Pass"), ""),
)
HOST = TargetContribution("host", "", lambda: None)  # type: ignore[arg-type,return-value]


def registry(*extra: Contribution, builtin: tuple[Contribution, ...] = ()) -> Registry:
    """Built-in pipelines and whatever is given, and a plugin `toy` with the toy passes and more."""
    records = (
        PluginRecord("builtin", "hip-compiler", "1", "v1", "active", "", (*PIPELINES, *builtin)),
        PluginRecord("toy", "toy-dist", "0.3", "v1", "active", "", (*PASSES, *extra)),
    )
    owners = {id(item): record for record in records for item in record.contributions}
    return Registry(records, (), (), owners)


def setup(made: Registry, **options: Any) -> tuple[Any, PassContext]:
    """An MLIR context and a pass context."""
    return make_context(made), PassContext(CompileOptions(**options), HOST, dict(made.ops))


__all__ = [
    "HOST",
    "PIPELINES",
    "PipelineContribution",
    "PipelineSlot",
    "SimpleNamespace",
    "SlotRequest",
    "registry",
    "setup",
]
