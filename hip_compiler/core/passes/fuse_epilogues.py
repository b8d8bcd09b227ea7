"""`onnx-fuse-epilogues`: bias, activation and residual sum join the product or convolution that they follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.frontend.attributes import constant_array
from hip_compiler.core.frontend.opsets import FIRST, module_opsets
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.walk import operations_named

DOMAIN = "hip"
"""Domain of operators with an epilogue: `Linear` (MatMul) and `Conv`, inputs: a, b, bias, residual."""


@dataclass(frozen=True)
class FuseEpilogues:
    """In: `onnx` operations. Out: the same, with chains of MatMul, Add of a constant row, activation, Add of another
    tensor (and Conv, activation, Add) as one operation of domain `hip` where every link has one user.
    """

    def apply(self, module: Any, context: PassContext) -> None:
        if module_opsets(module).get("", FIRST) < FIRST:
            return  # broadcasting was another
        for op in operations_named(module, "onnx.MatMul", "onnx.Conv"):
            if "domain" not in op.attributes:
                chain = _match(op, context.constants)
                if chain is not None:
                    _fuse(op, chain)


@dataclass
class _Chain:
    """What follows a product: `links` are the operations that disappear, in order."""

    bias: Any = None
    residual: Any = None
    activation: str = "none"
    alpha: float = 0.0
    beta: float = 0.0
    links: list[Any] = field(default_factory=list)


def _match(op: Any, pool: ConstantPool) -> _Chain | None:
    if op.name == "onnx.Conv" or _is_matrix(op.operands[1], pool):
        chain = _Chain()
        steps = _followers(op)
        link = next(steps, None)
        if link is not None and op.name == "onnx.MatMul":
            columns = constant_array(op.operands[1], pool)
            bias = _added_row(link, chain.links[-1] if chain.links else op, columns, pool)
            if bias is not None:
                chain.bias = bias
                chain.links.append(link)
                link = next(steps, None)
        if link is not None and link.name in _ACTIVATIONS:
            found = _ACTIVATIONS[link.name](link, pool)
            if found is not None:
                chain.activation, chain.alpha, chain.beta = found
                chain.links.append(link)
                link = next(steps, None)
        if link is not None and link.name == "onnx.Add" and "domain" not in link.attributes:
            last = chain.links[-1] if chain.links else op
            others = [operand for operand in link.operands if operand != last.results[0]]
            if len(others) == 1 and constant_array(others[0], pool) is None:
                chain.residual = others[0]
                chain.links.append(link)
        return chain if chain.links else None
    return None


def _followers(op: Any) -> Iterator[Any]:
    """The only user of the result, the only user of that one's result, and so on."""
    while len(op.results) == 1:
        users = [use.owner.operation for use in op.results[0].uses]
        if len(users) != 1 or not users[0].name.startswith("onnx.") or users[0].block != op.block:
            return
        op = users[0]
        yield op


def _is_matrix(value: Any, pool: ConstantPool) -> bool:
    array = constant_array(value, pool)
    return array is not None and array.ndim == 2


def _added_row(link: Any, last: Any, columns: np.ndarray | None, pool: ConstantPool) -> Any:
    if link.name != "onnx.Add" or "domain" in link.attributes or columns is None:
        return None
    others = [operand for operand in link.operands if operand != last.results[0]]
    if len(others) != 1:
        return None
    row = constant_array(others[0], pool)
    return others[0] if row is not None and row.shape == columns.shape[1:] else None


Activation = tuple[str, float, float]


def _plain(name: str) -> Callable[[Any, ConstantPool], Activation | None]:
    return lambda op, pool: (name, 0.0, 0.0)


def _attribute(op: Any, name: str, default: Any) -> Any:
    return op.attributes[name].value if name in op.attributes else default


def _gelu(op: Any, pool: ConstantPool) -> Activation | None:
    return ("gelu_tanh" if _attribute(op, "approximate", "none") == "tanh" else "gelu", 0.0, 0.0)


def _swish(op: Any, pool: ConstantPool) -> Activation | None:
    return ("silu", 0.0, 0.0) if _attribute(op, "alpha", 1.0) == 1.0 else None


def _leaky_relu(op: Any, pool: ConstantPool) -> Activation | None:
    return ("leaky_relu", _attribute(op, "alpha", 0.01), 0.0)


def _hard_sigmoid(op: Any, pool: ConstantPool) -> Activation | None:
    return ("hard_sigmoid", _attribute(op, "alpha", 0.2), _attribute(op, "beta", 0.5))


def _clip(op: Any, pool: ConstantPool) -> Activation | None:
    if "min" in op.attributes and "max" in op.attributes:
        return ("clip", _attribute(op, "min", 0.0), _attribute(op, "max", 0.0))
    bounds = [constant_array(operand, pool) for operand in list(op.operands)[1:]]
    if len(bounds) != 2 or any(bound is None or bound.size != 1 for bound in bounds):
        return None
    low, high = (float(bound.reshape(())) for bound in bounds if bound is not None)
    return ("clip", low, high)


_ACTIVATIONS: dict[str, Callable[[Any, ConstantPool], Activation | None]] = {
    "onnx.Relu": _plain("relu"),
    "onnx.Sigmoid": _plain("sigmoid"),
    "onnx.Tanh": _plain("tanh"),
    "onnx.HardSwish": _plain("hard_swish"),
    "onnx.Gelu": _gelu,
    "onnx.Swish": _swish,
    "onnx.LeakyRelu": _leaky_relu,
    "onnx.HardSigmoid": _hard_sigmoid,
    "onnx.Clip": _clip,
}


def _fuse(op: Any, chain: _Chain) -> None:
    last = chain.links[-1]
    with ir.InsertionPoint(last), op.location:
        none = ir.Operation.create("onnx.NoValue", results=[ir.NoneType.get()]).result
        operands = list(op.operands)[:2]
        if op.name == "onnx.Conv":
            operands.append(op.operands[2] if len(op.operands) > 2 else none)
        else:
            operands.append(none if chain.bias is None else chain.bias)
        operands.append(none if chain.residual is None else chain.residual)
        attributes = {name: op.attributes[name] for name in op.attributes}
        attributes |= {
            "domain": ir.StringAttr.get(DOMAIN),
            "activation": ir.StringAttr.get(chain.activation),
            "activation_alpha": ir.FloatAttr.get_f32(chain.alpha),
            "activation_beta": ir.FloatAttr.get_f32(chain.beta),
        }
        name = "onnx.Conv" if op.name == "onnx.Conv" else "onnx.Linear"
        fused = ir.Operation.create(name, results=[last.results[0].type], operands=operands, attributes=attributes)
    last.results[0].replace_all_uses_with(fused.results[0])
    for link in (*reversed(chain.links), op):
        link.erase()
