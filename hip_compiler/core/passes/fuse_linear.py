"""`onnx-fuse-linear`: on devices, the products of a decoder take along their norm, their gate and their residual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.frontend.attributes import constant_array
from hip_compiler.core.frontend.node import domain_of
from hip_compiler.core.mlir import ir
from hip_compiler.core.passes.base import PassContext
from hip_compiler.core.passes.walk import operations_named
from hip_compiler.dtypes import BY_NUMPY

DOMAIN = "hip"
MICROSOFT = "com.microsoft"
SYMBOL = "hipc_linear"
OPERANDS = ("x", "norm", "weight", "scales", "zeros", "up", "up_scales", "up_zeros", "bias", "residual")
_FLOATS = frozenset({"float", "float16", "bfloat16"})


@dataclass(frozen=True)
class FuseLinear:
    """For targets whose runtime has `hipc_linear`; others have nothing to do.

    In: `onnx` operations. Out: `SkipSimplifiedLayerNormalization` is an Add and a norm; a MatMul by a constant matrix,
    or a MatMulNBits, is `FusedLinear` of domain `hip` when a root-mean-square norm comes before it, when it and another
    product of the same operand are gate and up projection, or when a sum follows it. A norm whose every user took it
    along is gone.
    """

    def apply(self, module: Any, context: PassContext) -> None:
        if not context.calls(SYMBOL):
            return
        for op in operations_named(module, "onnx.SkipSimplifiedLayerNormalization"):
            _split(op)
        fuser = _Fuser(context.constants)
        for op in operations_named(module, "onnx.Mul"):
            fuser.gate(op)
        for op in operations_named(module, "onnx.MatMul", "onnx.MatMulNBits"):
            fuser.single(op)
        for op in operations_named(module, "onnx.SimplifiedLayerNormalization"):
            if not any(_is_used(result) for result in op.results):
                op.erase()


def _split(op: Any) -> None:
    """Residual sum and norm as two operations, where nothing else is wanted."""
    operands, results = list(op.operands), list(op.results)
    plain = len(operands) == 3 or str(operands[3].type) == "none"
    if domain_of(op) != MICROSOFT or not plain or any(_is_used(result) for result in results[1:3]):
        return
    x, skip, scale = operands[:3]
    with ir.InsertionPoint(op), op.location:
        total = ir.Operation.create("onnx.Add", results=[results[0].type], operands=[skip, x]).result
        attributes = {"axis": _i64(-1)}
        if "epsilon" in op.attributes:
            attributes["epsilon"] = op.attributes["epsilon"]
        normed = ir.Operation.create(
            "onnx.SimplifiedLayerNormalization",
            results=[results[0].type],
            operands=[total, scale],
            attributes=attributes,
        ).result
    results[0].replace_all_uses_with(normed)
    if len(results) > 3:
        results[3].replace_all_uses_with(total)
    op.erase()


@dataclass(frozen=True)
class _Product:
    """A product that can be fused: its operation, its operands by name, and its attributes."""

    op: Any
    x: Any
    weights: dict[str, Any]
    attributes: dict[str, int]
    bias: Any = None


class _Fuser:
    def __init__(self, pool: ConstantPool) -> None:
        self._pool = pool

    def gate(self, op: Any) -> None:
        """Mul of an activated product and another product of the same operand."""
        if domain_of(op):
            return
        for number in (0, 1):
            activated, up_value = op.operands[number], op.operands[1 - number]
            found = _activation(activated)
            if found is None:
                continue
            word, source, links = found
            gate, up = self._product(source, used_once=False), self._product(up_value)
            if gate is None or up is None or not _are_pair(gate, up):
                continue
            weights = gate.weights | {
                "up" if name == "weight" else f"up_{name}": value for name, value in up.weights.items()
            }
            self._create(op, _Product(op, gate.x, weights, gate.attributes), word, [op, *links, gate.op, up.op])
            return

    def single(self, op: Any) -> None:
        """A product with a norm before it or a sum behind it."""
        product = self._product(op.results[0], used_once=False)
        if product is None:
            return
        norm, follower = _norm_of(product.x), _only_user(op.results[0])
        sums = follower is not None and follower.name == "onnx.Add" and not domain_of(follower)
        if norm is None and not sums:
            return
        self._create(op, product, "none", [op])

    def _product(self, value: Any, used_once: bool = True) -> _Product | None:
        owner = value.owner
        if isinstance(owner, ir.Block) or (used_once and _only_user(value) is None):
            return None
        op = owner.operation
        if op.name == "onnx.MatMul" and not domain_of(op):
            matrix = constant_array(op.operands[1], self._pool)
            if matrix is None or matrix.ndim != 2 or BY_NUMPY[matrix.dtype].name not in _FLOATS:
                return None
            depth, columns = matrix.shape
            attributes = {"n": columns, "k": depth, "bits": 0, "block": 0}
            return _Product(op, op.operands[0], {"weight": op.operands[1]}, attributes)
        if op.name == "onnx.MatMulNBits" and domain_of(op) == MICROSOFT:
            return self._quantised(op)
        return None

    def _quantised(self, op: Any) -> _Product | None:
        given = [None if str(value.type) == "none" else value for value in op.operands]
        given += [None] * (6 - len(given))
        x, weight, scales, zeros, groups, bias = given
        if groups is not None or any(
            value is not None and constant_array(value, self._pool) is None for value in (weight, scales, zeros)
        ):
            return None
        weights = {"weight": weight, "scales": scales}
        if zeros is not None:
            weights["zeros"] = zeros
        words = {"n": ("N", 0), "k": ("K", 0), "bits": ("bits", 4), "block": ("block_size", 128)}
        attributes = {
            name: op.attributes[word].value if word in op.attributes else default
            for name, (word, default) in words.items()
        }
        return _Product(op, x, weights, attributes, bias)

    def _create(self, last: Any, product: _Product, activation: str, erased: list[Any]) -> None:
        """Replace operations, the last of which gives the result; norm and sum join."""
        x, extra = product.x, dict(product.weights)
        epsilon = 0.0
        norm = _norm_of(x)
        if norm is not None:
            x, extra["norm"] = norm.operands[0], norm.operands[1]
            epsilon = norm.attributes["epsilon"].value if "epsilon" in norm.attributes else 1e-5
        if product.bias is not None:
            extra["bias"] = product.bias
        follower = _only_user(last.results[0])
        if follower is not None and follower.name == "onnx.Add" and not domain_of(follower):
            others = [operand for operand in follower.operands if operand != last.results[0]]
            if len(others) == 1 and others[0].type == last.results[0].type:
                extra["residual"] = others[0]
                erased = [follower, *erased]
                last = follower
        with ir.InsertionPoint(last), last.location:
            none = ir.Operation.create("onnx.NoValue", results=[ir.NoneType.get()]).result
            operands = [x, *(extra.get(name, none) for name in OPERANDS[1:])]
            attributes = {name: _i64(value) for name, value in product.attributes.items()}
            attributes |= {
                "domain": ir.StringAttr.get(DOMAIN),
                "epsilon": ir.FloatAttr.get_f32(epsilon),
                "activation": ir.StringAttr.get(activation),
            }
            made = ir.Operation.create(
                "onnx.FusedLinear", results=[last.results[0].type], operands=operands, attributes=attributes
            )
        last.results[0].replace_all_uses_with(made.results[0])
        for op in erased:
            op.erase()


def _are_pair(gate: _Product, up: _Product) -> bool:
    """Whether two products are of one operand and of weights of one kind."""
    same = gate.x == up.x and gate.attributes == up.attributes and gate.weights.keys() == up.weights.keys()
    return same and gate.op != up.op and gate.bias is None and up.bias is None


def _activation(value: Any) -> tuple[str, Any, list[Any]] | None:
    """An activation of a gate that nothing else uses: its word, what it is of, and its operations, the last first."""
    owner = value.owner
    if isinstance(owner, ir.Block) or _only_user(value) is None or domain_of(owner.operation):
        return None
    op = owner.operation
    if op.name == "onnx.Swish" and ("alpha" not in op.attributes or op.attributes["alpha"].value == 1.0):
        return ("silu", op.operands[0], [op]) if _only_user(op.operands[0]) else None
    if op.name == "onnx.Gelu" and _only_user(op.operands[0]):
        tanh = "approximate" in op.attributes and op.attributes["approximate"].value == "tanh"
        return "gelu_tanh" if tanh else "gelu", op.operands[0], [op]
    if op.name == "onnx.Mul":
        for number in (0, 1):
            x, sigmoid = op.operands[number], op.operands[1 - number].owner
            if isinstance(sigmoid, ir.Block) or sigmoid.operation.name != "onnx.Sigmoid":
                continue
            users = {use.owner.operation for use in x.uses}
            if sigmoid.operation.operands[0] == x and _only_user(sigmoid.operation.results[0]) and len(users) == 2:
                return "silu", x, [op, sigmoid.operation]
    return None


def _norm_of(value: Any) -> Any:
    """The norm over the last axis that a value is the result of, when nothing but products of few users take it."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "onnx.SimplifiedLayerNormalization":
        return None
    op = owner.operation
    axis = op.attributes["axis"].value if "axis" in op.attributes else -1
    if domain_of(op) or axis != -1 or any(_is_used(result) for result in list(op.results)[1:]):
        return None
    return op


def _is_used(value: Any) -> bool:
    return next(iter(value.uses), None) is not None


def _only_user(value: Any) -> Any:
    """The one operation that uses a value once; None where there are more, or it is in another block."""
    users = [use.owner.operation for use in value.uses]
    return users[0] if len(users) == 1 and users[0].block == value.owner.operation.block else None


def _i64(value: int) -> Any:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
