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
            if _rank(terminator.operands[position]) not in (3, None) or self._declared_rank(function, position) != 3:
                raise HipCompilerError(
                    ErrorCode.PASS_OPTION, f"output '{self.output}' is not known to be [batch, position, ...] of rank 3"
                )
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

    def _declared_rank(self, function: Any, position: int) -> int | None:
        """Rank of the output: operators of other domains have no shape inference, but the author says the shape."""
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
