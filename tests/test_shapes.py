"""Symbolic extents: normal form, exact division, broadcasting; checked against integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hip_compiler.shapes import Dim, Opaque, Symbol, broadcast, dim, limits, product, shape, symbol

S, T = symbol("s"), symbol("t")


def value(extent: Dim, numbers: dict[str, int]) -> int:
    """The extent for given symbol values."""
    total = 0
    for atoms, factor in extent.terms:
        term = factor
        for atom in atoms:
            term *= numbers[atom.name] if isinstance(atom, Symbol) else _opaque(atom, numbers)
        total += term
    return total


def _opaque(atom: Opaque, numbers: dict[str, int]) -> int:
    a, b = value(atom.a, numbers), value(atom.b, numbers)
    functions = {"floordiv": lambda: a // b, "mod": lambda: a % b, "max": lambda: max(a, b), "min": lambda: min(a, b)}
    return (b if a == 1 else a) if atom.kind == "broadcast" else functions[atom.kind]()


NUMBERS = st.fixed_dictionaries({"s": st.integers(0, 50), "t": st.integers(0, 50)})
LEAVES = st.one_of(st.integers(-4, 9).map(dim), st.sampled_from([S, T]))
EXTENTS = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        lambda a, b, operator: operator(a, b),
        inner,
        inner,
        st.sampled_from([Dim.__add__, Dim.__sub__, Dim.__mul__, Dim.maximum, Dim.minimum]),
    ),
    max_leaves=6,
)


@given(EXTENTS, EXTENTS, NUMBERS)
def test_arithmetic_agrees_with_integers(a: Dim, b: Dim, numbers: dict[str, int]) -> None:
    x, y = value(a, numbers), value(b, numbers)
    assert value(a + b, numbers) == x + y
    assert value(a - b, numbers) == x - y
    assert value(a * b, numbers) == x * y
    assert value(a.maximum(b), numbers) == max(x, y)


@given(EXTENTS, st.integers(1, 7), NUMBERS)
def test_division_by_a_number_floors(a: Dim, divisor: int, numbers: dict[str, int]) -> None:
    assert value(a // divisor, numbers) == value(a, numbers) // divisor
    assert value(a % divisor, numbers) == value(a, numbers) % divisor


@given(EXTENTS, EXTENTS)
def test_equal_expressions_are_equal_objects(a: Dim, b: Dim) -> None:
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) - b == a
    assert hash(a + b) == hash(b + a)


def test_exact_division_needs_no_opaque_function() -> None:
    assert (S * T * 4) // (S * 2) == T * 2
    assert (S * S + S) // S == S + 1
    assert str((S + 1) // 2) == "floordiv(1 + s, 2)"


def test_constants_fold() -> None:
    assert dim(7) // 2 == dim(3)
    assert dim(-7) // 2 == dim(-4)
    assert (S - S).value == 0
    assert product([]) == dim(1)


def test_broadcast_follows_numpy_where_extents_are_known() -> None:
    assert broadcast([shape(["s", 1, 3]), shape(["t", 3])]) == shape(["s", "t", 3])
    assert broadcast([shape([]), shape([2])]) == shape([2])
    with pytest.raises(ValueError, match="2 and 3 do not broadcast"):
        broadcast([shape([2]), shape([3])])


@given(st.integers(0, 4), st.integers(0, 4))
def test_broadcast_of_unknown_extents_is_decided_at_run_time(s: int, t: int) -> None:
    if s != t and 1 not in (s, t):
        return
    [extent] = broadcast([shape(["s"]), shape(["t"])])
    assert value(extent, {"s": s, "t": t}) == (t if s == 1 else s)


def test_a_bounded_extent_never_broadcasts() -> None:
    bounded = S.minimum(512)
    assert limits(bounded, S)
    assert not limits(S.minimum(1), S)
    assert broadcast([(bounded,), (S,)]) == (S,)
