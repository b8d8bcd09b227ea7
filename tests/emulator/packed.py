"""Packed instructions (two values a register, mixed precision, dot products) and gfx11's dual-issue pairs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.emulator import numeric
from tests.emulator.numeric import Array
from tests.emulator.special import SPECIAL
from tests.emulator.state import VCC, EmulationError, Group


def _half(value: Array, upper: bool) -> Array:
    return (value >> np.uint32(16)) if upper else (value & np.uint32(0xFFFF))


class _Packed:
    def __init__(self, word: Any, name: str) -> None:
        self.word = word
        self.name = name
        self.operands = [word.src0.offset, word.src1.offset, word.src2.offset]
        self.literal = getattr(word, "literal", None)
        self.low = word.opsel
        self.high = word.opsel_hi | (word.opsel_hi2 << 2)
        self.negate_low, self.negate_high = word.neg, word.neg_hi
        self.target = word.vdst.offset

    def raw(self, group: Group, number: int, bits: int = 32) -> Array:
        # An inline float constant has one half; both halves of the operation read it unless OPSEL says otherwise.
        return group.vector(self.operands[number], bits, self.literal)

    def half(self, group: Group, number: int, part: int, kind: str, bits: int = 16) -> Array:
        """One half of a source, with its sign modifier, for the low (0) or high (1) half of the result."""
        select, negate = ((self.low, self.negate_low), (self.high, self.negate_high))[part]
        operand = self.operands[number]
        inline = 240 <= operand <= 248
        upper = bool(select >> number & 1)
        value = self.raw(group, number, 16 if inline else 32)
        value = value if inline and not upper else _half(value, upper)
        number_value = numeric.from_bits(value, kind, bits)
        return -number_value if negate >> number & 1 and kind in ("f", "bf") else number_value


_FLOAT: dict[str, Callable[..., Array]] = {
    "FMA": numeric.fused_multiply_add, "ADD": np.add, "MUL": np.multiply, "MAX": np.fmax, "MIN": np.fmin,
    "MAX_NUM": np.fmax, "MIN_NUM": np.fmin,
}  # fmt: skip
_INTEGER: dict[str, Callable[..., Array]] = {
    "ADD": np.add, "SUB": np.subtract, "MUL_LO": np.multiply, "MAX": np.maximum, "MIN": np.minimum,
    "LSHLREV": lambda a, b: np.left_shift(b, a & 15), "LSHRREV": lambda a, b: np.right_shift(b, a & 15),
    "ASHRREV": lambda a, b: np.right_shift(b, a & 15), "MAD": lambda a, b, c: a * b + c,
}  # fmt: skip


def make(word: Any, name: str, family: str) -> Callable[[Group], Any] | None:
    """A VOP3P instruction other than a matrix one."""
    packed = _Packed(word, name)
    if "MIX" in name:
        return lambda group: _mixed(packed, group)
    match = re.fullmatch(r"V_PK_(FMA|ADD|MUL|MAX|MIN|MAX_NUM|MIN_NUM)_(F16|BF16)", name)
    if match:
        return _halves(packed, _FLOAT[match[1]], 3 if match[1] == "FMA" else 2, "f" if match[2] == "F16" else "bf")
    match = re.fullmatch(r"V_PK_(ADD|SUB|MUL_LO|MAX|MIN|LSHLREV|LSHRREV|ASHRREV|MAD)_(I|U|B)16", name)
    if match:
        return _halves(packed, _INTEGER[match[1]], 3 if match[1] == "MAD" else 2, "i" if match[2] == "I" else "u")
    match = re.fullmatch(r"V_PK_(FMA|ADD|MUL)_F32", name)
    if match:
        return _pair(packed, _FLOAT[match[1]], 3 if match[1] == "FMA" else 2)
    if name == "V_PK_MOV_B32":
        return lambda group: _move_pair(packed, group)
    match = re.fullmatch(r"V_DOT2_F32_(F16|BF16)", name)
    if match:
        kind = "f" if match[1] == "F16" else "bf"
        return lambda group: _dot2(packed, group, kind)
    if name in SPECIAL:
        special = SPECIAL[name]

        def run(group: Group) -> None:
            values = [packed.raw(group, number) for number in range(3)]
            group.set_vector(packed.target, special(group, values, packed), 32, group.mask)

        return run
    raise EmulationError(f"{name} is not modelled")


def _mixed(packed: _Packed, group: Group) -> None:
    """V_FMA_MIX: each source is a float32, or a half of a register as float16."""
    values = []
    kind = "bf" if "BF16" in packed.name else "f"
    for number in range(3):
        raw = packed.raw(group, number)
        if packed.high >> number & 1:
            value = numeric.from_bits(_half(raw, bool(packed.low >> number & 1)), kind, 16).astype(np.float64)
        else:
            value = numeric.from_bits(raw, "f", 32).astype(np.float64)
        # NEG_HI is the absolute value here.
        value = np.abs(value) if packed.negate_high >> number & 1 else value
        values.append(-value if packed.negate_low >> number & 1 else value)
    result = (values[0] * values[1] + values[2]).astype(np.float32)
    if packed.word.clmp:
        result = np.clip(result, np.float32(0), np.float32(1))
    if "MIXLO" in packed.name or "MIXHI" in packed.name:
        narrow = numeric.to_bits(result.astype(np.float16) if kind == "f" else result, kind, 16)
        group.set_vector(packed.target, narrow, 16, group.mask, "MIXHI" in packed.name)
    else:
        group.set_vector(packed.target, numeric.to_bits(result, "f", 32), 32, group.mask)


def _halves(packed: _Packed, function: Callable[..., Array], count: int, kind: str) -> Callable[[Group], Any]:
    def run(group: Group) -> None:
        parts = []
        for part in range(2):
            value = function(*(packed.half(group, number, part, kind) for number in range(count)))
            if kind in ("i", "u"):
                if packed.word.clmp:
                    raise EmulationError(f"{packed.name} saturates")
                parts.append(value.astype(np.uint32) & np.uint32(0xFFFF))
                continue
            if packed.word.clmp:
                value = np.clip(value, value.dtype.type(0), value.dtype.type(1))
            parts.append(numeric.to_bits(value, kind, 16))
        group.set_vector(packed.target, parts[0] | (parts[1] << np.uint32(16)), 32, group.mask)

    return run


def _pair_source(packed: _Packed, group: Group, number: int, upper: bool) -> Array:
    """A float32 of a register pair; a constant is the same in both."""
    operand = packed.operands[number]
    if operand < 128 or operand >= 256:
        operand += upper
    return group.vector(operand, 32, packed.literal)


def _pair(packed: _Packed, function: Callable[..., Array], count: int) -> Callable[[Group], Any]:
    def run(group: Group) -> None:
        results = []
        for select, negate in ((packed.low, packed.negate_low), (packed.high, packed.negate_high)):
            values = []
            for number in range(count):
                value = numeric.from_bits(_pair_source(packed, group, number, bool(select >> number & 1)), "f", 32)
                values.append(-value if negate >> number & 1 else value)
            results.append(numeric.to_bits(function(*values), "f", 32))
        for number, value in enumerate(results):
            group.set_vector(packed.target + number, value, 32, group.mask)

    return run


def _move_pair(packed: _Packed, group: Group) -> None:
    values = [_pair_source(packed, group, number, bool(packed.low >> number & 1)) for number in range(2)]
    values = [np.array(value) for value in values]
    for number, value in enumerate(values):
        group.set_vector(packed.target + number, value, 32, group.mask)


def _dot2(packed: _Packed, group: Group, kind: str) -> None:
    total = numeric.from_bits(packed.raw(group, 2), "f", 32).astype(np.float64)
    for part in range(2):
        a, b = (packed.half(group, number, part, kind).astype(np.float64) for number in range(2))
        total = total + a * b
    group.set_vector(packed.target, numeric.to_bits(total.astype(np.float32), "f", 32), 32, group.mask)


# -- dual issue ---------------------------------------------------------------------------------------------------


def _f32(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *raw: numeric.to_bits(function(*(numeric.from_bits(value, "f", 32) for value in raw)), "f", 32)


_fma = _f32(numeric.fused_multiply_add)
# Operands: both sources, the old value of the target, and the literal.
_DUAL: dict[str, Callable[[Array, Array, Array, Array], Array]] = {
    "MOV_B32": lambda a, b, d, k: a,
    "ADD_F32": lambda a, b, d, k: _f32(np.add)(a, b),
    "SUB_F32": lambda a, b, d, k: _f32(np.subtract)(a, b),
    "SUBREV_F32": lambda a, b, d, k: _f32(np.subtract)(b, a),
    "MUL_F32": lambda a, b, d, k: _f32(np.multiply)(a, b),
    "MAX_F32": lambda a, b, d, k: _f32(np.fmax)(a, b),
    "MIN_F32": lambda a, b, d, k: _f32(np.fmin)(a, b),
    "MAX_NUM_F32": lambda a, b, d, k: _f32(np.fmax)(a, b),
    "MIN_NUM_F32": lambda a, b, d, k: _f32(np.fmin)(a, b),
    "FMAC_F32": lambda a, b, d, k: _fma(a, b, d),
    "FMAAK_F32": lambda a, b, d, k: _fma(a, b, k),
    "FMAMK_F32": lambda a, b, d, k: _fma(a, k, b),
    "ADD_NC_U32": lambda a, b, d, k: a + b,
    "LSHLREV_B32": lambda a, b, d, k: b << (a & np.uint32(31)),
    "AND_B32": lambda a, b, d, k: a & b,
}


def _dot2acc(a: Array, b: Array, d: Array, kind: str) -> Array:
    total = numeric.from_bits(d, "f", 32).astype(np.float64)
    for upper in (False, True):
        x, y = (numeric.from_bits(_half(value, upper), kind, 16).astype(np.float64) for value in (a, b))
        total = total + x * y
    return numeric.to_bits(total.astype(np.float32), "f", 32)


_DUAL["DOT2ACC_F32_F16"] = lambda a, b, d, k: _dot2acc(a, b, d, "f")
_DUAL["DOT2ACC_F32_BF16"] = lambda a, b, d, k: _dot2acc(a, b, d, "bf")


def dual(word: Any, name: str, family: str) -> Callable[[Group], Any] | None:
    """VOPD: two instructions that read before either writes."""
    literal = getattr(word, "literal", None)
    halves = []
    for operation, target, first, second in (
        (word.opx, word.vdstx, word.srcx0, word.vsrcx1),
        (word.opy, word.vdsty, word.srcy0, word.vsrcy1),
    ):
        short = operation.name.replace("V_DUAL_", "")
        if short not in _DUAL and short != "CNDMASK_B32":
            raise EmulationError(f"{operation.name} is not modelled")
        halves.append((short, target.offset, first.offset, second.offset))

    def one(group: Group, short: str, target: int, first: int, second: int) -> Array:
        a, b = group.vector(first, 32, literal), group.vector(second, 32, literal)
        if short == "CNDMASK_B32":
            return np.where(group.lanes_of(VCC), b, a)
        return np.array(_DUAL[short](a, b, group.vector(target), np.uint32(literal or 0)))

    def run(group: Group) -> None:
        results = [(half[1], one(group, *half)) for half in halves]
        for target, value in results:
            group.set_vector(target, value, 32, group.mask)

    return run
