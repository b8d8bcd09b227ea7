"""The equation of an Einsum operator, read into labels per axis (ONNX Einsum, NumPy `einsum`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hip_compiler.core.conversion.onnx_op import NotSupportedError

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Subscripts:
    """Labels of every operand's axes and of the result's; axes under an ellipsis are labelled from the right."""

    operands: tuple[Labels, ...]
    result: Labels


def read_equation(equation: str, ranks: Sequence[int]) -> Subscripts:
    """The labels of an equation for operands of given ranks.

    Raises:
        NotSupportedError: an equation that does not fit the operands, or is none.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise NotSupportedError(f"the equation {equation!r} is for {len(terms)} operands, not {len(ranks)}")
    operands = tuple(_labels(term, rank, equation) for term, rank in zip(terms, ranks, strict=True))
    widest = max((sum(label.startswith("~") for label in labels) for labels in operands), default=0)
    covered = tuple(f"~{number}" for number in reversed(range(widest)))
    if arrow:
        result = _labels(right, len(right.replace("...", "")) + (widest if "..." in right else 0), equation)
    else:
        counts = Counter(label for labels in operands for label in labels)
        once = sorted(label for label, count in counts.items() if count == 1 and not label.startswith("~"))
        result = (*covered, *once)
    known = {label for labels in operands for label in labels}
    if len(set(result)) != len(result) or not set(result) <= known:
        raise NotSupportedError(f"the equation {equation!r} gives a result that is not made of distinct input axes")
    if not set(covered) <= set(result):
        raise NotSupportedError(f"the equation {equation!r} has an ellipsis that its result lacks")
    return Subscripts(operands, result)


def _labels(term: str, rank: int, equation: str) -> Labels:
    before, dots, after = term.partition("...")
    named = before + after
    covered = rank - len(named)
    if not (named.isalpha() or not named) or not named.isascii() or covered < 0 or (covered and not dots):
        raise NotSupportedError(f"the term {term!r} of the equation {equation!r} does not label {rank} axes")
    return (*before, *(f"~{number}" for number in reversed(range(covered))), *after)
