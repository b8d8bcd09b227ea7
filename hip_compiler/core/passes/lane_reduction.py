"""Reductions that the lanes of a group share: what joins two totals, where a lane starts, and totals of other lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hip_compiler.core.mlir import func, ir

LANES = 32
"""Lanes of a group: a wave of most GPUs, half of one of the others."""
BESIDE = "hipc_lane_beside"
"""`i32 (i32 value, i32 mask)`: the value of the lane of the group whose number differs in the bits of the mask."""

_NEUTRAL: dict[str, Callable[[int], float]] = {
    "arith.addf": lambda _: 0.0,
    "arith.mulf": lambda _: 1.0,
    "arith.maximumf": lambda _: float("-inf"),
    "arith.minimumf": lambda _: float("inf"),
    "arith.addi": lambda _: 0,
    "arith.muli": lambda _: 1,
    "arith.maxsi": lambda width: -(1 << (width - 1)),
    "arith.minsi": lambda width: (1 << (width - 1)) - 1,
    "arith.maxui": lambda _: 0,
    "arith.minui": lambda _: -1,
    "arith.ori": lambda _: 0,
    "arith.andi": lambda _: -1,
}
"""Operations whose order is free, and the value that changes nothing, by its width."""


def joins(body: Any, outputs: int) -> list[Any] | None:
    """Operations that join an element to the total of each output; None where lanes cannot share the reduction.

    Args:
        body: block of the linalg operation; its last arguments are the totals.
        outputs: how many totals there are.
    """
    operations = list(body.operations)
    totals, yielded = list(body.arguments)[-outputs:], list(operations[-1].operands)
    found = []
    for total, value in zip(totals, yielded, strict=True):
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name not in _NEUTRAL or _width(value.type) not in (8, 16, 32, 64):
            return None
        if len(list(total.uses)) != 1 or [operand == total for operand in owner.operands].count(True) != 1:
            return None
        found.append(owner)
    return found


def neutral(join: Any) -> Any:
    """The constant that joins to nothing else, at the current insertion point."""
    kind = join.results[0].type
    is_float = not isinstance(kind, ir.IntegerType)
    number = _NEUTRAL[join.name](_width(kind))
    value = ir.FloatAttr.get(kind, number) if is_float else ir.IntegerAttr.get(kind, int(number))
    return ir.Operation.create("arith.constant", results=[kind], attributes={"value": value}).result


def joined(join: Any, left: Any, right: Any) -> Any:
    """Two totals as one."""
    copied = join.operation.clone()
    copied.operands[0], copied.operands[1] = left, right
    return copied.results[0]


def join_lanes(join: Any, total: Any) -> Any:
    """The totals of all lanes of the group as one, which every lane gets."""
    mask = 1
    while mask < LANES:
        total = joined(join, total, _beside(total, mask))
        mask *= 2
    return total


def declare() -> None:
    """Declare `BESIDE`, which `device_code` finds among the functions of a device."""
    i32 = ir.IntegerType.get_signless(32)
    func.FuncOp(BESIDE, ir.FunctionType.get([i32, i32], [i32]), visibility="private")


def _width(kind: Any) -> int:
    if isinstance(kind, ir.IntegerType):
        return int(kind.width)
    return {ir.F16Type: 16, ir.BF16Type: 16, ir.F32Type: 32, ir.F64Type: 64}.get(type(kind), 0)


def _beside(value: Any, mask: int) -> Any:
    kind, width = value.type, _width(value.type)
    bits = ir.IntegerType.get_signless(width)
    if kind != bits:
        value = _op("arith.bitcast", bits, [value])
    if width == 64:
        shift = _constant(bits, 32)
        halves = [_word(value), _word(_op("arith.shrui", bits, [value, shift]))]
        low, high = (_op("arith.extui", bits, [_call(half, mask)]) for half in halves)
        value = _op("arith.ori", bits, [low, _op("arith.shli", bits, [high, shift])])
    elif width == 32:
        value = _call(value, mask)
    else:
        i32 = ir.IntegerType.get_signless(32)
        value = _op("arith.trunci", bits, [_call(_op("arith.extui", i32, [value]), mask)])
    return value if kind == bits else _op("arith.bitcast", kind, [value])


def _word(value: Any) -> Any:
    return _op("arith.trunci", ir.IntegerType.get_signless(32), [value])


def _call(value: Any, mask: int) -> Any:
    i32 = ir.IntegerType.get_signless(32)
    attributes = {"callee": ir.FlatSymbolRefAttr.get(BESIDE)}
    return ir.Operation.create(
        "func.call", results=[i32], operands=[value, _constant(i32, mask)], attributes=attributes
    ).result


def _constant(kind: Any, value: int) -> Any:
    return ir.Operation.create(
        "arith.constant", results=[kind], attributes={"value": ir.IntegerAttr.get(kind, value)}
    ).result


def _op(name: str, kind: Any, operands: Sequence[Any]) -> Any:
    return ir.Operation.create(name, results=[kind], operands=operands).result
