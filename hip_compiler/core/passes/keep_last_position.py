"""`onnx-keep-last-position`: of an output such as logits, only what belongs to the last position is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hip_compiler.core.frontend.attributes import create_constant, shape_of
from hip_compiler.core.frontend.node import PREFIX, domain_of
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.interface import ENTRY
from hip_compiler.errors import ErrorCode, HipCompilerError

AXIS = 1
_UNARY = ("Cast", "Tanh", "Identity")
_BINARY = ("Add", "Sub", "Mul", "Div")
_RANK = 3
_OF_OPERAND = {
    "": {*_UNARY, "Sigmoid", "Gelu", "SimplifiedLayerNormalization", "LayerNormalization", "RMSNormalization"},
    "com.microsoft": {
        "MatMulNBits", "SkipSimplifiedLayerNormalization", "SkipLayerNormalization", "SimplifiedLayerNormalization",
        "GroupQueryAttention", "MoE", "QMoE", "QuickGelu", "FastGelu", "BiasGelu",
    },
}  # fmt: skip
"""Operators, by domain, whose results have the rank of their first operand; shape inference knows few of them."""


@dataclass
class KeepLastPosition:
    """Cut an output of shape `[batch, position, ...]` to its last position.

    In: the `onnx` dialect, with an output of that name. Out: the same, where the output has extent 1 on axis 1; the cut
    stands before the products and elementwise steps that treat every position alike.
    """

    output: str
    name: ClassVar[str] = "onnx-keep-last-position"

    def apply(self, op: Any, context: PassContext) -> None:
        """Rewrite in place."""
        module = op.operation
        with module.context, ir.Location.unknown():
            function = next(
                view.operation
                for view in module.regions[0].blocks[0].operations
                if view.operation.name == "func.func" and view.operation.attributes["sym_name"].value == ENTRY
            )
            block = function.regions[0].blocks[0]
            terminator = block.operations[len(block.operations) - 1].operation
            position = self._position(function, len(terminator.operands))
            self._check_rank(self._declared_rank(function, position), rank_of(terminator.operands[position]))
            self._cut(terminator, position, context)
            inputs = [argument.type for argument in block.arguments]
            results = [value.type for value in terminator.operands]
            function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))

    def _position(self, function: Any, count: int) -> int:
        attributes = function.attributes
        names = [entry["onnx.name"].value if "onnx.name" in entry else "" for entry in _list(attributes, "res_attrs")]
        if self.output not in names[:count]:
            raise HipCompilerError(
                ErrorCode.PASS_OPTION,
                f"the model has no output '{self.output}' to keep the last position of",
                hint=f"its outputs: {', '.join(filter(None, names))}",
            )
        return names.index(self.output)

    def _check_rank(self, declared: int | None, found: int | None) -> None:
        wrong = next((rank for rank in (declared, found) if rank not in (None, _RANK)), None)
        if wrong is not None:
            raise HipCompilerError(
                ErrorCode.PASS_OPTION,
                f"output '{self.output}' has rank {wrong}; [batch, position, ...] of rank 3 is cut",
            )
        if declared is None and found is None:
            raise HipCompilerError(
                ErrorCode.PASS_OPTION,
                f"output '{self.output}' is not known to be [batch, position, ...] of rank 3",
                why="the model does not declare its shape, and it does not follow from the operators before it",
                hint="declare the output's shape in the model, or compile without last_position",
            )

    def _declared_rank(self, function: Any, position: int) -> int | None:
        """Rank that the author says the output has."""
        entry = _list(function.attributes, "res_attrs")[position]
        return len(entry["onnx.dims"]) if "onnx.dims" in entry else None

    def _cut(self, terminator: Any, position: int, context: PassContext) -> None:
        value = terminator.operands[position]
        user, operand = terminator, position
        chain = []
        while (source := _position_wise(value)) is not None:
            user = value.owner.operation
            chain.append(value)
            operand, value = source, user.operands[source]
        bounds = [
            create_constant(
                np.array([bound], np.int64),
                f"{self.output}.{what}",
                context.constants,
                location=user.location,
                before=user,
            )
            for what, bound in (("last", -1), ("end", np.iinfo(np.int64).max), ("axis", AXIS))
        ]
        cut = ir.Operation.create(
            f"{PREFIX}Slice",
            results=[_one_position(value.type)],
            operands=[value, *bounds],
            loc=user.location,
            ip=ir.InsertionPoint(user),
        )
        user.operands[operand] = cut.result
        for result in chain:
            result.set_type(_one_position(result.type))


def _list(attributes: Any, name: str) -> Any:
    return attributes[name] if name in attributes else ()  # noqa: SIM401 - the bindings' maps have no `get`


def _position_wise(value: Any) -> int | None:
    """Operand that decides a value position by position, and has its rank; None where there is none, or other users."""
    owner = value.owner
    if isinstance(owner, ir.Block) or sum(1 for _ in value.uses) != 1:
        return None
    op = owner.operation
    name, domain = op.name.removeprefix(PREFIX), domain_of(op)
    found: int | None
    if (name == "MatMulNBits" and domain == "com.microsoft") or (not domain and name in _UNARY):
        found = 0
    elif not domain and name == "MatMul":
        found = 0 if _rank(op.operands[1]) == 2 else None
    elif not domain and name in _BINARY:
        found = next((i for i in (0, 1) if _rank(op.operands[1 - i]) in (0, 1)), None)
    else:
        found = None
    return found


def rank_of(value: Any, seen: dict[Any, int | None] | None = None) -> int | None:
    """Rank of a value, followed back through operators that keep or give it; None where they do not tell."""
    seen = {} if seen is None else seen
    if value not in seen:
        known = _rank(value)
        seen[value] = known if known is not None or isinstance(value.owner, ir.Block) else _rank_of_result(value, seen)
    return seen[value]


def _rank_of_result(value: Any, seen: dict[Any, int | None]) -> int | None:
    op = value.owner.operation
    name, domain, operands = op.name.removeprefix(PREFIX), domain_of(op), op.operands
    first = value == op.results[0]
    # Of several results the others are states and statistics; the sum of a skip is like what is added.
    if not (first or (name.startswith("Skip") and value == op.results[len(op.results) - 1])):
        return None
    if name in _OF_OPERAND.get(domain, ()) or (not domain and name == "MatMul" and _rank(operands[1]) == 2):
        return rank_of(operands[0], seen)
    if not domain and name in _BINARY:
        ranks = [rank for operand in operands if (rank := rank_of(operand, seen)) is not None]
        return max(ranks) if len(ranks) == len(operands) else None
    if name == "GatherBlockQuantized" or (not domain and name == "Gather"):
        table, indices = (rank_of(operand, seen) for operand in (operands[0], operands[1]))
        return None if table is None or indices is None else table + indices - 1
    return None


def _rank(value: Any) -> int | None:
    extents = shape_of(value.type)
    return None if extents is None else len(extents)


def _one_position(kind: Any) -> Any:
    known = shape_of(kind)
    if known is None:
        return kind
    extents = list(known)
    extents[AXIS] = 1
    dynamic = ir.ShapedType.get_dynamic_size()
    return ir.RankedTensorType.get([dynamic if extent is None else extent for extent in extents], kind.element_type)
