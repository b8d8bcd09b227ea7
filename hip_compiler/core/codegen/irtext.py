"""LLVM 24 IR text -> LLVM 22 IR text.

The MLIR bindings print the IR of LLVM 24; llvmlite reads that of LLVM 22. They differ in how
floating-point constants are spelt, and in a few attributes. LLVM 24 prints the shortest decimal that
rounds to the value, ``+inf``, ``+qnan``, ``+nan(0x…)``, ``+snan(0x…)`` and ``f0x<bits>``; LLVM 22 wants a
decimal that is exact, or the bits in hexadecimal: ``0xH`` half, ``0xR`` bfloat, ``0xK`` x86_fp80, ``0xL`` fp128,
and ``0x`` with the bits of the value as a double for both float and double.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from fractions import Fraction

from hip_compiler.errors import ErrorCode, HipCompilerError


@dataclass(frozen=True)
class _Format:
    """A binary floating-point format: widths in bits, and the prefix of its bits in LLVM 22 text."""

    exponent: int
    mantissa: int
    prefix: str
    explicit_one: bool = False

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa + self.explicit_one)

    @property
    def infinity(self) -> int:
        ones = (1 << self.exponent) - 1
        return (ones << 1 | 1) << self.mantissa if self.explicit_one else ones << self.mantissa

    @property
    def quiet(self) -> int:
        return 1 << (self.mantissa - 1)


_FORMATS = {
    "half": _Format(5, 10, "0xH"),
    "bfloat": _Format(8, 7, "0xR"),
    "float": _Format(8, 23, "0x"),
    "double": _Format(11, 52, "0x"),
    "x86_fp80": _Format(15, 63, "0xK", explicit_one=True),
    "fp128": _Format(15, 112, "0xL"),
}

_TOKEN = re.compile(
    r"""
      c?"[^"]*"                                          # a string, opaque
    | ;[^\n]*                                            # a comment, opaque
    | [@%$!\#](?:"[^"]*"|[-a-zA-Z$._0-9]+)               # a name, opaque
    | (?P<type>\b(?:half|bfloat|float|double|x86_fp80|fp128)\b)
    | (?P<literal>(?<![\w.])(?:
          f0x[0-9A-Fa-f]+
        | [+-](?:inf|qnan)\b
        | [+-]s?nan\(0x[0-9A-Fa-f]+\)
        | [+-]?[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?
      ))
    | (?P<sized>\bdead_on_return)\([0-9]+\)              # LLVM 22 has no size here: the whole object is meant
    | (?P<line>\n)
    """,
    re.VERBOSE,
)


def downgrade(text: str) -> str:
    """The same module in the syntax of LLVM 22; every constant keeps its bits.

    Raises:
        HipCompilerError: `HIPC0500`, for a constant whose type or spelling is not understood.
    """
    # A constant has the type that was named last on its line: `fadd float %a, 1.5`, `[2 x half] [half 1.0, half 2.0]`.
    current: str | None = None

    def replace(match: re.Match[str]) -> str:
        nonlocal current
        kind = match.lastgroup
        if kind == "literal":
            return _spell(current, match.group(), text, match.start())
        if kind == "type":
            current = match.group()
        elif kind == "line":
            current = None
        elif kind == "sized":
            return match.group("sized")
        return match.group()

    return _TOKEN.sub(replace, text)


def _spell(type_name: str | None, literal: str, text: str, position: int) -> str:
    if type_name is not None:
        bits = constant_bits(type_name, literal)
        if bits is not None:
            return _in_hexadecimal(type_name, bits)
    line = text.count("\n", 0, position) + 1
    raise HipCompilerError(
        ErrorCode.CODEGEN,
        f"the constant {literal} of type {type_name or 'unknown'} cannot be written for LLVM 22",
        where=f"line {line} of the LLVM IR: {text.splitlines()[line - 1].strip()[:160]}",
        why="the MLIR bindings and llvmlite are of different LLVM versions",
        hint="report this line",
    )


def constant_bits(type_name: str, literal: str) -> int | None:
    """Bits of a constant as LLVM 24 spells it; None when the spelling is not that of the type."""
    layout = _FORMATS[type_name]
    if literal.startswith("f0x"):
        return int(literal[3:], 16)
    sign = layout.sign if literal.startswith("-") else 0
    word = literal.lstrip("+-")
    if word == "inf":
        return sign | layout.infinity
    if word == "qnan":
        return sign | layout.infinity | layout.quiet
    if word.startswith("nan("):
        return sign | layout.infinity | layout.quiet | int(word[4:-1], 16)
    if word.startswith("snan("):
        return sign | layout.infinity | int(word[5:-1], 16)
    if layout.explicit_one or layout.mantissa > 52:
        return None
    return sign | _round(Fraction(word), layout)


def _round(value: Fraction, layout: _Format) -> int:
    """Bits of the number of a format nearest to a non-negative value, ties to even."""
    if not value:
        return 0
    smallest = 2 - (1 << (layout.exponent - 1))
    exponent = max(value.numerator.bit_length() - value.denominator.bit_length(), smallest)
    if exponent > smallest and value < _power(exponent):
        exponent -= 1
    # round() of a Fraction rounds ties to even. A carry out of the mantissa lands in the exponent, as it should.
    steps = round(value / _power(exponent - layout.mantissa))
    return min(((exponent - smallest) << layout.mantissa) + steps, layout.infinity)


def _power(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def _in_hexadecimal(type_name: str, bits: int) -> str:
    prefix = _FORMATS[type_name].prefix
    if type_name == "float":
        return f"{prefix}{_float_as_double(bits):016X}"
    if type_name == "fp128":
        return f"{prefix}{bits & (1 << 64) - 1:016X}{bits >> 64:016X}"
    digits = {"half": 4, "bfloat": 4, "double": 16, "x86_fp80": 20}[type_name]
    return f"{prefix}{bits:0{digits}X}"


def _float_as_double(bits: int) -> int:
    """Bits of the double with the value of a float; a NaN keeps its payload and its quiet bit."""
    if bits >> 23 & 0xFF == 0xFF:
        return bits >> 31 << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    (number,) = struct.unpack("<f", struct.pack("<I", bits))
    (wide,) = struct.unpack("<Q", struct.pack("<d", number))
    return int(wide)
