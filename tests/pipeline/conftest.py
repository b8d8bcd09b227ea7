"""A registry of small passes, registered the way a plugin registers them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from hip_compiler.core.dialects.load import make_context
from hip_compiler.core.mlir import ir
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.pipeline import Plan, RunReport, parse_module, plan_text, run_plan
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.contributions import Contribution, Lazy, PassContribution, TargetContribution
from hip_compiler.registry.records import PluginRecord
from hip_compiler.registry.registry import Registry


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
    """Fails in the way asked for."""

    how: Literal["sentence", "bug", "invalid"] = "bug"

    def apply(self, op: Any, context: PassContext) -> None:
        if self.how == "sentence":
            raise HipCompilerError(ErrorCode.SHAPE_MISMATCH, "two and three differ", where="/layer/Add", hint="look")
        if self.how == "bug":
            raise KeyError("lost")
        op.attributes["bad"] = ir.UnitAttr.get()


@dataclass(frozen=True)
class Unfinished:
    """A pass with an option that must be given, and one that text cannot give."""

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
HOST = TargetContribution("host", "", lambda: Path("runtime.bc"))
MODULE = """
func.func @f(%x: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %sum = arith.addi %x, %zero : i32
  return %sum : i32
}
func.func private @g()
"""


def make_registry(*extra: Contribution, builtin: tuple[Contribution, ...] = ()) -> Registry:
    """The built-in plugin with what is given, and a plugin `toy` with the toy passes and more."""
    records = (
        PluginRecord("builtin", "hip-compiler", "1", "v1", "active", "", builtin),
        PluginRecord("toy", "toy-dist", "0.3", "v1", "active", "", (*PASSES, *extra)),
    )
    owners = {id(item): record for record in records for item in record.contributions}
    return Registry(records, (), (), owners)


@dataclass
class Toy:
    """Plan and run pipeline text on a small module."""

    seen: list[str]

    def registry(self, *extra: Contribution, builtin: tuple[Contribution, ...] = ()) -> Registry:
        return make_registry(*extra, builtin=builtin)

    def plan(self, text: str, registry: Registry | None = None) -> Plan:
        registry = registry or make_registry()
        return plan_text(registry, CompileOptions(), make_context(registry), text)

    def run(self, text: str, module: str = MODULE, **options: Any) -> tuple[str, RunReport]:
        registry = make_registry()
        context = make_context(registry)
        parsed = parse_module(module, context, "module")
        compile_options = CompileOptions(**options)
        plan = plan_text(registry, compile_options, context, text)
        report = run_plan(plan, parsed, PassContext(compile_options, HOST, dict(registry.ops)), registry)
        return str(parsed), report


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Toy:
    monkeypatch.setenv("HIPC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("HIPC_REPRO_DIR", raising=False)
    Seen.ran_on.clear()
    return Toy(Seen.ran_on)
