"""Checks of `onnx` operations against the operator schemas that ONNX publishes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import onnx

from hip_compiler.core.frontend.node import PREFIX, RESERVED, domain_of, unsupported
from hip_compiler.core.frontend.opsets import DEFAULT_DOMAIN, module_opsets, opset_of
from hip_compiler.core.mlir import ir
from hip_compiler.errors import ErrorCode, HipCompilerError, Unsupported

PSEUDO_OPS = frozenset({"onnx.NoValue", "onnx.Yield", "onnx.Constant"})
"""Operations that the dialect adds to ONNX, or spells in its own way."""

# Kinds of attributes by the MLIR class that carries them.
_KIND_OF = (
    (ir.IntegerAttr, ("INT",)),
    (ir.FloatAttr, ("FLOAT",)),
    (ir.StringAttr, ("STRING",)),
    (ir.DenseI64ArrayAttr, ("INTS", "FLOATS", "STRINGS")),
    (ir.DenseF32ArrayAttr, ("FLOATS",)),
    (ir.ArrayAttr, ("STRINGS",)),
    (ir.DenseElementsAttr, ("TENSOR",)),
    (ir.DictAttr, ("TENSOR",)),
    (ir.TypeAttr, ("TYPE_PROTO",)),
)


@lru_cache(maxsize=4096)
def schema_of(op_type: str, opset: int, domain: str) -> Any:
    """`onnx.defs.OpSchema` of an operator as of a version of its domain; None when ONNX defines none."""
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None


def verify_onnx(op: Any, opset: int) -> str | None:
    """Check an operation against ONNX's schema for it.

    Args:
        op: operation of the `onnx` dialect; operators of domains that ONNX does not define pass.
        opset: version of the operator's domain.

    Returns:
        The sentence that says what is wrong, or None.
    """
    if op.name in PSEUDO_OPS or not op.name.startswith(PREFIX):
        return None
    op_type, domain = op.name.removeprefix(PREFIX), domain_of(op)
    schema = schema_of(op_type, opset, domain)
    if schema is None:
        if domain:
            return None
        newest = schema_of(op_type, onnx.defs.onnx_opset_version(), "")
        if newest is not None:
            return f"{op_type} exists from opset {_first_version(op_type)} on, not in opset {opset}"
        return f"ONNX defines no operator {op_type}"
    if schema.deprecated:
        return f"{op_type} was removed from ONNX in opset {schema.since_version}"
    return _arity(op, schema) or _attributes(op, schema)


def refuse_malformed(module: Any) -> None:
    """Check arity and attributes of every operation whose schema ONNX defines; passes rely on them.

    Operators that ONNX does not define, in this version or at all, are left for conversion to report.

    Raises:
        HipCompilerError: `HIPC0102` with every node that breaks its schema.
    """
    opsets = module_opsets(module)
    details: list[str] = []

    def visit(op: Any) -> Any:
        if op.name.startswith(PREFIX) and op.name not in PSEUDO_OPS:
            schema = schema_of(op.name.removeprefix(PREFIX), opset_of(op, opsets), domain_of(op))
            reason = None if schema is None else _arity(op, schema) or _attributes(op, schema)
            if reason is not None:
                details.append(str(unsupported(op, reason, opsets)))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    if details:
        raise HipCompilerError(
            ErrorCode.MODEL_INVALID,
            f"{len(details)} node{'s' if len(details) > 1 else ''} of the model break{'' if len(details) > 1 else 's'} "
            "the definition of the operator",
            details=details,
            hint="onnx.checker.check_model says more; export the model again",
        )


def verify_module(module: Any) -> list[Unsupported]:
    """Findings about every operation of a module that breaks its ONNX schema."""
    opsets = module_opsets(module)
    findings: list[Unsupported] = []

    def visit(op: Any) -> Any:
        reason = verify_onnx(op, opset_of(op, opsets)) if op.name.startswith(PREFIX) else None
        if reason is not None:
            findings.append(unsupported(op, reason, opsets))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return findings


def _arity(op: Any, schema: Any) -> str | None:
    operands, results = list(op.operands), len(op.results)
    if not schema.min_input <= len(operands) <= schema.max_input:
        return f"it has {len(operands)} inputs; ONNX asks for {_range(schema.min_input, schema.max_input)}"
    if not schema.min_output <= results <= schema.max_output:
        return f"it has {results} outputs; ONNX asks for {_range(schema.min_output, schema.max_output)}"
    for formal, value in zip(schema.inputs, operands, strict=False):
        required = formal.option == onnx.defs.OpSchema.FormalParameterOption.Single
        if required and isinstance(value.type, ir.NoneType):
            return f"input '{formal.name}' is required and absent"
    return None


def _attributes(op: Any, schema: Any) -> str | None:
    given: dict[str, tuple[str, ...]] = {}
    for name in op.attributes:
        if name == "region_names":
            given |= {text.value: ("GRAPH",) for text in op.attributes[name]}
        elif name not in RESERVED:
            attribute = op.attributes[name]
            given[name] = next((kinds for class_, kinds in _KIND_OF if isinstance(attribute, class_)), ())
    for name, kinds in given.items():
        if name not in schema.attributes:
            return f"it has an attribute '{name}' that {schema.name} does not have as of opset {schema.since_version}"
        wanted = schema.attributes[name].type.name
        empty_list = wanted in ("INTS", "FLOATS", "STRINGS") and kinds == ("INTS", "FLOATS", "STRINGS")
        if wanted not in kinds or (empty_list and wanted != "INTS" and len(op.attributes[name]) > 0):
            return f"attribute '{name}' is of the wrong kind; ONNX asks for {wanted}"
    for name, definition in schema.attributes.items():
        if definition.required and name not in given:
            return f"attribute '{name}' is required and missing"
    return None


def _range(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low} or more" if high >= 2**31 - 1 else f"{low} to {high}"


def _first_version(op_type: str) -> int:
    return min(
        int(schema.since_version)
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == op_type and schema.domain in ("", DEFAULT_DOMAIN)
    )
