"""The verifier that follows from an operation's definition."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from hip_compiler.core.dialects.access import (
    DTYPES,
    RESULT_SEGMENTS,
    SEGMENTS,
    needs_segments,
    python_value,
    segment_sizes,
)
from hip_compiler.core.mlir import ir
from hip_compiler.registry.contributions import OpDef, PlainOpDef


def check_op(op: OpDef | PlainOpDef, operation: Any) -> str | None:
    """The sentence that says what is wrong with an operation, or None."""
    if isinstance(op, OpDef):
        problem = _check_operands(op, operation) or _check_forms(op, operation) or _check_attributes(op, operation)
        if problem is not None:
            return problem
    return op.verify(operation) if op.verify is not None else None


def _check_operands(op: OpDef, operation: Any) -> str | None:
    definitions = op.inputs + op.outputs
    if needs_segments(op):
        if SEGMENTS not in operation.attributes:
            return f"needs {SEGMENTS} with {len(definitions)} entries"
        if len(segment_sizes(op, operation)) != len(definitions):
            return f"{SEGMENTS} has {len(segment_sizes(op, operation))} entries, expected {len(definitions)}"
    sizes = segment_sizes(op, operation)
    for definition, size in zip(definitions, sizes, strict=True):
        fits = size >= 0 if definition.variadic else size in ((0, 1) if definition.optional else (1,))
        if not fits:
            return f"operand '{definition.name}' is given {size} times"
    return None


def _check_forms(op: OpDef, operation: Any) -> str | None:
    """All tensors with one result per destination, or all memrefs with no result."""
    types = [operand.type for operand in operation.operands]
    sizes = segment_sizes(op, operation)
    destinations = types[sum(sizes[: len(op.inputs)]) :]
    results = [result.type for result in operation.results]
    if all(isinstance(type_, ir.MemRefType) for type_ in types):
        return f"has {len(results)} results, expected none on memrefs" if results else None
    if not all(isinstance(type_, ir.RankedTensorType) for type_ in types):
        return f"operands are {', '.join(map(str, types))}; expected ranked tensors only, or memrefs only"
    if results != destinations:
        given, expected = ", ".join(map(str, results)), ", ".join(map(str, destinations))
        return f"result types ({given}) differ from the destinations' ({expected})"
    return None


def _check_attributes(op: OpDef, operation: Any) -> str | None:
    known = {definition.name: definition for definition in op.attributes}
    for attribute in operation.attributes:
        # Dotted names are discardable attributes of some dialect; upstream passes mark ops with "__...".
        own = attribute in known or attribute in (SEGMENTS, RESULT_SEGMENTS, DTYPES)
        if not own and "." not in attribute and not attribute.startswith("__"):
            nearest = get_close_matches(attribute, known, n=1)
            return f"unknown attribute '{attribute}'" + (f"; did you mean '{nearest[0]}'?" if nearest else "")
    for definition in op.attributes:
        if definition.name not in operation.attributes:
            if definition.default is None:
                return f"needs attribute '{definition.name}'"
            continue
        try:
            value = python_value(definition, operation.attributes[definition.name])
        except ValueError as error:
            return str(error)
        if definition.choices and value not in definition.choices:
            return f"attribute '{definition.name}' is \"{value}\", expected one of {', '.join(definition.choices)}"
    return None
