"""Pipeline text as a tree of elements.

Grammar, after MLIR's: ``element ("," element)*``, where an element is ``name``, ``name{options}``,
``name(elements)`` with an operation name or ``any``, or ``slot:NAME``. From ``#`` to the end of its line, where space
may stand, is a remark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.slots import SLOT_PREFIX

MODULE = "builtin.module"
_NAME = re.compile(r"slot:\w+|[A-Za-z_][\w.\-]*")


@dataclass(frozen=True)
class Source:
    """A pipeline text and where it comes from.

    Attributes:
        origin: for messages, for example ``HIPDNN_EP_PIPELINE`` or ``slot AfterSimplifyOnnx, plugin 'x' of y 1.0``.
    """

    text: str
    origin: str

    def caret(self, position: int) -> tuple[str, str]:
        """The line around a position, and a line with a caret under it."""
        flat = "".join(" " if character.isspace() else character for character in self.text)
        start = max(0, position - 50)
        end = min(len(flat), position + 50)
        before, after = ("..." if start else ""), ("..." if end < len(flat) else "")
        return f"{before}{flat[start:end]}{after}", " " * (len(before) + position - start) + "^"

    def error(self, code: ErrorCode, what: str, position: int, *, why: str = "", hint: str = "") -> HipCompilerError:
        return HipCompilerError(code, what, where=self.origin, why=why, hint=hint, details=self.caret(position))


@dataclass(frozen=True)
class Element:
    """One element of a pipeline.

    Attributes:
        name: pass, pipeline, anchor, or ``slot:NAME``.
        options: text between the braces; None without braces.
        children: elements between the parentheses; None without parentheses.
        source: the text it was read from.
        position: where in that text.
    """

    name: str
    options: str | None
    children: tuple[Element, ...] | None
    source: Source
    position: int

    @property
    def slot(self) -> str | None:
        return self.name.removeprefix(SLOT_PREFIX) if self.name.startswith(SLOT_PREFIX) else None

    def error(self, code: ErrorCode, what: str, *, why: str = "", hint: str = "") -> HipCompilerError:
        return self.source.error(code, what, self.position, why=why, hint=hint)

    def __str__(self) -> str:
        options = "" if self.options is None else f"{{{self.options}}}"
        children = "" if self.children is None else f"({elements_text(self.children)})"
        return f"{self.name}{options}{children}"


def elements_text(elements: Iterable[Element]) -> str:
    """Text that parses back to equal elements."""
    return ",".join(map(str, elements))


def parse(text: str, origin: str = "pipeline") -> tuple[Element, ...]:
    """Parse pipeline text. An outermost ``builtin.module(...)`` is taken off.

    Raises:
        HipCompilerError: `HIPC0300`, with the text and a caret under the first character that does not fit.
    """
    parser = _Parser(Source(text, origin))
    parser.skip_space()
    elements = parser.elements()
    if parser.position != len(text):
        raise parser.error("expected ',' or the end of the text")
    if len(elements) == 1 and elements[0].name == MODULE and elements[0].children is not None:
        return elements[0].children
    return elements


class _Parser:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.position = 0

    def error(self, expected: str, position: int | None = None) -> HipCompilerError:
        where = self.position if position is None else position
        return self.source.error(ErrorCode.PIPELINE_SYNTAX, f"the pipeline does not parse: {expected}", where)

    def skip_space(self) -> None:
        while self.peek().isspace() or self.peek() == "#":
            if self.peek() == "#":
                end = self.text.find("\n", self.position)
                self.position = len(self.text) if end < 0 else end
            else:
                self.position += 1

    def peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def elements(self) -> tuple[Element, ...]:
        found = [self.element()]
        while self.peek() == ",":
            self.position += 1
            self.skip_space()
            found.append(self.element())
        return tuple(found)

    def element(self) -> Element:
        match = _NAME.match(self.text, self.position)
        if match is None:
            raise self.error("expected the name of a pass, a pipeline, an operation or slot:NAME")
        start, self.position = self.position, match.end()
        self.skip_space()
        options = self.options() if self.peek() == "{" else None
        children = self.children() if self.peek() == "(" else None
        return Element(match[0], options, children, self.source, start)

    def children(self) -> tuple[Element, ...]:
        opened = self.position
        self.position += 1
        self.skip_space()
        nested = () if self.peek() == ")" else self.elements()
        if self.peek() != ")":
            raise self.error("expected ',' or ')'") if self.peek() else self.error("this '(' is not closed", opened)
        self.position += 1
        self.skip_space()
        return nested

    def options(self) -> str:
        start, depth, quote = self.position, 0, ""
        for position in range(start, len(self.text)):
            character = self.text[position]
            if quote:
                quote = "" if character == quote else quote
            elif character in "'\"":
                quote = character
            elif character in "{}":
                depth += 1 if character == "{" else -1
                if depth == 0:
                    self.position = position + 1
                    self.skip_space()
                    return self.text[start + 1 : position].strip()
        raise self.error("this '{' is not closed", start)
