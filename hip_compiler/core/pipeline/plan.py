"""From pipeline text to the list of passes that will run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import passmanager
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.pipeline.options import make_pass
from hip_compiler.core.pipeline.text import MODULE, Element, parse
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.contributions import Lazy, PassContribution
from hip_compiler.registry.names import listing, nearest
from hip_compiler.registry.records import PluginRecord
from hip_compiler.registry.registry import Registry
from hip_compiler.slots import SLOT_PREFIX, PipelineSlot

ANY = "any"
COMMON_NATIVE = (
    "canonicalize", "cse", "symbol-dce", "inline", "sccp", "one-shot-bufferize", "convert-linalg-to-loops",
    "convert-scf-to-cf", "convert-func-to-llvm", "convert-arith-to-llvm", "convert-math-to-llvm", "convert-cf-to-llvm",
    "convert-index-to-llvm", "convert-bufferization-to-memref", "expand-strided-metadata", "finalize-memref-to-llvm",
    "lower-affine", "linalg-fuse-elementwise-ops", "linalg-generalize-named-ops", "loop-invariant-code-motion",
    "reconcile-unrealized-casts", "strip-debuginfo",
)  # fmt: skip
"""Passes of MLIR offered as nearest names. The bindings cannot list theirs; any other name is tried, not looked up."""


@dataclass(frozen=True)
class PlannedPass:
    """One pass that will run.

    Attributes:
        name: name of the pass.
        text: its text with options.
        path: anchors from ``builtin.module`` down to where it runs.
        instance: the Python pass, or None for a pass of MLIR.
        anchor: operation a Python pass runs on; empty for a pass of MLIR.
        owner: the plugin that registered the pass; None for a pass of MLIR.
        requested_by: the plugin whose slot request put it here, with the slot; empty otherwise.
        element: where its text stands.
    """

    name: str
    text: str
    path: tuple[str, ...]
    instance: Any
    anchor: str
    owner: PluginRecord | None
    requested_by: str
    element: Element

    def __str__(self) -> str:
        text = self.text
        for anchor in reversed(self.path[1:]):
            text = f"{anchor}({text})"
        return text


@dataclass(frozen=True)
class Plan:
    """A pipeline with everything resolved.

    Attributes:
        source: the text it was made from.
        override: the text replaces the built-in pipeline.
        skipped: slot requests that an override leaves out, in words.
    """

    passes: tuple[PlannedPass, ...]
    source: str
    override: bool = False
    skipped: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Every pass spelt out: text that gives the same plan with no plugin's slot request needed."""
        return f"{MODULE}({','.join(map(str, self.passes))})"


@dataclass
class Planner:
    """Resolves elements against a registry and the MLIR bindings.

    Attributes:
        context: an `ir.Context`; passes of MLIR are looked up in it.
        run_slots: whether slots placed by a named pipeline run their requests.
    """

    registry: Registry
    options: CompileOptions
    context: Any
    run_slots: bool = True

    def plan(self, elements: Sequence[Element]) -> tuple[PlannedPass, ...]:
        """Every pass of the elements, in order.

        Raises:
            HipCompilerError: `HIPC0300` to `HIPC0304`.
        """
        return tuple(self._elements(elements, (MODULE,), "", ()))

    def _elements(
        self, elements: Sequence[Element], path: tuple[str, ...], requested_by: str, inside: tuple[str, ...]
    ) -> list[PlannedPass]:
        return [step for element in elements for step in self._element(element, path, requested_by, inside)]

    def _element(
        self, element: Element, path: tuple[str, ...], requested_by: str, inside: tuple[str, ...]
    ) -> list[PlannedPass]:
        if element.slot is not None:
            return self._slot(element, path, requested_by, inside)
        if element.children is not None:
            return self._nested(element, path, requested_by, inside)
        if element.name in self.registry.pipelines:
            return self._pipeline(element, path, requested_by, inside)
        if element.name in self.registry.passes:
            return [self._python(element, self.registry.passes[element.name], path, requested_by)]
        self._check_native(element, path)
        text = element.name if element.options is None else f"{element.name}{{{element.options}}}"
        return [PlannedPass(element.name, text, path, None, "", None, requested_by, element)]

    def _nested(
        self, element: Element, path: tuple[str, ...], requested_by: str, inside: tuple[str, ...]
    ) -> list[PlannedPass]:
        if element.name in self.registry.passes or element.name in self.registry.pipelines:
            raise element.error(ErrorCode.PIPELINE_SYNTAX, f"'{element.name}' is a pass and takes no '(...)'")
        if element.options is not None:
            raise element.error(ErrorCode.PIPELINE_SYNTAX, f"anchor '{element.name}' takes no options")
        if element.name != ANY and "." not in element.name:
            raise element.error(
                ErrorCode.UNKNOWN_PASS,
                f"'{element.name}' is no operation to nest passes under",
                hint="nest with func.func(...), any(...) or another operation's full name",
            )
        return self._elements(element.children or (), (*path, element.name), requested_by, inside)

    def _slot(
        self, element: Element, path: tuple[str, ...], requested_by: str, inside: tuple[str, ...]
    ) -> list[PlannedPass]:
        if element.slot not in list(PipelineSlot):
            raise element.error(
                ErrorCode.UNKNOWN_PASS,
                f"there is no slot '{element.slot}'",
                why=f"slots, in order: {', '.join(PipelineSlot)}",
                hint=nearest(str(element.slot), PipelineSlot),
            )
        if requested_by:
            raise element.error(ErrorCode.PIPELINE_SYNTAX, "the text of a slot request cannot place a slot")
        if path != (MODULE,) or element.options is not None or element.children is not None:
            raise element.error(ErrorCode.PIPELINE_SYNTAX, "a slot stands alone, directly under builtin.module")
        if inside and not self.run_slots:
            return []
        steps: list[PlannedPass] = []
        for request in self.registry.slot_requests:
            if request.slot == element.slot:
                who = f"slot {request.slot}, requested by {self.registry.owner(request)}"
                steps += self._elements(parse(request.pipeline, who), path, who, inside)
        return steps

    def _pipeline(
        self, element: Element, path: tuple[str, ...], requested_by: str, inside: tuple[str, ...]
    ) -> list[PlannedPass]:
        if path != (MODULE,):
            raise element.error(ErrorCode.PIPELINE_SYNTAX, f"pipeline '{element.name}' stands directly under {MODULE}")
        if element.options is not None:
            raise element.error(ErrorCode.PASS_OPTION, f"pipeline '{element.name}' takes no options")
        if element.name in inside:
            chain = " -> ".join((*inside, element.name))
            raise element.error(ErrorCode.PIPELINE_SYNTAX, f"pipeline '{element.name}' contains itself: {chain}")
        contribution = self.registry.pipelines[element.name]
        owner = self.registry.owner(contribution)
        text = _guarded(lambda: contribution.build(self.options), element, f"pipeline '{element.name}' of {owner}")
        if not isinstance(text, str):
            raise element.error(ErrorCode.PLUGIN_BROKEN, f"pipeline '{element.name}' of {owner} gave no text")
        nested = parse(text, f"pipeline '{element.name}' of {owner}")
        return self._elements(nested, path, requested_by, (*inside, element.name))

    def _python(
        self, element: Element, contribution: PassContribution, path: tuple[str, ...], requested_by: str
    ) -> PlannedPass:
        owner = self.registry.owner(contribution)
        if not owner.builtin and self._native_problem(contribution.name, (MODULE,)) is None:
            raise element.error(
                ErrorCode.PLUGIN_CONFLICT,
                f"pass '{contribution.name}' of {owner} has the name of a pass of MLIR",
                hint="prefix the name with the vendor's",
            )
        if path[-1] not in (contribution.anchor, ANY):
            nested = f"{contribution.anchor}({element.name})"
            raise element.error(
                ErrorCode.PIPELINE_SYNTAX,
                f"pass '{element.name}' runs on {contribution.anchor} and stands under {path[-1]}",
                hint=f"write {nested}" if contribution.anchor != MODULE else "take it out of the nesting",
            )
        factory = contribution.factory
        if isinstance(factory, Lazy):
            lazy = factory
            factory = _guarded(lazy.load, element, f"pass '{element.name}' of {owner} ({lazy.reference})")
        instance = make_pass(element, factory)
        text = element.name if element.options is None else f"{element.name}{{{element.options}}}"
        return PlannedPass(element.name, text, path, instance, contribution.anchor, owner, requested_by, element)

    def _check_native(self, element: Element, path: tuple[str, ...]) -> None:
        text = element.name if element.options is None else f"{element.name}{{{element.options}}}"
        problem = self._native_problem(text, path)
        if problem is None:
            return
        if "does not refer to a registered pass" in problem:
            known = [*self.registry.passes, *self.registry.pipelines]
            slots = [f"{SLOT_PREFIX}{slot}" for slot in PipelineSlot]
            near = nearest(element.name, [*known, *slots, *COMMON_NATIVE])
            raise element.error(
                ErrorCode.UNKNOWN_PASS,
                f"nothing registers a pass or pipeline '{element.name}'",
                why=f"registered here: {listing(known)}; and the passes of MLIR",
                hint=near or "'hip-compiler passes' lists what there is; 'hip-compiler plugins' says what was left out",
            )
        if "restricted to" in problem:
            raise element.error(
                ErrorCode.PIPELINE_SYNTAX, f"pass '{element.name}' cannot run on {path[-1]}", why=problem
            )
        raise element.error(ErrorCode.PASS_OPTION, f"options of pass '{element.name}' do not fit", why=problem)

    def _native_problem(self, text: str, path: tuple[str, ...]) -> str | None:
        """What the bindings say about a pass at a place; None when they accept it."""
        for anchor in reversed(path):
            text = f"{anchor}({text})"
        try:
            passmanager.PassManager.parse(text, context=self.context)
        except ValueError as error:
            return str(error).strip().splitlines()[0]
        return None


def _guarded(action: Callable[[], Any], element: Element, what: str) -> Any:
    """Run code of a plugin; its failure becomes an error that names the plugin."""
    try:
        return action()
    except HipCompilerError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise element.error(ErrorCode.PLUGIN_BROKEN, f"{what} cannot be made", why=why) from error
