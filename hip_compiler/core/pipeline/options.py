"""Options of a pass: from text between braces to the fields of its dataclass."""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hip_compiler.core.pipeline.text import Element
from hip_compiler.errors import ErrorCode, HipCompilerError
from hip_compiler.registry.contributions import Lazy, PassContribution
from hip_compiler.registry.names import listing, nearest

_OPTION = re.compile(r"""\s*([\w\-]+)(?:=("[^"]*"|'[^']*'|\{[^{}]*\}|[^\s"'{}]*))?(?=\s|$)""")
_TRUE, _FALSE = ("true", "1"), ("false", "0")


def make_pass(element: Element, factory: Any) -> Any:
    """An instance of a pass with the options of a pipeline element.

    Raises:
        HipCompilerError: `HIPC0304`, an unknown option, a value of the wrong kind, or a missing one.
    """
    fields = option_fields(factory)
    values: dict[str, Any] = {}
    for key, text in _split(element).items():
        name = key.replace("-", "_")
        if name not in fields:
            spelt = [field.replace("_", "-") for field in fields]
            raise _error(
                element,
                f"pass '{element.name}' has no option '{key}'",
                why=f"its options are: {listing(spelt)}",
                hint=nearest(key, spelt),
            )
        try:
            values[name] = _convert(text, fields[name])
        except ValueError as error:
            raise _error(
                element, f"option '{key}' of pass '{element.name}' is {text!r}", why=f"expected {error}"
            ) from error
    missing = [name.replace("_", "-") for name in _required(factory) if name not in values]
    if missing:
        raise _error(element, f"pass '{element.name}' needs option {' and '.join(repr(name) for name in missing)}")
    try:
        return factory(**values)
    except (TypeError, ValueError) as error:
        raise _error(element, f"pass '{element.name}' cannot be made from its options", why=str(error)) from error


def option_fields(factory: Any) -> Mapping[str, Any]:
    """Type of every option by field name."""
    if not dataclasses.is_dataclass(factory):
        return {}
    hints = get_type_hints(factory)
    return {field.name: hints[field.name] for field in dataclasses.fields(factory) if field.init}


def _required(factory: Any) -> list[str]:
    if not dataclasses.is_dataclass(factory):
        return []
    unset = dataclasses.MISSING
    return [
        field.name
        for field in dataclasses.fields(factory)
        if field.init and field.default is unset and field.default_factory is unset
    ]


def _split(element: Element) -> dict[str, str | None]:
    text = element.options or ""
    found: dict[str, str | None] = {}
    position = 0
    while text[position:].strip():
        match = _OPTION.match(text, position)
        if match is None:
            raise _error(element, f"options of pass '{element.name}' do not parse: {text[position:].strip()!r}")
        value = match[2]
        if value is not None and value[:1] in ("'", '"', "{"):
            value = value[1:-1]
        if match[1] in found:
            raise _error(element, f"option '{match[1]}' of pass '{element.name}' is given twice")
        found[match[1]] = value
        position = match.end()
    return found


def _convert(text: str | None, kind: Any) -> Any:
    """The value of a text, or ValueError with what was expected."""
    if kind is bool:
        if text is None or text.lower() in _TRUE:
            return True
        if text.lower() in _FALSE:
            return False
        raise ValueError("true or false")
    if text is None:
        raise ValueError(f"a value: {_words(kind)}")
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _convert(text, next(part for part in get_args(kind) if part is not type(None)))
    if origin is Literal:
        choices = {str(choice): choice for choice in get_args(kind)}
        if text not in choices:
            raise ValueError(_words(kind))
        return choices[text]
    if origin in (tuple, list):
        items = [_convert(item.strip(), get_args(kind)[0]) for item in text.split(",")] if text.strip() else []
        return origin(items)
    if kind in (int, float):
        try:
            return int(text, 0) if kind is int else float(text)
        except ValueError:
            raise ValueError(_words(kind)) from None
    if kind in (str, Path):
        return kind(text)
    raise ValueError(f"nothing from text: options of type {kind} cannot be given in a pipeline")


def _words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    return {int: "an integer", float: "a number", str: "a string", Path: "a path"}.get(kind, str(kind))


def _error(element: Element, what: str, *, why: str = "", hint: str = "") -> HipCompilerError:
    return element.error(ErrorCode.PASS_OPTION, what, why=why, hint=hint)


def describe_options(contribution: PassContribution) -> list[dict[str, str]]:
    """Spelling, type and default of every option of a pass."""
    factory: Any = contribution.factory.load() if isinstance(contribution.factory, Lazy) else contribution.factory
    if not dataclasses.is_dataclass(factory):
        return []
    kinds = option_fields(factory)
    required = _required(factory)
    return [
        {
            "option": field.name.replace("_", "-"),
            "type": getattr(kinds[field.name], "__name__", str(kinds[field.name])),
            "default": "must be given" if field.name in required else str(field.default),
        }
        for field in dataclasses.fields(factory)
        if field.name in kinds
    ]
