"""Transpositions move behind elementwise operations, where they meet their inverses; two in a row are one, or none."""

from __future__ import annotations

from typing import Any

import numpy as np

from hip_compiler.core.frontend.attributes import dtype_of, shape_of, tensor_type
from hip_compiler.core.frontend.node import PREFIX, domain_of
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.simplify.rewriter import Rewriter, Rule, defining, integers, rank, single_user

_UNARY = (
    *("Abs", "Cast", "Ceil", "Clip", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu"),
    *("Log", "Neg", "Reciprocal", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh"),
)
_BINARY = ("Add", "Sub", "Mul", "Div", "Pow")

Order = tuple[int, ...]


def _order(op: Any) -> Order | None:
    order = integers(op, "perm")
    if order is not None:
        return order
    known = rank(op.operands[0])
    return None if known is None else tuple(reversed(range(known)))


def _merge(op: Any, rewriter: Rewriter) -> bool:
    inner = defining(op.operands[0], "Transpose")
    if domain_of(op) or inner is None:
        return False
    first, second = _order(inner), _order(op)
    if first is None or second is None or len(first) != len(second):
        return False
    order = tuple(first[axis] for axis in second)
    source = inner.operands[0]
    if order == tuple(range(len(order))):
        rewriter.replace(op, [source])
        return True
    rewriter.replace(op, [_transposed(source, order, op, rewriter)])
    return True


def _sink_unary(op: Any, rewriter: Rewriter) -> bool:
    """`f(transpose(x))` is `transpose(f(x))`; further operands (the bounds of `Clip`) are scalars."""
    inner = defining(op.operands[0], "Transpose")
    if domain_of(op) or inner is None or single_user(inner.results[0]) is None:
        return False
    if any(rank(value) not in (0, None) or _is_unknown(value) for value in list(op.operands)[1:]):
        return False
    order = _order(inner)
    if order is None:
        return False
    return _sink(op, [inner.operands[0], *list(op.operands)[1:]], order, rewriter)


def _sink_binary(op: Any, rewriter: Rewriter) -> bool:
    """`f(transpose(x), c)` and `f(transpose(x), transpose(y))` with one order."""
    if domain_of(op) or len(op.operands) != 2:
        return False
    sides = [defining(value, "Transpose") for value in op.operands]
    inner = next((side for side in sides if side is not None and single_user(side.results[0]) is not None), None)
    order = None if inner is None else _order(inner)
    if order is None:
        return False
    operands = []
    for side, value in zip(sides, op.operands, strict=True):
        if side is not None:
            if _order(side) != order:
                return False
            operands.append(side.operands[0])
            continue
        constant = rewriter.constant(value)
        if constant is None or constant.ndim > len(order) or constant.dtype == object:
            return False
        operands.append(_turned_back(value, constant, order, op, rewriter))
    return _sink(op, operands, order, rewriter)


def _sink(op: Any, operands: list[Any], order: Order, rewriter: Rewriter) -> bool:
    dtype, shape = dtype_of(op.results[0].type), shape_of(op.results[0].type)
    if dtype is None:
        return False
    inverse = _inverse(order)
    # Where the rank is not known, the operation's own result type says as much as there is to say.
    turned = None if shape is None or len(shape) != len(order) else [shape[axis] for axis in inverse]
    attributes = {name: op.attributes[name] for name in op.attributes}
    moved = rewriter.create(
        op.name.removeprefix(PREFIX), operands, [tensor_type(dtype, turned)], like=op, attributes=attributes
    )
    rewriter.replace(op, [_transposed(moved.results[0], order, op, rewriter)])
    return True


def _turned_back(value: Any, constant: np.ndarray, order: Order, like: Any, rewriter: Rewriter) -> Any:
    """A constant that broadcasts over the source of a transposition as it did over the result."""
    if constant.size == 1:
        return value
    full = constant.reshape((1,) * (len(order) - constant.ndim) + constant.shape)
    return rewriter.create_constant(np.ascontiguousarray(full.transpose(_inverse(order))), "transposed", like=like)


def _transposed(source: Any, order: Order, op: Any, rewriter: Rewriter) -> Any:
    attributes = {"perm": ir.DenseI64ArrayAttr.get(list(order))}
    return rewriter.create("Transpose", [source], [op.results[0].type], like=op, attributes=attributes).results[0]


def _inverse(order: Order) -> Order:
    return tuple(int(axis) for axis in np.argsort(order))


def _is_unknown(value: Any) -> bool:
    return rank(value) is None and not isinstance(value.type, ir.NoneType)


RULES = (
    Rule("merge-transposes", ("Transpose",), _merge),
    Rule("sink-transpose", _UNARY, _sink_unary),
    Rule("sink-transpose", _BINARY, _sink_binary),
)
