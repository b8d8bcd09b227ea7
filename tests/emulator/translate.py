"""Turns an instruction's pseudo-code into a Python function over numpy arrays.

The function takes the operands as keyword arguments (raw bits of kind ``u``: ``S0`` `S1` `S2` `D0` `SIMM16` `SIMM32`;
`VCC_lanes` and `EXEC_lanes` as bool [waves, lanes]; `VCC`, `EXEC` raw; `SCC` raw) and returns a dict of what the
pseudo-code writes: ``D0`` (raw bits), ``SCC`` (bool), ``EXEC`` (raw), and ``D0_lanes`` `VCC_lanes` `EXEC_lanes` (bool).
Both sides of an `if` are computed and merged, so one function serves all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tests.emulator import functions, numeric
from tests.emulator.pseudocode import Node, PseudoCodeError, parse

Function = Callable[..., dict[str, Any]]
_COMPARISONS = ("==", "!=", "<>", "<", "<=", ">", ">=")
_INPUTS = ("S0", "S1", "S2", "D0", "SIMM16", "SIMM32", "VCC", "EXEC", "SCC", "laneId")
_CONSTANTS = {"PI": np.pi, "INF": np.inf, "NAN": np.nan}


class Value(NamedTuple):
    """A Python expression and the kind of what it computes; `constant` where that is known."""

    code: str
    kind: str
    bits: int
    constant: int | float | None = None


class Translated(NamedTuple):
    """`inputs` are the keyword arguments that `run` wants; `outputs` the keys of what it returns."""

    run: Function
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@cache
def translate(text: str, widths: tuple[tuple[str, int], ...]) -> Translated:
    """Compile pseudo-code for operands of the given widths in bits (16, 32 or 64, by operand name)."""
    translator = _Translator(dict(widths))
    translator.block(parse(text))
    return translator.finish(text)


class _Translator:
    def __init__(self, widths: Mapping[str, int]) -> None:
        self.widths = widths
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {"np": np, "n": numeric, "fn": functions}
        self.variables: dict[str, Value] = {}
        self.written: dict[str, None] = {}
        self.inputs: dict[str, None] = {}

    # -- emitting -------------------------------------------------------------------------------------------------

    def emit(self, code: str, kind: str, bits: int) -> Value:
        name = f"t{len(self.lines)}"
        self.lines.append(f"    {name} = {code}")
        return Value(name, kind, bits)

    def constant(self, value: int | float, kind: str, bits: int) -> Value:
        name = f"k{len(self.namespace)}"
        dtype = numeric.dtype_of(kind, bits)
        if kind in ("u", "i"):
            wrapped = int(value) & ((1 << bits) - 1)
            signed = wrapped - (1 << bits) if kind == "i" and wrapped >> (bits - 1) else wrapped
            self.namespace[name] = dtype(signed)
            return Value(name, kind, bits, signed)
        self.namespace[name] = dtype(value)
        return Value(name, kind, bits, value)

    def raw(self, value: Value) -> Value:
        if value.kind == "u":
            return value
        if value.constant is not None and value.kind == "i":
            return self.constant(value.constant, "u", value.bits)
        return self.emit(f"n.to_bits({value.code}, {value.kind!r}, {value.bits})", "u", value.bits)

    def reinterpret(self, value: Value, kind: str, bits: int) -> Value:
        if (value.kind, value.bits) == (kind, bits):
            return value
        if value.kind in ("u", "i") and value.constant is not None and kind in ("u", "i"):
            return self.constant(value.constant, kind, bits)
        if value.kind == "p":
            value = self.raw(value)
        # Widening keeps the sign of a signed value; everything else looks at the bits.
        if value.kind == "i" and kind in ("u", "i") and bits > value.bits:
            return self.convert(value, kind, bits)
        raw = self.raw(value)
        return self.emit(f"n.from_bits({raw.code}, {kind!r}, {bits})", kind, bits)

    def convert(self, value: Value, kind: str, bits: int) -> Value:
        if (value.kind, value.bits) == (kind, bits):
            return value
        if value.constant is not None and (kind == "f" or value.kind in ("u", "i")):
            return self.constant(value.constant, kind, bits)
        return self.emit(f"n.convert({value.code}, {value.kind!r}, {value.bits}, {kind!r}, {bits})", kind, bits)

    def truth(self, value: Value) -> Value:
        return value if value.kind == "p" else self.emit(f"({value.code} != 0)", "p", 1)

    def unify(self, left: Value, right: Value) -> tuple[Value, Value]:
        if "f" in (left.kind, right.kind) or "bf" in (left.kind, right.kind):
            bits = max([v.bits if v.kind == "f" else 32 for v in (left, right) if v.kind in ("f", "bf")])
            return self.convert(left, "f", bits), self.convert(right, "f", bits)
        left, right = (self.raw(v) if v.kind == "p" else v for v in (left, right))
        kind = "u" if "u" in (left.kind, right.kind) else "i"
        bits = max(left.bits, right.bits)
        return self.reinterpret(left, kind, bits), self.reinterpret(right, kind, bits)

    # -- expressions ----------------------------------------------------------------------------------------------

    def value(self, node: Node) -> Value:
        return getattr(self, f"_{node[0]}")(*node[1:])

    def integer(self, node: Node) -> int:
        constant = self.value(node).constant
        if not isinstance(constant, int):
            raise PseudoCodeError(f"{node} is not a constant")
        return constant

    def _number(self, value: int | float, kind: str, bits: int) -> Value:
        return self.constant(value, kind, bits)

    def _name(self, name: str) -> Value:
        if name in self.variables:
            return self.variables[name]
        if name in _CONSTANTS:
            return self.constant(_CONSTANTS[name], "f", 64)
        if name in _INPUTS:
            self.inputs[name] = None
            return Value(name, "u", self.widths.get(name, 32))
        raise PseudoCodeError(f"{name} has no value")

    def _typed(self, node: Node, kind: str, bits: int) -> Value:
        if node == ("name", "NAN"):
            return self.constant(np.nan, kind, bits)
        return self.reinterpret(self.value(node), kind, bits)

    def _bit(self, node: Node, index: Node) -> Value:
        if index == ("name", "laneId"):
            name = _root(node)
            self.inputs[f"{name}_lanes"] = None
            return Value(f"{name}_lanes", "p", 1)
        raw = self.raw(self.value(node))
        shifted = self.emit(f"n.shift_right({raw.code}, {self.value(index).code})", "u", raw.bits)
        return self.emit(f"({shifted.code} & {self.constant(1, 'u', raw.bits).code}).astype(np.uint32)", "u", 1)

    def _slice(self, node: Node, high: Node, low: Node) -> Value:
        first, last = self.integer(low), self.integer(high)
        raw = self.raw(self.value(node))
        if last < first:
            return self.emit(f"fn.reverse_bits({raw.code}, {first - last + 1})", "u", first - last + 1)
        bits = last - first + 1
        shifted = f"({raw.code} >> {self.constant(first, 'u', max(raw.bits, 32)).code})" if first else raw.code
        return self.emit(f"n.from_bits({shifted}, 'u', {bits})", "u", bits)

    def _cast(self, node: Node, kind: str, bits: int) -> Value:
        return self.convert(self.value(node), kind, bits)

    def _concat(self, nodes: tuple[Node, ...]) -> Value:
        values = [self.raw(self.value(node)) for node in nodes]
        bits = sum(value.bits for value in values)
        result = self.reinterpret(values[0], "u", bits)
        for value in values[1:]:
            part = self.reinterpret(value, "u", bits)
            shift = self.constant(value.bits, "u", bits)
            result = self.emit(f"(({result.code} << {shift.code}) | {part.code})", "u", bits)
        return result

    def _choose(self, condition: Node, yes: Node, no: Node) -> Value:
        test = self.value(condition)
        if test.constant is not None:
            return self.value(yes if test.constant else no)
        test = self.truth(test)
        left, right = self.unify(self.value(yes), self.value(no))
        return self.emit(f"np.where({test.code}, {left.code}, {right.code})", left.kind, left.bits)

    def _unary(self, operator: str, node: Node) -> Value:
        value = self.value(node)
        if operator == "+":
            return value
        if operator == "!":
            return self.emit(f"~{self.truth(value).code}", "p", 1)
        if operator == "~":
            if value.kind == "p":
                return self.emit(f"~{value.code}", "p", 1)
            raw = self.raw(value)
            flipped = self.emit(f"(~{raw.code})", "u", 32 if raw.bits <= 32 else 64)
            return self.emit(f"n.from_bits({flipped.code}, {value.kind!r}, {value.bits})", value.kind, value.bits)
        if value.constant is not None:
            return self.constant(-value.constant, "i" if value.kind in "ui" else value.kind, value.bits)
        if value.kind in ("f", "bf"):
            return self.emit(f"(-{value.code})", value.kind, value.bits)
        return self.emit(f"(-{self.reinterpret(value, 'i', value.bits).code})", "i", value.bits)

    def _binary(self, operator: str, left_node: Node, right_node: Node) -> Value:
        left, right = self.value(left_node), self.value(right_node)
        if operator in ("&&", "||"):
            joined = "&" if operator == "&&" else "|"
            return self.emit(f"({self.truth(left).code} {joined} {self.truth(right).code})", "p", 1)
        if operator == "**":
            return self._power(left, right)
        if isinstance(left.constant, int) and isinstance(right.constant, int) and operator in ("+", "-", "*", "<<"):
            folded = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "<<": int.__lshift__}[operator]
            return self.constant(folded(left.constant, right.constant), left.kind, max(left.bits, 32))
        if operator in ("<<", ">>"):
            name = "shift_left" if operator == "<<" else "shift_right"
            shifted = self.emit(f"n.{name}({left.code}, {right.code})", left.kind, left.bits)
            return self._narrow(shifted) if operator == "<<" else shifted
        if operator in ("&", "|", "^") and left.kind == right.kind == "p":
            return self.emit(f"({left.code} {operator} {right.code})", "p", 1)
        left, right = self.unify(left, right)
        if operator in _COMPARISONS:
            if operator == "<>":
                return self.emit(f"(({left.code} < {right.code}) | ({left.code} > {right.code}))", "p", 1)
            return self.emit(f"({left.code} {operator} {right.code})", "p", 1)
        if operator == "/" and left.kind != "f":
            operator = "//"
        return self._narrow(self.emit(f"({left.code} {operator} {right.code})", left.kind, left.bits))

    def _narrow(self, value: Value) -> Value:
        """Integers narrower than their storage are kept wrapped."""
        if value.kind not in ("u", "i") or value.bits in (32, 64):
            return value
        raw = f"{value.code}.view(np.uint{32 if value.bits <= 32 else 64})" if value.kind == "i" else value.code
        return self.emit(f"n.from_bits({raw}, {value.kind!r}, {value.bits})", value.kind, value.bits)

    def _power(self, base: Value, exponent: Value) -> Value:
        if base.constant is not None and isinstance(exponent.constant, int):
            return self.constant(float(base.constant) ** exponent.constant, "f", base.bits if base.kind == "f" else 64)
        if base.constant == 2.0:
            return self.emit(f"np.exp2({self.convert(exponent, 'f', base.bits).code})", "f", base.bits)
        base, exponent = self.unify(base, exponent)
        return self.emit(f"np.power({base.code}, {exponent.code})", base.kind, base.bits)

    def _call(self, name: str, nodes: tuple[Node, ...]) -> Value:
        values = [self.value(node) for node in nodes]
        if name == "pow":
            return self._power(*values)
        return functions.call(self, name, values)

    # -- statements -----------------------------------------------------------------------------------------------

    def block(self, statements: tuple[Node, ...]) -> None:
        for statement in statements:
            if statement[0] == "set":
                self.assign(statement[1], self.value(statement[2]))
            elif statement[0] == "if":
                self._if(statement[1], statement[2])
            else:
                _, name, first, last, body = statement
                for index in range(self.integer(first), self.integer(last) + 1):
                    self.variables[name] = self.constant(index, "i", 32)
                    self.block(body)

    def _if(self, branches: tuple[tuple[Node, tuple[Node, ...]], ...], otherwise: tuple[Node, ...]) -> None:
        if not branches:
            self.block(otherwise)
            return
        condition = self.value(branches[0][0])
        if condition.constant is not None:
            self.block(branches[0][1]) if condition.constant else self._if(branches[1:], otherwise)
            return
        condition = self.truth(condition)
        before = dict(self.variables)
        self.block(branches[0][1])
        taken, self.variables = self.variables, before.copy()
        self._if(branches[1:], otherwise)
        for name, value in taken.items():
            if self.variables.get(name) != value:
                self.variables[name] = self._merge(condition, name, value)

    def _merge(self, condition: Value, name: str, yes: Value) -> Value:
        no = self.variables.get(name)
        if no is None:
            if name not in _INPUTS:
                return yes
            no = self._name(name)
        if (yes.kind, yes.bits) != (no.kind, no.bits):
            bits = max(yes.bits, no.bits)
            yes, no = (self.reinterpret(self.raw(v), "u", bits) for v in (yes, no))
        return self.emit(f"np.where({condition.code}, {yes.code}, {no.code})", yes.kind, yes.bits)

    def assign(self, target: Node, value: Value) -> None:
        kind = target[0]
        name = _root(target)
        if kind == "bit" and target[2] == ("name", "laneId"):
            name = f"{name}_lanes"
            self.variables[name] = self.truth(value)
        elif kind == "name":
            self.variables[name] = value
        elif kind == "typed" and target[1][0] == "name":
            self.variables[name] = self._as(value, target[2], target[3])
        else:
            self._insert(name, target, value)
        self.written[name] = None

    def _as(self, value: Value, kind: str, bits: int) -> Value:
        """What assigning to a typed target stores: floats change their format, everything else keeps its bits."""
        if value.kind in ("f", "bf") and kind in ("f", "bf"):
            return self.convert(value, kind, bits)
        return self.reinterpret(value, kind, bits)

    def _insert(self, name: str, target: Node, value: Value) -> None:
        if target[0] == "typed":
            value = self._as(value, target[2], target[3])
            target = target[1]
        if target[0] == "slice":
            high, low = self.integer(target[2]), self.integer(target[3])
        elif target[0] == "bit":
            high = low = self.integer(target[2])
        else:
            raise PseudoCodeError(f"no target: {target}")
        width = 32 if high < 32 else 64
        known = self.variables.get(name)
        if known is None:
            known = self._name(name) if name in _INPUTS else self.constant(0, "u", width)
        width = max(width, 32 if known.bits <= 32 else 64)
        old = self.reinterpret(self.raw(known), "u", width)
        part = self.reinterpret(self.raw(value), "u", high - low + 1)
        part = self.reinterpret(part, "u", width)
        hole = self.constant(~(((1 << (high - low + 1)) - 1) << low), "u", width)
        shift = self.constant(low, "u", width)
        code = f"(({old.code} & {hole.code}) | ({part.code} << {shift.code}))"
        self.variables[name] = self.emit(code, "u", width)

    # -- the function ---------------------------------------------------------------------------------------------

    def finish(self, text: str) -> Translated:
        outputs = {}
        for name in self.written:
            if name in ("D0", "EXEC", "VCC"):
                outputs[name] = self.raw(self.variables[name]).code
            elif name == "SCC" or name.endswith("_lanes"):
                outputs[name] = self.truth(self.variables[name]).code
        if not outputs:
            raise PseudoCodeError(f"nothing is written by {text!r}")
        inputs = tuple(self.inputs)
        result = ", ".join(f"{name!r}: {code}" for name, code in outputs.items())
        body = "\n".join(self.lines)
        source = (
            f"def run(*, {', '.join(inputs)}):\n{body}\n    return {{{result}}}\n"
            if inputs
            else (f"def run():\n{body}\n    return {{{result}}}\n")
        )
        exec(compile(source, "<pseudo-code>", "exec"), self.namespace)
        return Translated(self.namespace["run"], inputs, tuple(outputs))


def _root(node: Node) -> str:
    while node[0] in ("typed", "slice", "bit"):
        node = node[1]
    if node[0] != "name":
        raise PseudoCodeError(f"no name: {node}")
    return str(node[1])
