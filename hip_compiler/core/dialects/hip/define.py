"""Shorthand for declaring operations of the hip dialect, and the rules their verifiers are made of.

`define` turns names into operand definitions and a list of rules into one verifier. A rule sees an
`OperandView` and returns the sentence that says what is wrong, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hip_compiler.core.dialects.access import read_op
from hip_compiler.core.mlir import ir
from hip_compiler.registry.contributions import (
    AttributeDef,
    AttributeKind,
    CallLowering,
    OpDef,
    OperandDef,
    Operation,
    OpShapes,
    OpVerifier,
    ShapeFunction,
)
from hip_compiler.shapes import Dim, Shape

MAX_RANK = 8
"""Greatest rank of a tensor of the runtime ABI (`HIPC_MAX_RANK`)."""

FLOATS = ("f32", "f16", "bf16", "f64")
INTEGERS = ("i8", "i16", "i32", "i64")
NUMBERS = FLOATS + INTEGERS
INDICES = ("i32", "i64")

UNSIGNED = AttributeDef("unsigned", "bool", default=False)
"""Storage types are signless; an operation that orders or saturates integers is told how to read them."""


@dataclass(frozen=True)
class OperandView:
    """Operands of an operation by name: their types, and the attributes as Python values."""

    types: Mapping[str, Any]
    attributes: Mapping[str, Any]

    def element(self, name: str) -> str | None:
        """Element type as MLIR text; None for an absent operand."""
        return str(self.types[name].element_type) if name in self.types else None

    def rank(self, name: str) -> int | None:
        """Rank; None for an absent operand."""
        return self.types[name].rank if name in self.types else None

    def extent(self, name: str, axis: int) -> int | None:
        """Extent of one axis; None where it is dynamic."""
        shaped = self.types[name]
        return None if shaped.is_dynamic_dim(axis) else shaped.get_dim_size(axis)


Rule = Callable[[OperandView], str | None]


def attribute(name: str, kind: AttributeKind, default: Any = None, choices: Sequence[str] = ()) -> AttributeDef:
    """One attribute; see `AttributeDef`."""
    return AttributeDef(name, kind, default, tuple(choices))


def define(
    name: str,
    summary: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    reify: ShapeFunction,
    *,
    attributes: Sequence[AttributeDef] = (),
    rules: Sequence[Rule] = (),
) -> OpDef:
    """Declares an operation that lowers to the runtime function of its name.

    Args:
        name: name without the dialect.
        inputs: operand names; a trailing ``?`` marks an optional one.
        outputs: names of the destinations.
    """
    definition = OpDef(
        name=f"hip.{name}",
        summary=summary,
        inputs=tuple(OperandDef(text.rstrip("?"), optional=text.endswith("?")) for text in inputs),
        outputs=tuple(OperandDef(text) for text in outputs),
        attributes=tuple(attributes),
        reify=reify,
        lowering=CallLowering(f"hipc_{name}"),
    )
    return replace(definition, verify=_verifier(definition, rules))


def _verifier(definition: OpDef, rules: Sequence[Rule]) -> OpVerifier:
    def verify(op: Operation) -> str | None:
        view = _view(definition, op)
        for name in view.types:
            rank = view.rank(name)
            if rank is not None and rank > MAX_RANK:
                return f"operand {name} has rank {rank}; at most {MAX_RANK} is supported"
        return next((problem for rule in rules if (problem := rule(view)) is not None), None)

    return verify


def _view(definition: OpDef, op: Operation) -> OperandView:
    parts = read_op(definition, op)
    named = {**parts.inputs, **parts.outputs}
    types = {name: ir.ShapedType(value.type) for name, value in named.items() if value is not None}
    return OperandView(types, parts.attributes)


# ---- rules ------------------------------------------------------------------------------------------------------


def element(name: str, allowed: Sequence[str]) -> Rule:
    """The operand, where present, has one of these element types."""

    def rule(view: OperandView) -> str | None:
        found = view.element(name)
        if found is None or found in allowed:
            return None
        return f"operand {name} has element type {found}; {_either(allowed)} is needed"

    return rule


def same_element(first: str, *others: str) -> Rule:
    """The operands that are present have one element type."""

    def rule(view: OperandView) -> str | None:
        expected = view.element(first)
        for other in others:
            found = view.element(other)
            if found is not None and found != expected:
                return f"operand {other} has element type {found}, but {first} has {expected}"
        return None

    return rule


def rank(name: str, least: int, most: int = MAX_RANK) -> Rule:
    """The operand, where present, has a rank between two numbers."""

    def rule(view: OperandView) -> str | None:
        found = view.rank(name)
        if found is None or least <= found <= most:
            return None
        wanted = f"rank {least}" if least == most else f"a rank from {least} to {most}"
        return f"operand {name} has rank {found}; {wanted} is needed"

    return rule


def same_rank(first: str, *others: str) -> Rule:
    """The operands that are present have one rank."""

    def rule(view: OperandView) -> str | None:
        expected = view.rank(first)
        for other in others:
            found = view.rank(other)
            if found is not None and found != expected:
                return f"operand {other} has rank {found}, but {first} has rank {expected}"
        return None

    return rule


def axis(name: str, operand: str, *, past_end: int = 0) -> Rule:
    """An axis attribute lies in [-rank, rank) of the operand; `past_end` more positions are allowed."""

    def rule(view: OperandView) -> str | None:
        limit = (view.rank(operand) or 0) + past_end
        value = view.attributes[name]
        # A scalar is treated as one row: axis 0 and -1 name it.
        if -max(limit, 1) <= value < max(limit, 1):
            return None
        return f"{name} = {value} is outside [{-limit}, {limit}) of {operand}"

    return rule


def count(name: str, expected: Callable[[OperandView], int], words: str) -> Rule:
    """A list attribute has as many entries as the operands ask for."""

    def rule(view: OperandView) -> str | None:
        found = len(view.attributes[name])
        wanted = expected(view)
        return None if found == wanted else f"{name} has {found} entries; {wanted} are needed, {words}"

    return rule


def positive(*names: str) -> Rule:
    """Integer attributes, or all entries of list attributes, are greater than zero."""

    def rule(view: OperandView) -> str | None:
        for name in names:
            value = view.attributes[name]
            if any(entry <= 0 for entry in (value if isinstance(value, tuple) else (value,))):
                return f"{name} = {value} must be positive"
        return None

    return rule


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


# ---- shape functions --------------------------------------------------------------------------------------------


def input_shape(shapes: OpShapes, name: str) -> Shape:
    """Shape of an input that must be present.

    Raises:
        ValueError: the input is absent.
    """
    found = shapes.inputs.get(name)
    if found is None:
        raise ValueError(f"the shape of {name} is needed")
    return found


def input_dtype(shapes: OpShapes, name: str) -> str:
    """Storage element type of an input that must be present.

    Raises:
        ValueError: the input is absent.
    """
    found = shapes.dtypes.get(name)
    if found is None:
        raise ValueError(f"the element type of {name} is needed")
    return found


def destination_shape(shapes: OpShapes, name: str) -> Shape:
    """Shape of an output whose extents no input decides: whoever makes the operation gives it under the output's name.

    Raises:
        ValueError: it was not given.
    """
    found = shapes.inputs.get(name)
    if found is None:
        raise ValueError(f"the extents of {name} do not follow from the inputs: give the shape of its destination")
    return found


def normal_axis(value: int, length: int) -> int:
    """An axis counted from the front.

    Raises:
        ValueError: outside [-length, length).
    """
    if not -length <= value < length:
        raise ValueError(f"axis {value} is outside [{-length}, {length})")
    return value % length


def replaced(extents: Shape, position: int, extent: Dim) -> Shape:
    """The shape with one extent replaced."""
    return (*extents[:position], extent, *extents[position + 1 :])
