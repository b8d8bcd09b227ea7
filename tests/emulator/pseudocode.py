"""Parses the pseudo-code of AMD's instruction set manuals (as the `tinygrad` package ships it) to a small tree.

A tree node is a tuple whose first entry names its kind:

- ``("number", value, kind, bits)``, ``("name", text)``, ``("typed", node, kind, bits)`` for ``x.u32``,
  ``("bit", node, index)`` for ``x[i]``, ``("slice", node, high, low)``, ``("cast", node, kind, bits)`` for ``32'U(x)``,
  ``("concat", nodes)``, ``("choose", condition, yes, no)``, ``("unary", op, node)``, ``("binary", op, left, right)``,
  ``("call", name, nodes)``;
- statements: ``("set", target, value)``, ``("if", ((condition, block), ...), else_block)``,
  ``("for", name, first, last, block)``.

Kinds of values: ``u`` unsigned, ``i`` signed, ``f`` IEEE float, ``bf`` bfloat16.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

Node = tuple[Any, ...]

_TOKEN = re.compile(
    r"\s*(?:(?P<comment>//[^\n]*)"
    r"|(?P<cast>\d+'[A-Z]{1,2}\d*(?=\())"
    r"|(?P<sized>\d+'-?(?:0x[0-9A-Fa-f]+|\d+\.\d+|\d+)[A-Z]?)"
    r"|(?P<kind>\d+'[A-Z]{1,2})"
    r"|(?P<number>0x[0-9A-Fa-f]+U?L*|\d+\.\d+(?:e[+-]?\d+)?F?|\d+U?L*F?)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator>\*\*|<<|>>|<=|>=|==|!=|<>|&&|\|\||\+=|-=|\+:|[-+*/%&|^~!<>=?:;,.(){}\[\]]))"
)
_TYPES = {"f": "f", "u": "u", "i": "i", "b": "u", "bf": "bf", "U": "u", "I": "i", "B": "u", "F": "f", "BF": "bf"}
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!=", "<>"), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"), ("**",),
)  # fmt: skip
_BLOCK_ENDS = ("elsif", "else", "endif", "endfor")


class PseudoCodeError(Exception):
    """Text that this reader does not understand."""


@cache
def parse(text: str) -> tuple[Node, ...]:
    """Statements of one instruction's pseudo-code."""
    reader = _Reader(text)
    block = reader.block()
    if reader.kind != "end":
        raise PseudoCodeError(f"left over: {reader.text!r} in {text!r}")
    return block


def _tokens(text: str) -> list[tuple[str, str]]:
    found = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise PseudoCodeError(f"no token at {text[at : at + 20]!r}")
        at = match.end()
        if match.lastgroup != "comment":
            found.append((match.lastgroup, match[match.lastgroup]))
    return [*found, ("end", "")]


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def text(self) -> str:
        return self.tokens[self.at][1]

    def take(self, expected: str | None = None) -> str:
        text = self.text
        if expected is not None and text != expected:
            raise PseudoCodeError(f"expected {expected!r}, found {text!r}")
        self.at += 1
        return text

    def accept(self, text: str) -> bool:
        if self.text != text or self.kind == "end":
            return False
        self.at += 1
        return True

    def block(self) -> tuple[Node, ...]:
        statements: list[Node] = []
        while self.kind != "end" and self.text not in _BLOCK_ENDS:
            if not self.accept(";"):
                statement = self.statement()
                if statement is not None:
                    statements.append(statement)
        return tuple(statements)

    def statement(self) -> Node | None:
        if self.accept("if"):
            return self._if()
        if self.accept("for"):
            name = self.take()
            self.take("in")
            first = self.expression()
            self.take(":")
            last = self.expression()
            self.take("do")
            body = self.block()
            self.take("endfor")
            return ("for", name, first, last, body)
        if self.accept("declare"):
            while self.kind != "end" and self.text != ";":
                self.at += 1
            return None
        target = self.postfix()
        operator = self.take()
        value = self.expression()
        if operator == "=":
            return ("set", target, value)
        if operator in ("+=", "-="):
            return ("set", target, ("binary", operator[0], target, value))
        raise PseudoCodeError(f"no statement: {operator!r}")

    def _if(self) -> Node:
        branches = []
        while True:
            condition = self.expression()
            self.take("then")
            branches.append((condition, self.block()))
            if not self.accept("elsif"):
                break
        otherwise = self.block() if self.accept("else") else ()
        self.take("endif")
        return ("if", tuple(branches), otherwise)

    def expression(self) -> Node:
        condition = self._binary(0)
        if not self.accept("?"):
            return condition
        yes = self.expression()
        self.take(":")
        return ("choose", condition, yes, self.expression())

    def _binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self.kind == "operator" and self.text in _LEVELS[level]:
            left = ("binary", self.take(), left, self._binary(level + 1))
        return left

    def _unary(self) -> Node:
        if self.kind == "operator" and self.text in ("-", "!", "~", "+"):
            operator = self.take()
            return ("unary", operator, self._unary())
        return self.postfix()

    def postfix(self) -> Node:
        node = self._primary()
        while True:
            if self.accept("."):
                match = re.fullmatch(r"(bf|f|u|i|b)(\d+)", self.take())
                if match is None:
                    raise PseudoCodeError("an unknown member")
                node = ("typed", node, _TYPES[match[1]], int(match[2]))
            elif self.accept("["):
                high = self.expression()
                node = ("slice", node, high, self.expression()) if self.accept(":") else ("bit", node, high)
                self.take("]")
            else:
                return node

    def _primary(self) -> Node:
        kind, text = self.kind, self.take()
        if kind == "cast":
            bits, type_name = text.split("'")
            self.take("(")
            value = self.expression()
            self.take(")")
            return ("cast", value, _TYPES[type_name.rstrip("0123456789")], int(bits))
        if kind == "sized":
            return _sized(text)
        if kind == "number":
            return _number(text)
        if text == "(":
            value = self.expression()
            self.take(")")
            return value
        if text == "{":
            values = [self.expression()]
            while self.accept(","):
                values.append(self.expression())
            self.take("}")
            return ("concat", tuple(values))
        if kind != "name":
            raise PseudoCodeError(f"no value: {text!r}")
        if not self.accept("("):
            return ("name", text)
        arguments = []
        while not self.accept(")"):
            arguments.append(self.expression())
            self.accept(",")
        return ("call", text, tuple(arguments))


def _sized(text: str) -> Node:
    bits, value = text.split("'")
    if value.endswith("F") and not value.startswith("0x"):
        return ("number", float(value[:-1]), "f", int(bits))
    if "." in value:
        return ("number", float(value), "f", int(bits))
    kind = "i" if value.endswith("I") or value.startswith("-") else "u"
    return ("number", int(value.rstrip("UIBL"), 0), kind, int(bits))


def _number(text: str) -> Node:
    if "." in text:
        return ("number", float(text.rstrip("F")), "f", 32 if text.endswith("F") else 64)
    digits = text.rstrip("ULF") if not text.startswith("0x") else text.rstrip("UL")
    return ("number", int(digits, 0), "u" if "U" in text else "i", 64 if "L" in text else 32)
