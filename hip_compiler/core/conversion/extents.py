"""Extents as SSA values: every symbolic extent is computed once, as early as its symbols allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from hip_compiler.core.mlir import arith, ir
from hip_compiler.shapes import Atom, Dim, Symbol


class ExtentValues:
    """`index` values of symbolic extents in one function.

    Extents of the function's arguments are known at its entry, and so is everything computed from them:
    those values are placed there, which lets memory planning see them. Extents that depend on data are
    placed where they are first needed.
    """

    def __init__(self, entry: Any) -> None:
        """Args: entry: insertion point at the function's entry."""
        self.entry = entry
        self._symbols: dict[Symbol, Any] = {}
        self._at_entry: set[Symbol] = set()
        self._values: dict[Dim | Atom, Any] = {}

    def bind(self, symbol: Symbol, value: Any, *, at_entry: bool) -> None:
        """Say which `index` value a symbol stands for."""
        self._symbols[symbol] = value
        if at_entry:
            self._at_entry.add(symbol)

    def is_bound(self, symbol: Symbol) -> bool:
        return symbol in self._symbols

    @property
    def bound(self) -> frozenset[Symbol]:
        """Symbols that stand for a value here."""
        return frozenset(self._symbols)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """For a region: what is bound and computed inside is not known outside, unless it stands at the entry."""
        symbols, values = dict(self._symbols), dict(self._values)
        try:
            yield
        finally:
            symbols.update((symbol, self._symbols[symbol]) for symbol in self._at_entry)
            values.update((key, value) for key, value in self._values.items() if self._is_early(key))
            self._symbols, self._values = symbols, values

    def _is_early(self, key: Dim | Atom) -> bool:
        return (key.symbols() if isinstance(key, Dim) else _symbols(key)) <= self._at_entry

    def value(self, extent: Dim) -> Any:
        """The `index` value of an extent."""
        if extent not in self._values:
            if self._is_early(extent):
                with self.entry:
                    self._values[extent] = self._sum(extent)
            else:
                self._values[extent] = self._sum(extent)
        return self._values[extent]

    def _sum(self, extent: Dim) -> Any:
        total = None
        for atoms, factor in extent.terms:
            term = None
            for atom in atoms:
                value = self._atom(atom)
                term = value if term is None else arith.muli(term, value)
            if term is None:
                term = index(factor)
            elif factor != 1:
                term = arith.muli(term, index(factor))
            total = term if total is None else arith.addi(total, term)
        return index(0) if total is None else total

    def _atom(self, atom: Atom) -> Any:
        if isinstance(atom, Symbol):
            return self._symbols[atom]
        if atom not in self._values:
            # The value is remembered, so it must stand where every later reader sees it.
            with self.entry if self._is_early(atom) else nullcontext():
                a, b = self.value(atom.a), self.value(atom.b)
                if atom.kind in ("floordiv", "mod") and atom.b.value is None:
                    # A divisor that the run reads may be 0, and division traps before any check of it.
                    b = arith.maxsi(b, index(1))
                self._values[atom] = _OPAQUE[atom.kind](a, b)
        return self._values[atom]


def _symbols(atom: Atom) -> frozenset[Symbol]:
    return frozenset({atom}) if isinstance(atom, Symbol) else atom.a.symbols() | atom.b.symbols()


def index(number: int) -> Any:
    """A constant of type `index`."""
    kind = ir.IndexType.get()
    return arith.constant(kind, ir.IntegerAttr.get(kind, number))


def _floordiv(a: Any, b: Any) -> Any:
    quotient, negative = arith.divsi(a, b), arith.cmpi(arith.CmpIPredicate.slt, arith.remsi(a, b), index(0))
    return arith.select(negative, arith.subi(quotient, index(1)), quotient)


def _mod(a: Any, b: Any) -> Any:
    rest = arith.remsi(a, b)
    return arith.select(arith.cmpi(arith.CmpIPredicate.slt, rest, index(0)), arith.addi(rest, b), rest)


def _broadcast(a: Any, b: Any) -> Any:
    return arith.select(arith.cmpi(arith.CmpIPredicate.eq, a, index(1)), b, a)


_OPAQUE = {
    "floordiv": _floordiv,
    "mod": _mod,
    "max": arith.maxsi,
    "min": arith.minsi,
    "broadcast": _broadcast,
}
