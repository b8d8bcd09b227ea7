"""Pipeline text: what parses, what it prints as, and where the caret stands when it does not parse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hip_compiler.core.pipeline.text import elements_text, parse
from hip_compiler.errors import ErrorCode, HipCompilerError

NAMES = st.sampled_from(["cse", "hip-pool-allocs", "func.func", "any", "slot:AfterPoolAllocs", "a_b.c"])
OPTIONS = st.none() | st.sampled_from(["", "level=2", "a={x,y} b", "text='},)'", 'q="a b"'])


def texts(depth: int) -> st.SearchStrategy[str]:
    leaf = st.builds(lambda name, options: name + ("" if options is None else f"{{{options}}}"), NAMES, OPTIONS)
    if depth == 0:
        return leaf
    nested = st.builds(
        lambda name, children: f"{name}({','.join(children)})", NAMES, st.lists(texts(depth - 1), max_size=3)
    )
    return leaf | nested


@given(st.lists(texts(2), min_size=1, max_size=4).map(",".join))
def test_printing_and_parsing_agree(text: str) -> None:
    once = elements_text(parse(text))
    assert elements_text(parse(once)) == once


def test_the_outer_module_is_taken_off_once() -> None:
    assert [str(element) for element in parse("  builtin.module( cse , func.func(canonicalize) ) ")] == [
        "cse",
        "func.func(canonicalize)",
    ]
    assert parse("builtin.module()") == ()
    assert str(parse("builtin.module(cse),canonicalize")[0]) == "builtin.module(cse)"


def test_an_element_taken_apart() -> None:
    (outer,) = parse("func.func(one{a=1 b={x,y}}, slot:AfterPoolAllocs)")
    first, second = outer.children or ()
    assert (first.name, first.options, first.slot) == ("one", "a=1 b={x,y}", None)
    assert (second.name, second.slot) == ("slot:AfterPoolAllocs", "AfterPoolAllocs")


@pytest.mark.parametrize(
    ("text", "expected", "column"),
    [
        ("", "expected the name of a pass", 0),
        ("a,,b", "expected the name of a pass", 2),
        ("a,", "expected the name of a pass", 2),
        ("a b", "expected ',' or the end", 2),
        ("a)", "expected ',' or the end", 1),
        ("func.func(cse", "this '(' is not closed", 9),
        ("func.func(cse;)", "expected ',' or ')'", 13),
        ("cse{a=1", "this '{' is not closed", 3),
        ("cse{a='}", "this '{' is not closed", 3),
        ("slot:", "expected ',' or the end", 4),
    ],
)
def test_syntax_errors_point_at_the_place(text: str, expected: str, column: int) -> None:
    with pytest.raises(HipCompilerError) as caught:
        parse(text, "HIPDNN_EP_PIPELINE")
    error = caught.value
    assert error.code is ErrorCode.PIPELINE_SYNTAX
    assert expected in error.what
    assert error.where == "HIPDNN_EP_PIPELINE"
    assert error.details == (text, " " * column + "^")


def test_the_caret_of_a_long_text_shows_its_surroundings() -> None:
    text = ",".join(["canonicalize"] * 30) + ",;,\n" + ",".join(["cse"] * 30)
    with pytest.raises(HipCompilerError) as caught:
        parse(text)
    line, caret = caught.value.details
    assert len(line) < 120
    assert line.startswith("...") and line.endswith("...") and "\n" not in line
    assert line[caret.index("^")] == ";"


def test_remarks_are_space() -> None:
    text = "# first\ncanonicalize, # why\n func.func( # inside\n cse ) # last\n# end"
    assert elements_text(parse(text)) == "canonicalize,func.func(cse)"


def test_a_remark_does_not_hide_what_is_missing() -> None:
    with pytest.raises(HipCompilerError, match="expected the name of a pass"):
        parse("canonicalize, # cse")
