"""Who wrote a bitcode file: the identification block of LLVM's bitstream, read without LLVM.

LLVM reports the writer only in some of its parse errors; a refusal should name it in all of them.
Format: LLVM's "Bitcode File Format" document, sections "Bitstream Format" and "IDENTIFICATION_BLOCK Contents".
"""

from __future__ import annotations

from dataclasses import dataclass, field

CHAR6 = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._"
IDENTIFICATION_BLOCK = 13
STRING_RECORD = 1
END_BLOCK, ENTER_SUBBLOCK, DEFINE_ABBREV, UNABBREV_RECORD = range(4)
FIXED, VBR, ARRAY, CHAR6_ENCODING, BLOB = range(1, 6)


@dataclass
class _Bits:
    """Little-endian bits of a file."""

    data: bytes
    position: int = 0

    def fixed(self, width: int) -> int:
        first, last = self.position // 8, (self.position + width + 7) // 8
        if last > len(self.data):
            raise EOFError
        word = int.from_bytes(self.data[first:last], "little") >> (self.position % 8)
        self.position += width
        return word & ((1 << width) - 1)

    def vbr(self, width: int) -> int:
        value, shift, high = 0, 0, 1 << (width - 1)
        while True:
            chunk = self.fixed(width)
            value |= (chunk & (high - 1)) << shift
            shift += width - 1
            if not chunk & high:
                return value

    def align(self) -> None:
        self.position = -(-self.position // 32) * 32


@dataclass(frozen=True)
class _Operand:
    """One operand of an abbreviation: a literal, or an encoding with its width."""

    literal: int | None
    encoding: int = 0
    width: int = 0


@dataclass
class _Block:
    bits: _Bits
    width: int
    abbreviations: list[list[_Operand]] = field(default_factory=list)


def producer(data: bytes) -> str:
    """Name of the LLVM that wrote a bitcode file, for example ``LLVM22.1.8``; empty when the file does not say."""
    bits = _Bits(data[20:] if data.startswith(b"\xde\xc0\x17\x0b") else data, 32)
    try:
        if bits.fixed(2) != ENTER_SUBBLOCK or bits.vbr(8) != IDENTIFICATION_BLOCK:
            return ""
        width = bits.vbr(4)
        bits.align()
        bits.fixed(32)
        return _string_record(_Block(bits, width))
    except EOFError:
        return ""


def _string_record(block: _Block) -> str:
    bits = block.bits
    while True:
        abbreviation = bits.fixed(block.width)
        if abbreviation == DEFINE_ABBREV:
            block.abbreviations.append(_definition(bits))
            continue
        if abbreviation in (END_BLOCK, ENTER_SUBBLOCK):
            return ""
        if abbreviation == UNABBREV_RECORD:
            code, count = bits.vbr(6), bits.vbr(6)
            record = [code, *(bits.vbr(6) for _ in range(count))]
        else:
            record = _abbreviated(bits, block.abbreviations[abbreviation - 4])
        if record and record[0] == STRING_RECORD:
            return "".join(map(chr, record[1:]))


def _definition(bits: _Bits) -> list[_Operand]:
    operands = []
    for _ in range(bits.vbr(5)):
        if bits.fixed(1):
            operands.append(_Operand(bits.vbr(8)))
            continue
        encoding = bits.fixed(3)
        operands.append(_Operand(None, encoding, bits.vbr(5) if encoding in (FIXED, VBR) else 0))
    return operands


def _abbreviated(bits: _Bits, operands: list[_Operand]) -> list[int]:
    values: list[int] = []
    for position, operand in enumerate(operands):
        if operand.encoding == ARRAY:
            element = operands[position + 1]
            values += [_scalar(bits, element) for _ in range(bits.vbr(6))]
            break
        values.append(_scalar(bits, operand))
    return values


def _scalar(bits: _Bits, operand: _Operand) -> int:
    if operand.literal is not None:
        return operand.literal
    if operand.encoding == CHAR6_ENCODING:
        return ord(CHAR6[bits.fixed(6)])
    return bits.vbr(operand.width) if operand.encoding == VBR else bits.fixed(operand.width)
