"""Making and reading operations through their definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hip_compiler.core.mlir import ir
from hip_compiler.registry.contributions import AttributeDef, OpDef, OperandDef

SEGMENTS = "operandSegmentSizes"
DTYPES = "dtypes"
"""Optional on every operation: ONNX element type per operand, where the signless storage type does not tell."""
RESULT_SEGMENTS = "resultSegmentSizes"
Operands = Sequence[Any]
"""One entry per operand of the definition: a value, None where it is absent, a sequence where it is variadic."""


@dataclass(frozen=True)
class OpParts:
    """An operation taken apart.

    Attributes:
        inputs: by name: a value, None where absent, a tuple where variadic.
        outputs: destinations by name, likewise.
        attributes: Python values by name, defaults filled in; ``ints`` and ``floats`` are tuples.
    """

    inputs: dict[str, Any]
    outputs: dict[str, Any]
    attributes: dict[str, Any]


def create_op(
    op: OpDef,
    inputs: Operands,
    outputs: Operands,
    attributes: Mapping[str, Any] | None = None,
    location: Any = None,
) -> Any:
    """Create an operation at the current insertion point, in tensor or memref form after its destinations' type.

    Args:
        inputs: one entry per input of the definition.
        outputs: one destination per output: tensors (the operation gets one result each) or memrefs (no result).
        attributes: Python values; what is not given takes the default of the definition.
        location: an `ir.Location`; None: the current one.

    Returns:
        The operation; `.results` holds the tensors.

    Raises:
        ValueError: a missing or unknown attribute, or entries that do not fit the definition.
    """
    groups = [_group(definition, entry) for definition, entry in zip(op.inputs, inputs, strict=True)]
    destinations = [_group(definition, entry) for definition, entry in zip(op.outputs, outputs, strict=True)]
    given = dict(attributes or {})
    built = {definition.name: _build(op, definition, given.pop(definition.name, None)) for definition in op.attributes}
    if given:
        raise ValueError(f"{op.name} has no attribute {', '.join(sorted(given))}")
    if needs_segments(op):
        built[SEGMENTS] = ir.DenseI32ArrayAttr.get([len(group) for group in groups + destinations])
    flat = [value for group in destinations for value in group]
    results = [value.type for value in flat if not isinstance(value.type, ir.MemRefType)]
    if len(op.outputs) > 1:
        built[RESULT_SEGMENTS] = ir.DenseI32ArrayAttr.get([1 if results else 0] * len(op.outputs))
    return ir.Operation.create(
        op.name,
        results=results,
        operands=[value for group in groups for value in group] + flat,
        attributes=built,
        loc=location,
    )


def read_op(op: OpDef, operation: Any) -> OpParts:
    """Take an operation apart. It must verify."""
    operation = operation.operation
    definitions = op.inputs + op.outputs
    values = list(operation.operands)
    named: dict[str, Any] = {}
    start = 0
    for position, (definition, size) in enumerate(zip(definitions, segment_sizes(op, operation), strict=True)):
        group = tuple(values[start : start + size])
        start += size
        named[f"{position}"] = group if definition.variadic else (group[0] if group else None)
    count = len(op.inputs)
    return OpParts(
        inputs={definition.name: named[f"{position}"] for position, definition in enumerate(op.inputs)},
        outputs={definition.name: named[f"{count + position}"] for position, definition in enumerate(op.outputs)},
        attributes=read_attributes(op, operation),
    )


def read_attributes(op: OpDef, operation: Any) -> dict[str, Any]:
    """Attributes as Python values, defaults filled in."""
    present = operation.attributes
    return {
        definition.name: python_value(definition, present[definition.name])
        if definition.name in present
        else definition.default
        for definition in op.attributes
    }


def needs_segments(op: OpDef) -> bool:
    """Whether operand counts are ambiguous, so that the operation carries `operandSegmentSizes`."""
    return sum(operand.optional or operand.variadic for operand in op.inputs + op.outputs) > 1


def segment_sizes(op: OpDef, operation: Any) -> list[int]:
    """Number of operands of every input, then of every destination."""
    definitions = op.inputs + op.outputs
    if SEGMENTS in operation.attributes:
        return list(operation.attributes[SEGMENTS])
    spare = len(operation.operands) - len(definitions) + 1
    return [spare if operand.optional or operand.variadic else 1 for operand in definitions]


def python_value(definition: AttributeDef, attribute: Any) -> Any:
    """Python value of an attribute.

    Raises:
        ValueError: the attribute is not of the kind that the definition asks for.
    """
    value = _READERS[definition.kind](attribute)
    if value is None:
        raise ValueError(f"attribute '{definition.name}' is {attribute}, expected {EXPECTED[definition.kind]}")
    return value


EXPECTED = {
    "int": "an integer such as 1 : i64",
    "bool": "true or false",
    "float": "a float such as 1.0 : f64",
    "string": "a string",
    "ints": "integers such as array<i64: 1, 2>",
    "floats": "floats such as array<f64: 1.0, 2.0>",
}


def _integer(attribute: Any) -> int | None:
    return attribute.value if isinstance(attribute, ir.IntegerAttr) and attribute.type.width != 1 else None


def _bool(attribute: Any) -> bool | None:
    return ir.BoolAttr(attribute).value if isinstance(attribute, ir.BoolAttr) else None


def _float(attribute: Any) -> float | None:
    return attribute.value if isinstance(attribute, ir.FloatAttr) else None


def _string(attribute: Any) -> str | None:
    return attribute.value if isinstance(attribute, ir.StringAttr) else None


def _ints(attribute: Any) -> tuple[int, ...] | None:
    return tuple(attribute) if isinstance(attribute, ir.DenseI64ArrayAttr) else None


def _floats(attribute: Any) -> tuple[float, ...] | None:
    return tuple(attribute) if isinstance(attribute, (ir.DenseF64ArrayAttr, ir.DenseF32ArrayAttr)) else None


_READERS = {
    "int": _integer,
    "bool": _bool,
    "float": _float,
    "string": _string,
    "ints": _ints,
    "floats": _floats,
}


def _build(op: OpDef, definition: AttributeDef, value: Any) -> Any:
    if value is None:
        value = definition.default
    if value is None:
        raise ValueError(f"{op.name} needs attribute '{definition.name}'")
    if definition.choices and value not in definition.choices:
        raise ValueError(f"{op.name} {definition.name} = {value!r} is none of {', '.join(definition.choices)}")
    match definition.kind:
        case "int":
            return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(value))
        case "bool":
            return ir.BoolAttr.get(bool(value))
        case "float":
            return ir.FloatAttr.get_f64(float(value))
        case "string":
            return ir.StringAttr.get(value)
        case "ints":
            return ir.DenseI64ArrayAttr.get([int(item) for item in value])
        case "floats":
            return ir.DenseF64ArrayAttr.get([float(item) for item in value])


def _group(definition: OperandDef, entry: Any) -> list[Any]:
    if definition.variadic:
        return list(entry)
    if entry is None:
        if not definition.optional:
            raise ValueError(f"operand '{definition.name}' is not optional")
        return []
    return [entry]
