"""From text to passes: names, nesting, named pipelines, slots, options, and every way that it is refused."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from hip_compiler.core.dialects.load import make_context
from hip_compiler.core.options import CompileOptions
from hip_compiler.core.pipeline import PipelineWarning, plan_compile
from hip_compiler.core.pipeline.plan import COMMON_NATIVE
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.contributions import Contribution, PassContribution, PipelineContribution, SlotRequest
from hip_compiler.slots import PipelineSlot
from hip_compiler.slots.builtin import DEFAULT

SLOT = PipelineSlot.AFTER_POOL_ALLOCS
BUILTIN = (PipelineContribution(DEFAULT, lambda options: f"cse,slot:{SLOT},canonicalize", ""),)


def request(text: str) -> SlotRequest:
    return SlotRequest(SLOT, text)


def refusal(toy: Any, text: str, *extra: Contribution) -> HipCompilerError:
    with pytest.raises(HipCompilerError) as caught:
        toy.plan(text, toy.registry(*extra, builtin=BUILTIN))
    return caught.value


def test_a_plan_prints_as_text_that_gives_the_same_plan(toy: Any) -> None:
    registry = toy.registry(request("toy-mark{word=slot},func.func(toy-mark-func,cse)"), builtin=BUILTIN)
    plan = toy.plan("hipdnn-pipeline,any(toy-seen)", registry)
    assert plan.text == (
        "builtin.module(cse,toy-mark{word=slot},func.func(toy-mark-func),func.func(cse),canonicalize,any(toy-seen))"
    )
    assert toy.plan(plan.text, registry).text == plan.text


def test_every_native_name_offered_as_a_hint_exists(toy: Any) -> None:
    assert len(toy.plan(",".join(COMMON_NATIVE)).passes) == len(COMMON_NATIVE)


def test_slot_requests_run_in_order_of_plugins_and_remember_who_asked(toy: Any) -> None:
    registry = toy.registry(
        request("toy-mark{word=a}"), request("toy-mark{word=b}"), request("toy-mark{word=a}"), builtin=BUILTIN
    )
    plan = toy.plan(DEFAULT, registry)
    assert [str(planned) for planned in plan.passes] == [
        "cse", "toy-mark{word=a}", "toy-mark{word=b}", "toy-mark{word=a}", "canonicalize"
    ]  # fmt: skip
    assert plan.passes[1].requested_by == "slot AfterPoolAllocs, requested by plugin 'toy' of toy-dist 0.3"
    assert plan.passes[0].requested_by == ""


def test_an_unknown_name_in_a_slot_request_names_slot_plugin_and_nearest(toy: Any) -> None:
    error = refusal(toy, DEFAULT, request("cse,func.func(toy-sen)"))
    assert error.code is ErrorCode.UNKNOWN_PASS
    assert error.what == "nothing registers a pass or pipeline 'toy-sen'"
    assert error.where == "slot AfterPoolAllocs, requested by plugin 'toy' of toy-dist 0.3"
    assert error.details == ("cse,func.func(toy-sen)", "              ^")
    assert "toy-fail, toy-gone" in error.why
    assert error.hint == "did you mean 'toy-seen'?"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("canonicalise", ErrorCode.UNKNOWN_PASS, "did you mean 'canonicalize'?"),
        ("zzz", ErrorCode.UNKNOWN_PASS, "'hip-compiler passes' lists what there is"),
        ("slot:AfterPoolAlloc", ErrorCode.UNKNOWN_PASS, "did you mean 'AfterPoolAllocs'?"),
        ("func.func(slot:AfterPoolAllocs)", ErrorCode.PIPELINE_SYNTAX, "a slot stands alone"),
        ("slot:AfterPoolAllocs{a=1}", ErrorCode.PIPELINE_SYNTAX, "a slot stands alone"),
        ("func.func(hipdnn-pipeline)", ErrorCode.PIPELINE_SYNTAX, "stands directly under builtin.module"),
        ("hipdnn-pipeline{a=1}", ErrorCode.PASS_OPTION, "takes no options"),
        ("toy-mark(cse)", ErrorCode.PIPELINE_SYNTAX, "is a pass and takes no '(...)'"),
        ("func.func{a=1}(cse)", ErrorCode.PIPELINE_SYNTAX, "anchor 'func.func' takes no options"),
        ("function(cse)", ErrorCode.UNKNOWN_PASS, "'function' is no operation to nest passes under"),
        ("toy-mark-func", ErrorCode.PIPELINE_SYNTAX, "write func.func(toy-mark-func)"),
        ("func.func(toy-mark)", ErrorCode.PIPELINE_SYNTAX, "take it out of the nesting"),
        ("func.func(convert-func-to-llvm)", ErrorCode.PIPELINE_SYNTAX, "cannot run on func.func"),
        ("canonicalize{bad=1}", ErrorCode.PASS_OPTION, "no such option bad"),
        ("toy-gone", ErrorCode.PLUGIN_BROKEN, "No module named 'no_such_module'"),
        ("toy-mark{tims=2}", ErrorCode.PASS_OPTION, "did you mean 'times'?"),
        ("toy-mark{times=two}", ErrorCode.PASS_OPTION, "expected an integer"),
        ("toy-mark{times}", ErrorCode.PASS_OPTION, "expected a value: an integer"),
        ("toy-mark{loud=maybe}", ErrorCode.PASS_OPTION, "expected true or false"),
        ("toy-mark{scale=big}", ErrorCode.PASS_OPTION, "expected a number"),
        ("toy-mark{sizes=1,x}", ErrorCode.PASS_OPTION, "expected an integer"),
        ("toy-mark{mode=slow}", ErrorCode.PASS_OPTION, "expected one of fast, exact"),
        ("toy-mark{times=1 times=2}", ErrorCode.PASS_OPTION, "is given twice"),
        ("toy-mark{=}", ErrorCode.PASS_OPTION, "do not parse"),
        ("toy-unfinished", ErrorCode.PASS_OPTION, "needs option 'needed'"),
        ("toy-unfinished{needed=1 names=a}", ErrorCode.PASS_OPTION, "cannot be given in a pipeline"),
    ],
)
def test_refusals(toy: Any, text: str, code: ErrorCode, message: str) -> None:
    error = refusal(toy, text)
    assert error.code is code
    assert message in str(error)
    assert "^" in error.details[1]


def test_options_arrive_typed(toy: Any) -> None:
    plan = toy.plan("toy-mark{word='a b' times=0x10 loud scale=2.5 sizes={1,2} mode=exact},toy-unfinished{needed=-3}")
    mark, unfinished = (planned.instance for planned in plan.passes)
    assert (mark.word, mark.times, mark.loud, mark.scale, mark.sizes, mark.mode) == (
        "a b", 16, True, 2.5, (1, 2), "exact"
    )  # fmt: skip
    assert unfinished.needed == -3


def test_pipelines_that_contain_themselves_are_refused(toy: Any) -> None:
    error = refusal(
        toy, "one", PipelineContribution("one", lambda o: "two", ""), PipelineContribution("two", lambda o: "one", "")
    )
    assert "pipeline 'one' contains itself: one -> two -> one" in error.what


def test_a_pipeline_that_cannot_be_built_names_its_plugin(toy: Any) -> None:
    broken = PipelineContribution("broken", lambda options: options.no_such_option, "")
    assert "pipeline 'broken' of plugin 'toy' of toy-dist 0.3 cannot be made" in str(refusal(toy, "broken", broken))
    silent = PipelineContribution("silent", lambda options: None, "")  # type: ignore[arg-type,return-value]
    assert "gave no text" in refusal(toy, "silent", silent).what


def test_a_pipeline_is_composed_from_the_compile_options(toy: Any) -> None:
    by_level = PipelineContribution("by-level", lambda options: "cse" if options.opt_level else "canonicalize", "")
    registry = toy.registry(by_level)
    context = make_context(registry)
    for level, name in ((0, "canonicalize"), (3, "cse")):
        plan = plan_compile(registry, CompileOptions(pipeline="by-level", opt_level=level), context)
        assert [planned.name for planned in plan.passes] == [name]


def test_a_slot_request_cannot_place_a_slot(toy: Any) -> None:
    error = refusal(toy, DEFAULT, request("slot:BeforeBufferization"))
    assert error.what == "the text of a slot request cannot place a slot"


def test_a_plugin_pass_may_not_hide_a_pass_of_mlir(toy: Any) -> None:
    class Nothing:
        def apply(self, op: Any, context: Any) -> None:
            return None

    error = refusal(toy, "cse", PassContribution("cse", Nothing, ""))
    assert error.code is ErrorCode.PLUGIN_CONFLICT
    assert "pass 'cse' of plugin 'toy' of toy-dist 0.3 has the name of a pass of MLIR" in error.what


class TestOverride:
    """HIPDNN_EP_PIPELINE and `pipeline=`."""

    def plan(self, toy: Any, pipeline: str = "") -> Any:
        registry = toy.registry(request("toy-mark{word=slot}"), builtin=BUILTIN)
        return plan_compile(registry, CompileOptions(pipeline=pipeline), make_context(registry))

    def test_without_one_the_built_in_pipeline_runs_with_slots(self, toy: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            plan = self.plan(toy)
        assert not plan.override
        assert [planned.name for planned in plan.passes] == ["cse", "toy-mark", "canonicalize"]

    def test_slots_do_not_run_and_one_warning_lists_what_is_left_out(
        self, toy: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HIPDNN_EP_PIPELINE", " builtin.module(hipdnn-pipeline) ")
        with pytest.warns(PipelineWarning) as caught:
            plan = self.plan(toy)
        assert len(caught) == 1
        text = str(caught[0].message)
        assert text.startswith("HIPDNN_EP_PIPELINE replaces the built-in pipeline; these slot requests will not run:")
        assert "slot AfterPoolAllocs: toy-mark{word=slot} (plugin 'toy' of toy-dist 0.3)" in text
        assert plan.override
        assert [planned.name for planned in plan.passes] == ["cse", "canonicalize"]

    def test_an_override_places_slots_itself(self, toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HIPDNN_EP_PIPELINE", "canonicalize,slot:AfterPoolAllocs")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            plan = self.plan(toy)
        assert [planned.name for planned in plan.passes] == ["canonicalize", "toy-mark"]

    def test_the_option_wins_over_the_variable(self, toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HIPDNN_EP_PIPELINE", "this does not parse")
        with pytest.warns(PipelineWarning, match="pipeline= replaces"):
            assert [planned.name for planned in self.plan(toy, "cse").passes] == ["cse"]

    def test_blank_means_unset(self, toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HIPDNN_EP_PIPELINE", "  ")
        assert not self.plan(toy).override

    def test_text_that_does_not_parse_names_the_variable(self, toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HIPDNN_EP_PIPELINE", "cse,(")
        with pytest.raises(HipCompilerError) as caught:
            self.plan(toy)
        assert caught.value.where == "HIPDNN_EP_PIPELINE"
