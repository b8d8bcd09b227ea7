"""Symbolic extents: integer polynomials over named symbols and opaque functions of them.

A `Dim` is kept in one normal form, so two extents are known to be equal exactly when the objects are
equal. What cannot be simplified (a floor division, a maximum) becomes an opaque atom over its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

OpaqueKind = Literal["floordiv", "mod", "max", "min", "broadcast"]


@dataclass(frozen=True, order=True)
class Symbol:
    """An extent known at run time only: a `dim_param`, or one made for an unnamed dimension.

    Attributes:
        signed: it is a number that the run reads, which may turn out to be negative.
    """

    name: str
    signed: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Opaque:
    """A function of two extents with no polynomial form. `broadcast` is ONNX's: `b` where `a` is 1, else `a`."""

    kind: OpaqueKind
    a: Dim
    b: Dim

    def __str__(self) -> str:
        return f"{self.kind}({self.a}, {self.b})"


Atom = Symbol | Opaque
Monomial = tuple[Atom, ...]


@dataclass(frozen=True)
class Dim:
    """An extent: a sum of `coefficient * product of atoms`, in normal form.

    Attributes:
        terms: pairs of monomial (atoms sorted by their text; empty for the constant) and non-zero coefficient.
    """

    terms: tuple[tuple[Monomial, int], ...]

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        return " + ".join(
            "*".join(([str(factor)] if factor != 1 or not atoms else []) + [str(atom) for atom in atoms])
            for atoms, factor in self.terms
        )

    @property
    def value(self) -> int | None:
        """The number, when it is known at compile time."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    def __add__(self, other: Dim | int) -> Dim:
        return _normal((*self.terms, *dim(other).terms))

    def __radd__(self, other: int) -> Dim:
        return dim(other) + self

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim | int) -> Dim:
        return self + -dim(other)

    def __rsub__(self, other: int) -> Dim:
        return dim(other) - self

    def __mul__(self, other: Dim | int) -> Dim:
        return _normal(
            (tuple(sorted((*left, *right), key=str)), a * b) for left, a in self.terms for right, b in dim(other).terms
        )

    def __rmul__(self, other: int) -> Dim:
        return self * other

    def __floordiv__(self, other: Dim | int) -> Dim:
        """Floor division; exact where the polynomial divides."""
        divisor = dim(other)
        exact = divide_exactly(self, divisor)
        if exact is not None:
            return exact
        if self.value is not None and divisor.value:
            return dim(self.value // divisor.value)
        return _atom(Opaque("floordiv", self, divisor))

    def __mod__(self, other: Dim | int) -> Dim:
        divisor = dim(other)
        if divide_exactly(self, divisor) is not None:
            return dim(0)
        if self.value is not None and divisor.value:
            return dim(self.value % divisor.value)
        return _atom(Opaque("mod", self, divisor))

    def maximum(self, other: Dim | int) -> Dim:
        right = dim(other)
        if self == right:
            return self
        if self.value is not None and right.value is not None:
            return dim(max(self.value, right.value))
        return _atom(Opaque("max", self, right))

    def minimum(self, other: Dim | int) -> Dim:
        right = dim(other)
        if self == right:
            return self
        if self.value is not None and right.value is not None:
            return dim(min(self.value, right.value))
        return _atom(Opaque("min", self, right))

    def symbols(self) -> frozenset[Symbol]:
        """Every symbol the value depends on."""
        found: set[Symbol] = set()
        for atoms, _ in self.terms:
            for atom in atoms:
                found |= {atom} if isinstance(atom, Symbol) else atom.a.symbols() | atom.b.symbols()
        return frozenset(found)


Shape = tuple[Dim, ...]


def dim(value: Dim | int) -> Dim:
    """The extent of a number, or the extent itself."""
    if isinstance(value, Dim):
        return value
    return Dim((((), int(value)),) if value else ())


def symbol(name: str, *, signed: bool = False) -> Dim:
    """The extent of a named symbol."""
    return _atom(Symbol(name, signed))


def shape(extents: Iterable[Dim | int | str]) -> Shape:
    """A shape of numbers, symbol names and extents."""
    return tuple(symbol(extent) if isinstance(extent, str) else dim(extent) for extent in extents)


def product(extents: Iterable[Dim | int]) -> Dim:
    """Product of extents; 1 for none."""
    return reduce(lambda left, right: left * right, (dim(extent) for extent in extents), dim(1))


def broadcast_dim(a: Dim, b: Dim) -> Dim:
    """Extent of two broadcast dimensions (ONNX broadcasting, that is NumPy's).

    Raises:
        ValueError: two known extents that differ and are not 1.
    """
    if a == b or b.value == 1:
        return a
    if a.value == 1:
        return b
    if a.value is not None and b.value is not None:
        raise ValueError(f"extents {a} and {b} do not broadcast")
    if limits(a, b):
        return b
    if limits(b, a):
        return a
    # A known extent other than 1 decides: the other side is 1 or equal to it.
    if a.value is not None:
        return a
    if b.value is not None:
        return b
    return _atom(Opaque("broadcast", a, b))


def not_negative(extent: Dim) -> bool:
    """Whether an extent cannot be negative: a sum of products of extents, without numbers that the run reads."""
    return all(factor > 0 and all(map(_atom_not_negative, atoms)) for atoms, factor in extent.terms)


def _atom_not_negative(atom: Atom) -> bool:
    if isinstance(atom, Opaque) and atom.kind == "max":
        return not_negative(atom.a) or not_negative(atom.b)
    return not any(found.signed for found in _atom(atom).symbols())


def limits(limited: Dim, extent: Dim) -> bool:
    """Whether the first is `min(extent, n)` with a number n > 1.

    It is then 1 only where the extent is, so it never broadcasts.
    """
    atom = limited.terms[0][0][0] if len(limited.terms) == 1 and len(limited.terms[0][0]) == 1 else None
    if not isinstance(atom, Opaque) or atom.kind != "min" or limited.terms[0][1] != 1:
        return False
    sides = (atom.a, atom.b)
    return extent in sides and any(side.value is not None and side.value > 1 for side in sides)


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Shape of broadcast operands, right-aligned.

    Raises:
        ValueError: shapes that do not broadcast.
    """
    rank = max((len(s) for s in shapes), default=0)
    padded = [(dim(1),) * (rank - len(s)) + s for s in shapes]
    return tuple(reduce(broadcast_dim, column) for column in zip(*padded, strict=True)) if rank else ()


def divide_exactly(dividend: Dim, divisor: Dim) -> Dim | None:
    """The quotient when the divisor is one term that divides every term of the dividend, else None."""
    if len(divisor.terms) != 1:
        return dim(1) if dividend == divisor and divisor.terms else None
    atoms, factor = divisor.terms[0]
    quotient: list[tuple[Monomial, int]] = []
    for own, coefficient in dividend.terms:
        rest = list(own)
        for atom in atoms:
            if atom not in rest:
                return None
            rest.remove(atom)
        if coefficient % factor:
            return None
        quotient.append((tuple(rest), coefficient // factor))
    return _normal(quotient)


def _atom(atom: Atom) -> Dim:
    return Dim((((atom,), 1),))


def _normal(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    sums: dict[Monomial, int] = {}
    for atoms, coefficient in terms:
        sums[atoms] = sums.get(atoms, 0) + coefficient
    kept = [(atoms, coefficient) for atoms, coefficient in sums.items() if coefficient]
    return Dim(tuple(sorted(kept, key=lambda term: (len(term[0]), [str(a) for a in term[0]]))))
