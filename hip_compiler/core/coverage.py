"""The operators that can be compiled, read from the table of converters and the schemas that ONNX publishes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx

from hip_compiler.core.conversion import ops as _converters  # noqa: F401  (fills the converter table)
from hip_compiler.core.conversion.early_opsets import RESTATED, SAME
from hip_compiler.core.conversion.onnx_op import CONVERTERS, Converter
from hip_compiler.core.conversion.refused import REFUSED
from hip_compiler.core.frontend.opsets import FIRST
from hip_compiler.dtypes import BY_NAME, DTYPES

FLOATS = ("float16", "bfloat16", "float", "double")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
GROUPS: dict[str, tuple[str, ...]] = {
    "numbers": FLOATS + INTEGERS,
    "floats": FLOATS,
    "integers": INTEGERS,
    "small floats": tuple(d.name for d in DTYPES if d.kind == "float" and d.size == 1),
    "small integers": tuple(d.name for d in DTYPES if d.is_narrow_integer),
}
"""Words for sets of element types, the largest first."""


@dataclass(frozen=True)
class Coverage:
    """An operator that can be compiled, over a range of opset versions of its domain.

    Attributes:
        until: the last version; None: the newest.
        dtypes: element types of the first input, or of the result where there is no input; empty where any will do.
        how: what the operator becomes.
        limits: what of it is refused.
    """

    operator: str
    domain: str
    since: int
    until: int | None
    dtypes: tuple[str, ...]
    how: str
    limits: str

    @property
    def dtype_words(self) -> str:
        """The element types in words: groups first, then single types."""
        return words(self.dtypes) or "any"


def words(dtypes: Iterable[str]) -> str:
    """Element types in as few words as `GROUPS` allows."""
    left, found = set(dtypes), []
    for word, members in GROUPS.items():
        if left.issuperset(members):
            left -= set(members)
            found.append(word)
    return ", ".join([*found, *sorted(left, key=lambda name: BY_NAME[name].onnx)])


def coverage() -> list[Coverage]:
    """Every operator that can be compiled, by domain and name: converted ones, and functions of those."""
    rows = [_row(entry) for entries in CONVERTERS.values() for entry in entries if entry.domain != "hip"]
    for (domain, op), versions in _schemas().items():
        schema = versions[-1]
        has_body = schema.has_function or schema.has_context_dependent_function
        if has_body and not schema.deprecated and (domain, op) not in CONVERTERS:
            since = next(s.since_version for s in versions if s.has_function or s.has_context_dependent_function)
            dtypes = _schema_dtypes(schema)
            rows.append(Coverage(op, domain, since, None, dtypes, "operators of its function body", ""))
    return sorted(rows, key=lambda row: (row.domain, row.operator, row.since))


def refused() -> list[tuple[str, str, str]]:
    """Domain, operator and reason of every operator of ONNX that is not compiled."""
    return [(domain, op, reason) for (domain, op), reason in sorted(REFUSED.items())]


def known_operators() -> set[tuple[str, str]]:
    """Domain and name of every operator that ONNX defines in its newest version."""
    return {key for key, versions in _schemas().items() if not versions[-1].deprecated}


def _row(entry: Converter) -> Coverage:
    versions = _schemas().get((entry.domain, entry.op), [])
    since, until = entry.since, entry.until
    if versions:
        early = entry.domain or entry.op in SAME or entry.op in RESTATED
        since = max(since, versions[0].since_version, 1 if early else FIRST)
        if until is None and versions[-1].deprecated:
            until = versions[-1].since_version - 1
    usable = [
        schema for schema in versions if not schema.deprecated and (until is None or schema.since_version <= until)
    ]
    if entry.dtypes is not None:
        dtypes = _ordered(entry.dtypes)
    else:
        dtypes = _schema_dtypes(usable[-1], texts=entry.texts) if usable else ()
    return Coverage(entry.op, entry.domain, since, until, dtypes, entry.how, entry.limits)


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: BY_NAME[name].onnx))


def _schema_dtypes(schema: Any, *, texts: bool = False) -> tuple[str, ...]:
    """Element types that a schema gives the first input (or else the first output) and a kernel can hold."""
    formal = next(iter([*schema.inputs, *schema.outputs]), None)
    names = [] if formal is None else [text[7:-1] for text in formal.types if text.startswith("tensor(")]
    left_out = ("complex",) if texts else ("string", "complex")
    return _ordered(name for name in names if name in BY_NAME and BY_NAME[name].kind not in left_out)


@cache
def _schemas() -> dict[tuple[str, str], list[Any]]:
    """Schemas of every operator, oldest first."""
    found: dict[tuple[str, str], list[Any]] = {}
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda schema: schema.since_version):
        found.setdefault((schema.domain, schema.name), []).append(schema)
    return found
