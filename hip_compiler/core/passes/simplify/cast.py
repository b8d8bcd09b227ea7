"""`CastLike` is `Cast` once the target's element type is known."""

from __future__ import annotations

from typing import Any

from hip_compiler.core.frontend.attributes import dtype_of
from hip_compiler.core.frontend.node import domain_of
from hip_compiler.core.passes.simplify.rewriter import Rewriter, Rule, int_attribute


def _cast_like(op: Any, rewriter: Rewriter) -> bool:
    dtype = dtype_of(op.operands[1].type)
    if domain_of(op) or dtype is None:
        return False
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes["to"] = int_attribute(dtype.onnx)
    cast = rewriter.create("Cast", [op.operands[0]], [op.results[0].type], like=op, attributes=attributes)
    rewriter.replace(op, [cast.results[0]])
    return True


RULES = (Rule("cast-like", ("CastLike",), _cast_like),)
