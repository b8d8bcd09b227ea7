"""The worklist that applies rewrites, and what a rewrite may do to the IR."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hip_compiler.core.constants import ConstantPool
from hip_compiler.core.frontend.attributes import constant_array, create_constant, dtype_of, shape_of
from hip_compiler.core.frontend.node import PREFIX, is_onnx
from hip_compiler.core.frontend.opsets import FIRST, opset_of
from hip_compiler.core.mlir import ir

ANY = "*"


@dataclass(frozen=True)
class Rule:
    """One rewrite.

    Attributes:
        name: words for reports.
        roots: operators (without `onnx.`) that it starts from; `ANY` for all.
        apply: looks at an operation and rewrites it through the rewriter; returns whether it did. When it
            did, it has replaced the operation or changed it in place.
    """

    name: str
    roots: tuple[str, ...]
    apply: Callable[[Any, Rewriter], bool]


class Rewriter:
    """Applies rules until none applies, in program order. An MLIR context must be active.

    Erased operations leave the worklist at once, so no rule ever sees one.

    Args:
        root: operation whose regions are rewritten.
        opsets: versions by domain of the module.
        constants: contents of large constants.
        rules: the rewrites.
    """

    def __init__(self, root: Any, opsets: dict[str, int], constants: ConstantPool, rules: Sequence[Rule]) -> None:
        self.opsets = opsets
        self.constants = constants
        self.applied: dict[str, int] = {}
        self._rules = rules
        # By first result: values compare and hash by identity, operations do not.
        self._worklist: dict[Any, Any] = {}
        self._by_root: dict[str, list[Rule]] = {}
        self._root = root
        # How many operations refer to contents of the constant pool, by key.
        self._keys: Counter[str] = Counter()

    def run(self) -> None:
        """Rewrite until nothing changes."""
        for op in _operations(self._root):
            self._push(op)
            self._count_key(op, 1)
        while self._worklist:
            value = next(iter(self._worklist))
            op = self._worklist.pop(value)
            if self._erase_if_dead(op):
                continue
            if self.opset(op) < FIRST and "domain" not in op.attributes:
                continue  # rules know the operators of opset 7 and later
            for rule in self._rules_for(op.name):
                if rule.apply(op, self):
                    self.applied[rule.name] = self.applied.get(rule.name, 0) + 1
                    break

    def constant(self, value: Any) -> np.ndarray | None:
        """Contents of a constant value, else None."""
        return constant_array(value, self.constants)

    def opset(self, op: Any) -> int:
        """Version of its domain that an operation is meant in."""
        return opset_of(op, self.opsets)

    def create(
        self,
        name: str,
        operands: Sequence[Any],
        result_types: Sequence[Any],
        *,
        like: Any,
        attributes: dict[str, Any] | None = None,
        opset: int | None = None,
    ) -> Any:
        """Insert an operation before `like`, at its location.

        Args:
            name: operator, without `onnx.`.
            opset: version that the operator is meant in, where it differs from the module's.
        """
        attributes = dict(attributes or {})
        if opset is not None and opset != self.opsets.get(""):
            attributes["hip.opset"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), opset)
        op = ir.Operation.create(
            PREFIX + name,
            results=list(result_types),
            operands=list(operands),
            attributes=attributes,
            loc=like.location,
            ip=ir.InsertionPoint(like),
        )
        self._push(op)
        return op

    def create_constant(self, array: np.ndarray, key: str, *, like: Any) -> Any:
        """Insert a constant before `like`; returns its value."""
        value = create_constant(array, key, self.constants, location=like.location, before=like)
        self._count_key(value.owner.operation, 1)
        return value

    def replace(self, op: Any, values: Sequence[Any]) -> None:
        """Let users of an operation's results use other values, and erase it.

        A new value takes over the replaced value's type where that says more.
        """
        for old, new in zip(op.results, values, strict=True):
            self._redirect(old, new)
        self.erase(op)

    def replace_first(self, op: Any, value: Any) -> None:
        """Like `replace`, for an operation of whose results only the first has users."""
        self._redirect(op.results[0], value)
        self.erase(op)

    def changed(self, op: Any) -> None:
        """An operation was changed in place: look at it and its users again."""
        self._push(op)
        for result in op.results:
            for user in _users(result):
                self._push(user)

    def look_again(self, op: Any) -> None:
        """An operation may have lost a user."""
        self._push(op)

    def erase(self, op: Any) -> None:
        """Erase an operation without users, with what is inside of it."""
        definers = [value.owner.operation for value in op.operands if not isinstance(value.owner, ir.Block)]
        if len(op.regions):
            for inner in _operations(op):
                for value in inner.operands:
                    if not isinstance(value.owner, ir.Block):
                        definers.append(value.owner.operation)
                self._count_key(inner, -1)
                if len(inner.results):
                    self._worklist.pop(inner.results[0], None)
            inside = {inner.results[0] for inner in _operations(op) if len(inner.results)}
            definers = [definer for definer in definers if definer.results[0] not in inside]
        self._worklist.pop(op.results[0], None)
        self._count_key(op, -1)
        op.erase()
        for definer in definers:
            self._push(definer)

    def _redirect(self, old: Any, new: Any) -> None:
        _refine(new, old.type)
        for user in _users(old):
            self._push(user)
        old.replace_all_uses_with(new)

    def _push(self, op: Any) -> None:
        if op.name.startswith(PREFIX) and len(op.results):
            self._worklist[op.results[0]] = op

    def _count_key(self, op: Any, change: int) -> None:
        """Contents that nothing refers to any more leave the pool at once: rewrites can replace weights repeatedly."""
        if len(op.operands) or "buffer" not in op.attributes:
            return
        key = op.attributes["buffer"].value
        self._keys[key] += change
        if self._keys[key] <= 0 and key not in self.constants.offsets:
            self.constants.arrays.pop(key, None)

    def _erase_if_dead(self, op: Any) -> bool:
        if any(next(iter(result.uses), None) is not None for result in op.results):
            return False
        self.erase(op)
        return True

    def _rules_for(self, name: str) -> list[Rule]:
        if name not in self._by_root:
            word = name.removeprefix(PREFIX)
            self._by_root[name] = [rule for rule in self._rules if word in rule.roots or ANY in rule.roots]
        return self._by_root[name]


def operand(op: Any, number: int) -> Any | None:
    """Operand of an operation; None where it is absent."""
    if number >= len(op.operands):
        return None
    value = op.operands[number]
    return None if isinstance(value.type, ir.NoneType) else value


def defining(value: Any | None, *names: str) -> Any | None:
    """The operation of ONNX's default domain that defines a value, if it has one of the names; else None."""
    if value is None or isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    return op if is_onnx(op, *names) else None


def single_user(value: Any) -> Any | None:
    """The only operation that uses a value, if it uses it once; else None.

    None too where the user is in another block: work that leaves the block it is in may be done in every iteration of a
    loop.
    """
    uses = iter(value.uses)
    first = next(uses, None)
    if first is None or next(uses, None) is not None:
        return None
    user = first.owner.operation
    home = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    return user if user.block == home else None


def integer(op: Any, name: str, default: int) -> int:
    """Integer attribute of an operation."""
    return int(op.attributes[name].value) if name in op.attributes else default


def integers(op: Any, name: str) -> tuple[int, ...] | None:
    """Attribute of integers, None when it is not given."""
    if name not in op.attributes:
        return None
    return tuple(int(number) for number in op.attributes[name])


def rank(value: Any) -> int | None:
    """Number of dimensions of a value, None when unknown."""
    shape = shape_of(value.type)
    return None if shape is None else len(shape)


def static_shape(value: Any) -> tuple[int, ...] | None:
    """Shape of a value when every extent is known, else None."""
    shape = shape_of(value.type)
    if shape is None or any(extent is None for extent in shape):
        return None
    return tuple(extent for extent in shape if extent is not None)


def scalar(value: Any, rewriter: Rewriter, beside: Any) -> float | None:
    """The number of a constant that leaves the shape of `beside` alone when both are broadcast; else None."""
    array = rewriter.constant(value)
    if array is None or array.size != 1 or array.dtype == object or np.iscomplexobj(array):
        return None
    other = rank(beside)
    if array.ndim > 0 and (other is None or array.ndim > other):
        return None
    return float(array.reshape(()))


def int_attribute(value: int) -> Any:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)


def float_attribute(value: float) -> Any:
    return ir.FloatAttr.get(ir.F32Type.get(), value)


def same_type(value: Any, other: Any) -> bool:
    """Whether two values are known to have one element type."""
    dtype = dtype_of(value.type)
    return dtype is not None and dtype == dtype_of(other.type)


def _operations(root: Any) -> list[Any]:
    """Operations inside of an operation, in program order."""
    found: list[Any] = []
    for region in root.regions:
        for block in region.blocks:
            for view in block.operations:
                op = view.operation
                found.append(op)
                if len(op.regions):
                    found += _operations(op)
    return found


def _users(value: Any) -> list[Any]:
    return [use.owner.operation for use in value.uses]


def _refine(value: Any, type_: Any) -> None:
    """Give a value the more precise of its own and another type; types of block arguments stay."""
    if isinstance(value.owner, ir.Block) or value.type == type_:
        return
    own, other = shape_of(value.type), shape_of(type_)
    dtype = dtype_of(value.type)
    if dtype is None:
        if str(value.type) == "!onnx.unknown":
            value.set_type(type_)
        return
    if dtype != dtype_of(type_) or other is None:
        return
    if own is None:
        value.set_type(type_)
    elif len(own) == len(other) and all(a == b or a is None or b is None for a, b in zip(own, other, strict=True)):
        dynamic = ir.ShapedType.get_dynamic_size()
        merged = [b if a is None else a for a, b in zip(own, other, strict=True)]
        extents = [dynamic if extent is None else extent for extent in merged]
        value.set_type(ir.RankedTensorType.get(extents, value.type.element_type))
