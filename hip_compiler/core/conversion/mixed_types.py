"""Inputs that ONNX wants of one element type: models that mix them are refused before arithmetic is."""

from __future__ import annotations

import onnx

from hip_compiler.core.conversion.onnx_op import NotSupportedError, OnnxOp
from hip_compiler.core.conversion.tensors import Compound
from hip_compiler.core.frontend.schema import schema_of

_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic


def refuse_mixed_types(op: OnnxOp) -> None:
    """Check inputs of one type variable of the operator's schema; an operator without a schema passes.

    Raises:
        NotSupportedError: inputs of different element types where the schema has one for both.
    """
    schema = schema_of(op.op, op.version, op.domain)
    if schema is None or not schema.inputs:
        return
    formals = list(schema.inputs)
    bound: dict[str, tuple[int, str]] = {}
    for position, source in enumerate(op.inputs):
        formal = formals[min(position, len(formals) - 1)]
        mixed = formal.option == _VARIADIC and not formal.is_homogeneous
        if source is None or isinstance(source, Compound) or mixed or "(" in formal.type_str:
            continue
        first, name = bound.setdefault(formal.type_str, (position, source.dtype.name))
        if source.dtype.name != name:
            raise NotSupportedError(
                f"inputs {first} and {position} are of one element type; here they are {name} and {source.dtype}"
            )
